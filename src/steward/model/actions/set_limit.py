"""Set how many requests a model server may have in flight."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from steward.model.actions.checks import Budget
from steward.model.actions.on_instance import OnInstance
from steward.model.identity import DecisionId, GpuId
from steward.model.serving.moment import ServingMoment
from steward.model.yardstick import DEADLINES

__all__ = ["SetLimit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLimit(OnInstance):
    """Let the gateway have so many requests in flight at one model server: its batch limit."""

    instance: str
    before: int
    limit: int
    type: Literal["set-limit"] = "set-limit"

    budget: ClassVar = Budget.NONE  # it ends nothing that runs, and is set back at once
    yardstick: ClassVar = DEADLINES

    @property
    def gpus(self) -> tuple[GpuId, ...]:
        """Return none: no GPU changes hands."""
        return ()

    @property
    def claims(self) -> frozenset[str]:
        """What no other open decision may be about: starts and drains need not wait for it."""
        return frozenset({f"limit:{self.instance}"})

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        return f"Let {self.instance} have {self.limit} requests in flight ({self.before} before)"

    def undo(self, _: DecisionId) -> SetLimit:
        """Return the way back."""
        return replace(self, before=self.limit, limit=self.before)

    def unmet_in(self, moment: ServingMoment) -> str:
        """Return why it cannot be done now, or an empty text."""
        if moment.server(self.instance) is None:
            return f"the gateway has no {self.instance} any more"
        return "" if self.limit >= 1 else f"{self.limit} is not a number of requests"

    def seems_done_in(self, moment: ServingMoment) -> bool:
        """Return whether the gateway shows what it would bring about."""
        server = moment.server(self.instance)
        return server is not None and server.limit == self.limit
