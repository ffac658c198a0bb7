"""Scheduling policies: who gets which GPUs. One file each, in folders by family."""

from steward.decide.scheduling.ask_for_what_is_used import AskForWhatIsUsed
from steward.decide.scheduling.give_back import GiveBack
from steward.decide.scheduling.lend_idle import LendIdle
from steward.decide.scheduling.ordered import ORDERED
from steward.decide.scheduling.save_before_limit import SaveBeforeLimit
from steward.decide.scheduling.tenant_sharing import SHARED
from steward.model.view import ClusterView
from steward.ports import Policy

__all__ = ["POLICIES"]

POLICIES: dict[str, type[Policy[ClusterView]]] = {
    "ask-for-what-is-used": AskForWhatIsUsed,
    "give-back": GiveBack,
    "lend-idle": LendIdle,
    "save-before-limit": SaveBeforeLimit,
    **ORDERED,
    **SHARED,
}
