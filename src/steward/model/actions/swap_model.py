"""Load another model on the GPUs of a model server."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from steward.model.actions.checks import Budget, plural
from steward.model.actions.on_instance import OnInstance, positions
from steward.model.identity import DecisionId, GpuId
from steward.model.serving.moment import ServingMoment
from steward.model.yardstick import DEADLINES

__all__ = ["SwapModel"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapModel(OnInstance):
    """Turn an instance into one of another type, on as many GPUs, when it has ended what it has."""

    instance: str
    before_type: str
    before_model: str
    instance_type: str
    model: str
    gpu_count: int
    type: Literal["swap-model"] = "swap-model"

    budget: ClassVar = Budget.DISTURB
    yardstick: ClassVar = DEADLINES

    @property
    def gpus(self) -> tuple[GpuId, ...]:
        """Return its GPUs by position."""
        return positions(self.instance, self.gpu_count)

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        gpus = plural(self.gpu_count, "GPU")
        return f"Load {self.model} on the {gpus} of {self.instance}, instead of {self.before_model}"

    def undo(self, _: DecisionId) -> SwapModel:
        """Return the way back."""
        return replace(
            self,
            before_type=self.instance_type,
            before_model=self.model,
            instance_type=self.before_type,
            model=self.before_model,
        )

    def unmet_in(self, moment: ServingMoment) -> str:
        """Return why it cannot be done now, or an empty text."""
        server = moment.server(self.instance)
        if server is None or server.type != self.before_type:
            return f"the gateway has no {self.instance} of type {self.before_type}"
        scalable = moment.scalable
        before, then = scalable.get(self.before_type), scalable.get(self.instance_type)
        if before is None or then is None:
            return f"{self.before_type} or {self.instance_type} may not be scaled any more"
        if moment.taken_of(self.instance_type) >= then.most:
            return f"{then.most} of {self.instance_type} are there, and no more may be"
        return moment.too_few_without(self.instance, before)

    def seems_done_in(self, moment: ServingMoment) -> bool:
        """Return whether the gateway shows what it would bring about."""
        server = moment.server(self.instance)
        return server is not None and server.type == self.instance_type
