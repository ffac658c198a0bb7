"""What actions on a job's traffic have in common. The trait has no fields of its own."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Protocol

from steward.model.fabric.view import FabricView, traffic_claim
from steward.model.finding import Finding
from steward.model.identity import GpuId, JobId
from steward.model.view import ClusterView

__all__ = ["OnTraffic"]


class _HasJob(Protocol):
    @property
    def job(self) -> JobId: ...


class OnTraffic:
    """An action on what the endpoints of a job send."""

    __slots__ = ()

    lasts: ClassVar = False
    gpus: ClassVar[tuple[GpuId, ...]] = ()

    @property
    def acts_on(self) -> None:
        """No job starts or stops by it."""
        return

    @property
    def affects(self: _HasJob) -> JobId | None:
        """The job that is left alone for a while when a person refuses."""
        return self.job

    @property
    def claims(self: _HasJob) -> frozenset[str]:
        """What no other open decision may be about."""
        return frozenset({traffic_claim(self.job)})

    @classmethod
    def for_finding(cls, _: Finding, __: ClusterView) -> None:
        """Return None: findings are about clusters so far."""
        return

    def unmet(self, view: ClusterView | FabricView) -> str:
        """Return why it cannot be done now, or an empty text."""
        if not isinstance(view, FabricView):
            return "it is about traffic, and this is no moment of a fabric"
        return self.unmet_in(view)

    def may_be_done(self, view: ClusterView | FabricView) -> bool:
        """Return whether the view looks as if it had been carried out already."""
        return isinstance(view, FabricView) and self.seems_done_in(view)

    @abstractmethod
    def unmet_in(self, view: FabricView) -> str:
        """Return why it cannot be done now, or an empty text."""

    @abstractmethod
    def seems_done_in(self, view: FabricView) -> bool:
        """Return whether the view shows what it would bring about."""
