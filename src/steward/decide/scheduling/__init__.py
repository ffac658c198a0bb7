"""Scheduling policies: who gets which GPUs. One file each, in folders by family."""

from steward.decide.scheduling.ask_for_what_is_used import AskForWhatIsUsed
from steward.decide.scheduling.give_back import GiveBack
from steward.decide.scheduling.grow_into_idle import GrowIntoIdle
from steward.decide.scheduling.lend_idle import LendIdle
from steward.decide.scheduling.ordered import ORDERED
from steward.decide.scheduling.pack_light import PackLight
from steward.decide.scheduling.raise_late import RaiseLate
from steward.decide.scheduling.release_unused import ReleaseUnused
from steward.decide.scheduling.save_before_limit import SaveBeforeLimit
from steward.decide.scheduling.separate_slowed import SeparateSlowed
from steward.decide.scheduling.tenant_sharing import SHARED
from steward.model.view import ClusterView
from steward.ports import Policy

__all__ = ["POLICIES"]

POLICIES: dict[str, type[Policy[ClusterView]]] = {
    "ask-for-what-is-used": AskForWhatIsUsed,
    "give-back": GiveBack,
    "grow-into-idle": GrowIntoIdle,
    "lend-idle": LendIdle,
    "pack-light": PackLight,
    "raise-late": RaiseLate,
    "release-unused": ReleaseUnused,
    "save-before-limit": SaveBeforeLimit,
    "separate-slowed": SeparateSlowed,
    **ORDERED,
    **SHARED,
}
