"""Replay a traced step on the allocator model, with gradients and optimizer states."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from steward.learn.estimators.model_graphs.allocator import CachingAllocator, rounded
from steward.learn.estimators.model_graphs.question import OptimizerMemory

__all__ = ["Peaks", "Step", "activation_bytes", "replay"]

Event = tuple[int, int] | int
_STEPS = 3  # optimizer states exist from the second on; the third finds a settled cache
_LIBRARY_BYTES = (32 << 20, 32 << 20, 1 << 20)  # workspaces of cuBLAS and cuBLASLt, kept for good


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a trace found: events before the step, of the forward and of the backward pass."""

    setup: Sequence[Event]
    forward: Sequence[Event]
    backward: Sequence[Event]
    parameter_bytes: Sequence[int]
    modules: int = 0  # how often modules were called


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """The most that was allocated and reserved at once."""

    allocated_bytes: int
    reserved_bytes: int


def replay(
    step: Step,
    optimizer: OptimizerMemory | None,
    *,
    late_zero_grad: bool = False,
    accumulate: int = 1,
) -> Peaks:
    """Return the peaks over three steps; `late_zero_grad` frees gradients after the forward.

    With `accumulate` the gradients of one pass stay while the next one runs.
    """
    allocator = CachingAllocator()
    for index, size in enumerate(_LIBRARY_BYTES):
        allocator.allocate(("library", index), size)
    _run(allocator, step.setup, "setup")
    held: set[object] = set()
    for number in range(_STEPS):
        if not late_zero_grad:
            _release(allocator, held)
        live = _run(allocator, step.forward, number)
        if late_zero_grad:
            _release(allocator, held)
        held = live | _run(allocator, step.backward, number)
        if accumulate > 1:  # the second pass adds to what is held; a third needs no more
            again = _run(allocator, step.forward, (number, "again"))
            again |= _run(allocator, step.backward, (number, "again"))
            _release(allocator, again)
        if optimizer is not None:
            _optimize(allocator, step.parameter_bytes, optimizer, first=number == 0)
    return Peaks(
        allocated_bytes=allocator.peak_allocated_bytes, reserved_bytes=allocator.reserved_bytes
    )


def _run(allocator: CachingAllocator, events: Iterable[Event], label: object) -> set[object]:
    live: set[object] = set()
    for event in events:
        if isinstance(event, tuple):
            key = (label, event[0])
            allocator.allocate(key, event[1])
            live.add(key)
        else:
            key = (label, -event)
            allocator.free(key)
            live.discard(key)
    return live


def _release(allocator: CachingAllocator, keys: Iterable[object]) -> None:
    for key in sorted(keys, key=repr):
        allocator.free(key)


def _optimize(
    allocator: CachingAllocator, sizes: Sequence[int], optimizer: OptimizerMemory, *, first: bool
) -> None:
    if first:
        _make_states(allocator, sizes, optimizer)
    if optimizer.alone:
        _one_by_one(allocator, sizes, optimizer.temporaries)
        return
    for number in range(optimizer.temporaries):
        for index, size in enumerate(sizes):
            allocator.allocate(("temporary", number, index), size)
    for number in range(optimizer.temporaries):
        for index in range(len(sizes)):
            allocator.free(("temporary", number, index))


def _make_states(
    allocator: CachingAllocator, sizes: Sequence[int], optimizer: OptimizerMemory
) -> None:
    for index, size in enumerate(sizes):
        for state in range(optimizer.states):
            allocator.allocate(("state", state, index), optimizer.state_bytes(size))


def _one_by_one(allocator: CachingAllocator, sizes: Sequence[int], temporaries: int) -> None:
    for size in sizes:
        for number in range(temporaries):
            allocator.allocate(("temporary", number), size)
        for number in range(temporaries):
            allocator.free(("temporary", number))


def activation_bytes(step: Step) -> int:
    """Return the most that a pass holds at once, without what outlives it (gradients)."""
    sizes = {event[0]: rounded(event[1]) for event in _events(step) if isinstance(event, tuple)}
    kept = set(sizes) - {-event for event in _events(step) if not isinstance(event, tuple)}
    live = peak = 0
    for event in _events(step):
        if isinstance(event, tuple):
            live += 0 if event[0] in kept else sizes[event[0]]
        elif -event in sizes:
            live -= sizes[-event]
        peak = max(peak, live)
    return peak


def _events(step: Step) -> Iterable[Event]:
    yield from step.forward
    yield from step.backward
