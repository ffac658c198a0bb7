"""What actions on followed jobs have in common. The trait has no fields of its own."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Protocol

from steward.model.finding import Finding
from steward.model.identity import GpuId, JobId
from steward.model.planning.view import PlanningView, followed_claim
from steward.model.view import ClusterView

__all__ = ["OnFollowed"]


class _HasJob(Protocol):
    @property
    def job(self) -> str: ...


class OnFollowed:
    """An action on a job that `steward jobs submit --plan` submitted, or on what it is a run of."""

    __slots__ = ()

    returns: ClassVar = False
    lasts: ClassVar = False
    gpus: ClassVar[tuple[GpuId, ...]] = ()

    @property
    def acts_on(self) -> None:
        """No job of one engine's queue starts or stops by it."""
        return

    @property
    def affects(self: _HasJob) -> JobId | None:
        """The job that is left alone for a while when a person refuses."""
        return JobId(self.job)

    @property
    def claims(self: _HasJob) -> frozenset[str]:
        """What no other open decision may be about."""
        return frozenset({followed_claim(self.job)})

    @classmethod
    def for_finding(cls, _: Finding, __: ClusterView) -> None:
        """Return None: findings are about clusters so far."""
        return

    def undo(self, _: object) -> None:
        """Return None: a job that has moved is moved back only where that is better again."""
        return

    def unmet(self, view: ClusterView | PlanningView) -> str:
        """Return why it cannot be done now, or an empty text."""
        if not isinstance(view, PlanningView):
            return "it is about followed jobs, and this is a moment of a cluster"
        return self.unmet_in(view)

    def may_be_done(self, view: ClusterView | PlanningView) -> bool:
        """Return whether the view looks as if it had been carried out already."""
        return isinstance(view, PlanningView) and self.seems_done_in(view)

    @abstractmethod
    def unmet_in(self, view: PlanningView) -> str:
        """Return why it cannot be done now, or an empty text."""

    @abstractmethod
    def seems_done_in(self, view: PlanningView) -> bool:
        """Return whether the view shows what it would bring about."""
