"""Probes inside the kernel: C programs compiled in advance, loaded and read through libbpf.

Belongs here: the programs (`programs/*.bpf.c`, built by `scripts/build_bpf`), loading, attaching
and reading them. Does not: what a job is (`clients/cgroups.py`) or what a metric is called.
"""
