"""Which actions earned trust in which context: a bandit over measured outcomes, and its proof.

Belongs here: what outcomes say about choosing another action next time. Does not: measuring
outcomes (`act/verify`), or the trust in single rules (`learn/rules`).
"""

from steward.learn.outcomes.bandit import BanditSettings, Chosen, OutcomeBandit
from steward.learn.outcomes.evaluation import ChoiceLog, Comparison, compare, estimates

__all__ = [
    "BanditSettings",
    "ChoiceLog",
    "Chosen",
    "Comparison",
    "OutcomeBandit",
    "compare",
    "estimates",
]
