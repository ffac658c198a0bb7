"""Small programs inside the kernel, without a compiler, a library or a mounted file system.

Belongs here: assembling programs, asking the kernel for its own layout (BTF), loading, attaching
and reading them. Does not: what a job is (`clients/cgroups.py`) or what a metric is called.
"""
