"""The probe sets, one file each; a set is turned on and off as a whole.

Belongs here: what runs inside the kernel. Does not: loading it (`clients/bpf/probes.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

from steward.clients.bpf.programs.block import BLOCK
from steward.clients.bpf.programs.cuda import CUDA, CUDA_LAUNCH
from steward.clients.bpf.programs.faults import FAULTS
from steward.clients.bpf.programs.sched import SCHED
from steward.clients.bpf.programs.shared import ProbeSet
from steward.clients.bpf.programs.syscalls import SYSCALLS
from steward.clients.bpf.programs.tcp import TCP

__all__ = ["PROBE_SETS"]

PROBE_SETS: Mapping[str, ProbeSet] = {
    each.name: each for each in (SCHED, BLOCK, FAULTS, TCP, SYSCALLS, CUDA, CUDA_LAUNCH)
}
