"""Take a model server away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from steward.model.actions.checks import Budget, plural
from steward.model.actions.on_instance import OnInstance, positions
from steward.model.identity import DecisionId, GpuId
from steward.model.serving.moment import ServingMoment
from steward.model.yardstick import GPU_TIME

if TYPE_CHECKING:
    from steward.model.actions.start_instance import StartInstance

__all__ = ["DrainInstance"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainInstance(OnInstance):
    """Send a model server nothing new; stop it and free its GPUs when it has ended what it has."""

    instance: str
    instance_type: str
    model: str
    gpu_count: int
    count: int  # how many of this type are left
    type: Literal["drain-instance"] = "drain-instance"

    budget: ClassVar = Budget.DISTURB
    yardstick: ClassVar = GPU_TIME

    @property
    def gpus(self) -> tuple[GpuId, ...]:
        """Return its GPUs by position."""
        return positions(self.instance, self.gpu_count)

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        gpus = plural(self.gpu_count, "GPU")
        return f"Drain {self.instance}, stop it and free its {gpus}"

    def undo(self, _: DecisionId) -> StartInstance:
        """Return what starts it again."""
        from steward.model.actions.start_instance import StartInstance  # noqa: PLC0415 - a cycle

        return StartInstance(
            instance=self.instance,
            instance_type=self.instance_type,
            model=self.model,
            gpu_count=self.gpu_count,
            count=self.count + 1,
        )

    def unmet_in(self, moment: ServingMoment) -> str:
        """Return why it cannot be done now, or an empty text."""
        kind, server = moment.scalable.get(self.instance_type), moment.server(self.instance)
        if kind is None:
            return f"instances of type {self.instance_type} may not be scaled any more"
        if server is None or server.type != self.instance_type:
            return f"the gateway has no {self.instance} of type {self.instance_type}"
        if server.state == "down":
            return ""  # it is none of those that take requests
        return moment.too_few_without(self.instance, kind)

    def seems_done_in(self, moment: ServingMoment) -> bool:
        """Return whether the gateway shows what it would bring about."""
        server = moment.server(self.instance)
        return server is None or server.state == "draining"
