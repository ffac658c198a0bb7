"""The probe sets: which object each is in, which hooks it needs and which counters it fills."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from steward.errors import unknown_name

__all__ = ["PROBE_SETS", "PROGRAMS", "ProbeSet", "choose_sets"]

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSet:
    """Probes that are turned on and off together."""

    name: str
    meaning: str
    source: str  # programs/SOURCE.bpf.c and .o; two sets may share one
    counters: tuple[str, ...]  # how the names of its counters begin
    tracepoints: tuple[str, ...] = ()  # none: it is attached to functions of libraries


_SETS = (
    ProbeSet(
        name="sched",
        meaning="waiting for a processor, and why tasks sleep",
        source="sched",
        counters=("runq.", "wait."),
        tracepoints=("sched_switch", "sched_wakeup", "sched_wakeup_new", "sched_process_free"),
    ),
    ProbeSet(
        name="block",
        meaning="how long disks take",
        source="block",
        counters=("block.",),
        tracepoints=("block_rq_issue", "block_rq_complete"),
    ),
    ProbeSet(
        name="faults",
        meaning="page faults",
        source="faults",
        counters=("faults.",),
        tracepoints=("page_fault_user",),
    ),
    ProbeSet(
        name="tcp",
        meaning="TCP segments sent again, and round-trip times",
        source="tcp",
        counters=("tcp.",),
        tracepoints=("tcp_retransmit_skb", "tcp_probe"),
    ),
    ProbeSet(
        name="syscalls",
        meaning="system calls of data loaders",
        source="syscalls",
        counters=("calls.",),
        tracepoints=("sys_enter", "sys_exit"),
    ),
    ProbeSet(
        name="cuda",
        meaning="CUDA copies, synchronising and memory, NVTX ranges",
        source="cuda",
        counters=("cuda.copies.", "cuda.synchronise.", "cuda.allocations.", "nvtx."),
    ),
    ProbeSet(
        name="cuda-launch",
        meaning="CUDA kernel launches",
        source="cuda",
        counters=("cuda.launches.",),
    ),
)
PROBE_SETS: Mapping[str, ProbeSet] = {each.name: each for each in _SETS}


def choose_sets(names: Iterable[str]) -> tuple[ProbeSet, ...]:
    """Return the sets of these names; raise with the known ones if there is no such set."""
    names = list(names)
    for name in names:
        if name not in PROBE_SETS:
            raise unknown_name("probe set", name, PROBE_SETS, where="collector ebpf")
    return tuple(each for each in PROBE_SETS.values() if each.name in names)
