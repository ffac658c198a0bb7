"""The only place that speaks to NVML, to the host, and later to Slurm, Kubernetes and the rest.

Belongs here: calls, their errors, and the raw words and units of the other side. Does not: what
any of it means for a cluster; collectors and actuators translate.
"""
