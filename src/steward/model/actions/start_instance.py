"""Start one more model server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from steward.model.actions.checks import Budget, plural
from steward.model.actions.on_instance import OnInstance, positions
from steward.model.identity import DecisionId, GpuId
from steward.model.serving.moment import ServingMoment
from steward.model.yardstick import DEADLINES

if TYPE_CHECKING:
    from steward.model.actions.drain_instance import DrainInstance

__all__ = ["StartInstance"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartInstance(OnInstance):
    """Start a model server of a type, and let the gateway send it requests when it answers."""

    instance: str
    instance_type: str
    model: str
    gpu_count: int
    count: int  # how many of this type there are then
    role: str = "any"  # which classes it is kept for: any, interactive, batch
    type: Literal["start-instance"] = "start-instance"

    budget: ClassVar = Budget.START
    yardstick: ClassVar = DEADLINES

    @property
    def gpus(self) -> tuple[GpuId, ...]:
        """Return its GPUs by position."""
        return positions(self.instance, self.gpu_count)

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        gpus = plural(self.gpu_count, "GPU")
        return f"Start {self.instance} with {self.model} on {gpus}, the {self.count}. of its type"

    def undo(self, _: DecisionId) -> DrainInstance:
        """Return what takes it away again."""
        from steward.model.actions.drain_instance import DrainInstance  # noqa: PLC0415 - a cycle

        return DrainInstance(
            instance=self.instance,
            instance_type=self.instance_type,
            model=self.model,
            gpu_count=self.gpu_count,
            count=self.count - 1,
        )

    def unmet_in(self, moment: ServingMoment) -> str:
        """Return why it cannot be done now, or an empty text."""
        kind = moment.scalable.get(self.instance_type)
        if kind is None:
            return f"instances of type {self.instance_type} may not be scaled any more"
        if moment.server(self.instance) is not None:
            return f"{self.instance} is there already"
        taken = moment.taken_of(self.instance_type, but=self.instance)
        full = taken >= kind.most
        return f"{taken} of {self.instance_type} are there, and {kind.most} may be" if full else ""

    def seems_done_in(self, moment: ServingMoment) -> bool:
        """Return whether the gateway shows what it would bring about."""
        return moment.server(self.instance) is not None
