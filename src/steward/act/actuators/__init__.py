"""Actuators: the engines that decisions are carried out on."""

from steward.act.actuators.dry_run import DryRun
from steward.act.actuators.kubernetes import Kubernetes
from steward.act.actuators.local import Local
from steward.act.actuators.slurm import Slurm
from steward.model.actions import Action
from steward.ports import Actuator

__all__ = ["ACTUATORS"]

ACTUATORS: dict[str, type[Actuator[Action]]] = {
    "dry-run": DryRun,
    "kubernetes": Kubernetes,
    "local": Local,
    "slurm": Slurm,
}
