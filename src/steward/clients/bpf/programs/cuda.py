"""Calls of the CUDA driver library: launches, copies, waiting, memory; and NVTX ranges.

These are probes inside a program, which cost it a trap (a microsecond or two) per call. So
launches, of which there are tens of thousands a second, are a set of their own, for who asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from steward.clients.bpf.assembler import Code, Helper, Register
from steward.clients.bpf.programs.shared import (
    Kit,
    ProbeSet,
    Program,
    cgroup_of,
    note,
    record_of,
    storage_of,
)

__all__ = ["CUDA", "CUDA_LAUNCH", "Call", "calls_of", "entry", "finish", "spellings"]

R0, R1, R2, R3, R6, R7, R8, R9 = (Register(number) for number in (0, 1, 2, 3, 6, 7, 8, 9))

# where the kernel puts the arguments of a function of a program: `pt_regs` by processor
_ARGUMENTS = {"x86_64": (112, 104, 96, 88), "aarch64": (0, 8, 16, 24)}
_SUFFIXES = ("", "_v2", "_v3", "_ptds", "_ptsz", "_v2_ptds", "_v2_ptsz")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One kind of call: the functions that make it, what is counted, and its bytes or its time."""

    name: str
    library: str  # how the name of the file begins
    functions: tuple[str, ...]
    bytes_argument: int = -1  # which argument says how many bytes, if one does
    timed: bool = False


_LAUNCH = (
    Call(
        name="cuda.launches",
        library="libcuda.so",
        functions=(
            "cuLaunchKernel",
            "cuLaunchKernelEx",
            "cuLaunchCooperativeKernel",
            "cuGraphLaunch",
        ),
    ),
)
_CALLS = (
    Call(
        name="cuda.copies.to_device",
        library="libcuda.so",
        functions=("cuMemcpyHtoD", "cuMemcpyHtoDAsync"),
        bytes_argument=2,
    ),
    Call(
        name="cuda.copies.to_host",
        library="libcuda.so",
        functions=("cuMemcpyDtoH", "cuMemcpyDtoHAsync"),
        bytes_argument=2,
    ),
    Call(
        name="cuda.copies.other",
        library="libcuda.so",
        functions=(
            "cuMemcpy",
            "cuMemcpyAsync",
            "cuMemcpyDtoD",
            "cuMemcpyDtoDAsync",
        ),
        bytes_argument=2,
    ),
    Call(
        name="cuda.synchronise",
        library="libcuda.so",
        functions=("cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize"),
        timed=True,
    ),
    Call(
        name="cuda.allocations",
        library="libcuda.so",
        functions=("cuMemAlloc", "cuMemAllocAsync", "cuMemAllocManaged"),
        bytes_argument=1,
    ),
    Call(name="nvtx.pushes", library="libnvToolsExt.so", functions=("nvtxRangePushA",)),
    Call(name="nvtx.pops", library="libnvToolsExt.so", functions=("nvtxRangePop",)),
)


def calls_of(probe_set: str) -> tuple[Call, ...]:
    """Return what a set of CUDA probes counts."""
    return {"cuda": _CALLS, "cuda-launch": _LAUNCH}[probe_set]


def spellings(function: str) -> tuple[str, ...]:
    """Return the names that a library may export a function under: versions and stream kinds."""
    return tuple(function + suffix for suffix in _SUFFIXES)


def entry(kit: Kit, call: Call) -> Code:
    """Count a call, with its bytes; or remember when it began."""
    code = Code(call.name.replace(".", "_"))
    if call.bytes_argument >= 0:
        code.load(R8, R1, _ARGUMENTS[kit.machine][call.bytes_argument])
    code.call(Helper.CURRENT_TASK)
    code.move(R6, R0)
    if call.timed:
        _remember(code, kit)
    else:
        _count(code, kit, call)
    code.label("out")
    code.leave()
    return code


def _remember(code: Code, kit: Kit) -> None:
    storage_of(code, kit, R6, create=True)
    code.jump_if(R0, "!=", 0, "kept")
    note(code, kit, "lost_tasks")
    code.jump("out")
    code.label("kept")
    code.move(R7, R0)
    code.call(Helper.KTIME_NS)
    code.store(R7, kit.task_offsets["cuda_ns"], R0)


def _count(code: Code, kit: Kit, call: Call) -> None:
    cgroup_of(code, kit, R6, R1)
    record_of(code, kit, R1, otherwise="out")
    code.move(R1, 1)
    code.add_to(R0, kit.places.offsets[f"{call.name}.count"], R1)
    if call.bytes_argument >= 0:
        code.add_to(R0, kit.places.offsets[f"{call.name}.bytes"], R8)


def finish(kit: Kit, call: Call) -> Code:
    """Count a call that ends, with the time since it began."""
    code = Code(call.name.replace(".", "_") + "_end")
    code.call(Helper.CURRENT_TASK)
    code.move(R6, R0)
    storage_of(code, kit, R6, create=False)
    code.jump_if(R0, "==", 0, "out")
    code.move(R7, 0)
    code.exchange(R0, kit.task_offsets["cuda_ns"], R7)
    code.jump_if(R7, "==", 0, "out")
    code.call(Helper.KTIME_NS)
    code.move(R8, R0)
    code.compute(R8, "-", R7)
    cgroup_of(code, kit, R6, R1)
    record_of(code, kit, R1, otherwise="out")
    code.move(R1, 1)
    code.add_to(R0, kit.places.offsets[f"{call.name}.count"], R1)
    code.add_to(R0, kit.places.offsets[f"{call.name}.ns"], R8)
    code.label("out")
    code.leave()
    return code


def _counters(calls: tuple[Call, ...]) -> Mapping[str, int]:
    counters = {}
    for call in calls:
        counters[f"{call.name}.count"] = 1
        if call.bytes_argument >= 0:
            counters[f"{call.name}.bytes"] = 1
        if call.timed:
            counters[f"{call.name}.ns"] = 1
    return counters


def _none(kit: Kit) -> tuple[Program, ...]:
    """Return no program: these hang on files, which are found while jobs run."""
    del kit
    return ()


CUDA = ProbeSet(
    name="cuda",
    meaning="CUDA copies, synchronising and memory, NVTX ranges",
    tracepoints={},
    counters=_counters(_CALLS),
    build=_none,
    remembers=("cuda_ns",),
)
CUDA_LAUNCH = ProbeSet(
    name="cuda-launch",
    meaning="CUDA kernel launches",
    tracepoints={},
    counters=_counters(_LAUNCH),
    build=_none,
)
