"""Clients of NVML, the host, Slurm, Kubernetes and every other external system.

Belongs here: calls, their errors, and the raw names and units of the other side. Does not: what
any of it means for a cluster; collectors and actuators translate.
"""
