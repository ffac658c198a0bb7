"""What actions on blocks of a process's memory have in common. The trait has no fields."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Protocol

from steward.model.actions.checks import plural
from steward.model.finding import Finding
from steward.model.identity import GpuId, JobId
from steward.model.memory.moment import MemoryMoment, block_claim
from steward.model.serving.moment import ServingMoment
from steward.model.view import ClusterView

__all__ = ["OnBlocks", "size_of"]


class _HasBlocks(Protocol):
    @property
    def process(self) -> str: ...

    @property
    def blocks(self) -> tuple[tuple[int, int], ...]: ...


def size_of(blocks: Sequence[tuple[int, int]]) -> str:
    """Return how much memory blocks are.

    >>> size_of([(0, 2097152), (4194304, 6291456)])
    '2 blocks (4.0 MiB)'
    """
    total = sum(end - start for start, end in blocks)
    return f"{plural(len(blocks), 'block')} ({total / 2**20:.1f} MiB)"


class OnBlocks:
    """An action on blocks of one process; `process` is its number and when it started."""

    __slots__ = ()

    returns: ClassVar = False
    lasts: ClassVar = False

    @property
    def gpus(self) -> tuple[GpuId, ...]:
        """Return nothing: no GPU is disturbed."""
        return ()

    @property
    def acts_on(self) -> None:
        """No job of the queue starts or stops by it."""
        return

    @property
    def affects(self: _HasBlocks) -> JobId:
        """The process that is left alone for a while when a person refuses."""
        return JobId(self.process)

    @property
    def claims(self: _HasBlocks) -> frozenset[str]:
        """What no other open decision may be about."""
        return frozenset(block_claim(self.process, start) for start, _ in self.blocks)

    @classmethod
    def for_finding(cls, _: Finding, __: ClusterView) -> None:
        """Return None: findings do not name addresses."""
        return

    def unmet(self, view: ClusterView | ServingMoment | MemoryMoment) -> str:
        """Return why it cannot be done now, or an empty text."""
        if not isinstance(view, MemoryMoment):
            return "it is about a process's memory, and this is a moment of something else"
        return view.unknown or self.unmet_in(view)  # type: ignore[misc]  # subclasses have blocks

    def may_be_done(self, view: ClusterView | ServingMoment | MemoryMoment) -> bool:
        """Return whether the view looks as if it had been carried out already."""
        return isinstance(view, MemoryMoment) and self.seems_done_in(view)

    def unmet_in(self: _HasBlocks, moment: MemoryMoment) -> str:
        """Return why it cannot be done now: it is about another process, or other mappings."""
        if moment.snapshot.process != self.process:
            return f"process {self.process} has ended"
        there = {*moment.snapshot.start.tolist()}
        gone = sum(start not in there for start, _ in self.blocks)
        return f"{plural(gone, 'block')} of it are not mapped any more" if gone else ""

    @abstractmethod
    def seems_done_in(self, moment: MemoryMoment) -> bool:
        """Return whether the process shows what it would bring about."""
