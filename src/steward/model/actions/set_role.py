"""Set which deadline classes a model server is kept for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from steward.model.actions.checks import Budget
from steward.model.actions.on_instance import OnInstance
from steward.model.identity import DecisionId, GpuId
from steward.model.serving.moment import ServingMoment
from steward.model.serving.view import ROLES
from steward.model.yardstick import DEADLINES

__all__ = ["SetRole"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRole(OnInstance):
    """Keep a model server for requests of some classes; what it has, it ends."""

    instance: str
    before: str
    role: str  # any, interactive, batch
    type: Literal["set-role"] = "set-role"

    budget: ClassVar = Budget.NONE  # it ends nothing that runs, and is set back at once
    yardstick: ClassVar = DEADLINES

    @property
    def gpus(self) -> tuple[GpuId, ...]:
        """Return none: no GPU changes hands."""
        return ()

    @property
    def claims(self) -> frozenset[str]:
        """What no other open decision may be about: starts and drains need not wait for it."""
        return frozenset({f"role:{self.instance}"})

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        return f"Keep {self.instance} for {self.role} requests ({self.before} before)"

    def undo(self, _: DecisionId) -> SetRole:
        """Return the way back."""
        return replace(self, before=self.role, role=self.before)

    def unmet_in(self, moment: ServingMoment) -> str:
        """Return why it cannot be done now, or an empty text."""
        if moment.server(self.instance) is None:
            return f"the gateway has no {self.instance} any more"
        return "" if self.role in ROLES else f"'{self.role}' is no role: {', '.join(ROLES)}"

    def seems_done_in(self, moment: ServingMoment) -> bool:
        """Return whether the gateway shows what it would bring about."""
        server = moment.server(self.instance)
        return server is not None and server.role == self.role
