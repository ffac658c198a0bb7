"""What can be done: one module per action, and the table of them.

An action is a frozen value. It names what it acts on (`acts_on`, `claims`), whom it disturbs
(`affects`), which of the guard's budgets it is charged to (`budget`), what must hold when it is
carried out (`unmet`), how it is undone (`undo`), what its outcome is measured in (`yardstick`), and
the sentence that describes it (`sentence`). Command line, API, pages, dry run, rule language and
reference are derived from these: a new action is its module and one line here, plus the actuators
that can carry it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import get_args

from steward.model.actions.call_back import CallBack
from steward.model.actions.cap_power import CapPower
from steward.model.actions.checks import Budget
from steward.model.actions.demote import Demote
from steward.model.actions.diagnose import Diagnose
from steward.model.actions.drain import Drain
from steward.model.actions.drain_instance import DrainInstance
from steward.model.actions.end_copy import EndCopy
from steward.model.actions.lend import Lend
from steward.model.actions.migrate import Migrate
from steward.model.actions.move_job import MoveJob
from steward.model.actions.pin import Pin
from steward.model.actions.preempt import Preempt
from steward.model.actions.promote import Promote
from steward.model.actions.reboot import Reboot
from steward.model.actions.recalibrate import Recalibrate
from steward.model.actions.release import Release
from steward.model.actions.reprioritise import Reprioritise
from steward.model.actions.reset import Reset
from steward.model.actions.resize import Resize
from steward.model.actions.resume import Resume
from steward.model.actions.right_size import RightSize
from steward.model.actions.save import Save
from steward.model.actions.set_limit import SetLimit
from steward.model.actions.set_role import SetRole
from steward.model.actions.start import Start
from steward.model.actions.start_campaign import StartCampaign
from steward.model.actions.start_instance import StartInstance
from steward.model.actions.swap_model import SwapModel
from steward.model.actions.tell import OPERATORS, Tell
from steward.model.actions.throttle import Throttle
from steward.model.actions.undrain import Undrain

__all__ = [
    "ACTIONS",
    "FABRIC_ACTIONS",
    "MEMORY_ACTIONS",
    "OPERATORS",
    "PLANNING_ACTIONS",
    "SERVING_ACTIONS",
    "Action",
    "Budget",
    "CallBack",
    "CapPower",
    "Demote",
    "Diagnose",
    "Drain",
    "DrainInstance",
    "EndCopy",
    "FabricAction",
    "Lend",
    "MemoryAction",
    "Migrate",
    "MoveJob",
    "Pin",
    "PlanningAction",
    "Preempt",
    "Promote",
    "Reboot",
    "Recalibrate",
    "Release",
    "Reprioritise",
    "Reset",
    "Resize",
    "Resume",
    "RightSize",
    "Save",
    "ServingAction",
    "SetLimit",
    "SetRole",
    "Start",
    "StartCampaign",
    "StartInstance",
    "SwapModel",
    "Tell",
    "Throttle",
    "Undrain",
    "domain_of",
]

FabricAction = Release | Throttle
MemoryAction = Demote | Pin | Promote
PlanningAction = EndCopy | MoveJob | Recalibrate | StartCampaign
ServingAction = DrainInstance | SetLimit | SetRole | StartInstance | SwapModel
Action = (
    CallBack
    | CapPower
    | Diagnose
    | Demote
    | Drain
    | DrainInstance
    | EndCopy
    | Lend
    | Migrate
    | MoveJob
    | Pin
    | Preempt
    | Reboot
    | Promote
    | Recalibrate
    | Release
    | Reprioritise
    | Reset
    | Resize
    | Resume
    | RightSize
    | Save
    | SetLimit
    | SetRole
    | Start
    | StartCampaign
    | StartInstance
    | SwapModel
    | Tell
    | Throttle
    | Undrain
)
ACTIONS: Mapping[str, type[Action]] = MappingProxyType(
    {cls.__dataclass_fields__["type"].default: cls for cls in get_args(Action)}
)
FABRIC_ACTIONS: tuple[type[FabricAction], ...] = get_args(FabricAction)
MEMORY_ACTIONS: tuple[type[MemoryAction], ...] = get_args(MemoryAction)
PLANNING_ACTIONS: tuple[type[PlanningAction], ...] = get_args(PlanningAction)
SERVING_ACTIONS: tuple[type[ServingAction], ...] = get_args(ServingAction)


def domain_of(action: Action) -> str:
    """Return which domain's loop an action belongs to.

    Loops of several domains share a journal: each takes up what is its own.
    """
    if isinstance(action, FABRIC_ACTIONS):
        return "fabric"
    if isinstance(action, PLANNING_ACTIONS):
        return "planning"
    if isinstance(action, MEMORY_ACTIONS):
        return "memory"
    return "serving" if isinstance(action, SERVING_ACTIONS) else "cluster"
