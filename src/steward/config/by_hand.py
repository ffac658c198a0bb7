"""Which engine's words a person needs to do by hand what was decided."""

from __future__ import annotations

from typing import Any

from steward.act.actuators import ACTUATORS
from steward.config.plugs import own_options
from steward.config.settings import Settings
from steward.errors import StewardError
from steward.model.by_hand import ByHand
from steward.model.decision import Decision
from steward.ports import ShowsCommands
from steward.registry import resolve

__all__ = ["by_hand"]


def by_hand(settings: Settings, decision: Decision, t_s: float) -> tuple[str, ByHand]:
    """Return the name of the engine, and what a person would type there for a decision."""
    name = _engine(settings)
    options: dict[str, Any] = own_options("actuator", name, settings.plugs.get(name, {}))
    engine = resolve("actuator", name, ACTUATORS)(**options)
    if not isinstance(engine, ShowsCommands):
        problem = f"'{name}' does not say what a person would type"
        raise StewardError(problem, where="act.actuator", hint="set slurm, kubernetes or local")
    return name, engine.by_hand(decision, t_s)


def _engine(settings: Settings) -> str:
    """Return the engine that is acted on, or the one that is looked at where none is."""
    if settings.act.actuator != "dry-run":
        return settings.act.actuator
    seen = (each for each in ("slurm", "kubernetes") if each in settings.observe.collectors)
    return next(seen, "local")
