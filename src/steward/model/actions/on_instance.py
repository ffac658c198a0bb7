"""What actions on model servers have in common. The trait has no fields of its own."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Protocol

from steward.model.finding import Finding
from steward.model.identity import GpuId, JobId
from steward.model.serving.moment import ServingMoment, instance_claim
from steward.model.view import ClusterView

__all__ = ["OnInstance", "positions"]


class _HasInstance(Protocol):
    @property
    def instance(self) -> str: ...


def positions(instance: str, count: int) -> tuple[GpuId, ...]:
    """Return GPUs of an instance by position: budgets count them; the engine knows which.

    >>> positions("chat-1", 2)
    ('chat-1/gpu0', 'chat-1/gpu1')
    """
    return tuple(GpuId(f"{instance}/gpu{index}") for index in range(count))


class OnInstance:
    """An action on one model server, by its name in the gateway."""

    __slots__ = ()

    returns: ClassVar = False
    lasts: ClassVar = False

    @property
    def acts_on(self) -> None:
        """No job of the queue starts or stops by it."""
        return

    @property
    def affects(self: _HasInstance) -> JobId:
        """The instance that is left alone for a while when a person refuses."""
        return JobId(self.instance)

    @property
    def claims(self: _HasInstance) -> frozenset[str]:
        """What no other open decision may be about."""
        return frozenset({instance_claim(self.instance)})

    @classmethod
    def for_finding(cls, _: Finding, __: ClusterView) -> None:
        """Return None: findings are about clusters so far."""
        return

    def unmet(self, view: ClusterView | ServingMoment) -> str:
        """Return why it cannot be done now, or an empty text."""
        if not isinstance(view, ServingMoment):
            return "it is about model servers, and this is a moment of a cluster"
        return view.unknown or self.unmet_in(view)

    def may_be_done(self, view: ClusterView | ServingMoment) -> bool:
        """Return whether the view looks as if it had been carried out already."""
        return isinstance(view, ServingMoment) and self.seems_done_in(view)

    @abstractmethod
    def unmet_in(self, moment: ServingMoment) -> str:
        """Return why it cannot be done now, or an empty text."""

    @abstractmethod
    def seems_done_in(self, moment: ServingMoment) -> bool:
        """Return whether the gateway shows what it would bring about."""
