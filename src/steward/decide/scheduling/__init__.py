"""Scheduling policies: who gets which GPUs. One file each."""

from steward.decide.scheduling.give_back import GiveBack
from steward.decide.scheduling.lend_idle import LendIdle
from steward.ports import Policy

__all__ = ["POLICIES"]

POLICIES: dict[str, type[Policy]] = {"give-back": GiveBack, "lend-idle": LendIdle}
