"""Actuators: the engines that decisions are carried out on."""

from steward.act.actuators.dry_run import DryRun
from steward.model.actions import Action
from steward.ports import Actuator

__all__ = ["ACTUATORS"]

ACTUATORS: dict[str, type[Actuator[Action]]] = {"dry-run": DryRun}
