"""What all rank-based policies have in common: they are data, and decide through one driver."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from steward.decide.placement import PLACEMENTS
from steward.decide.scheduling.live.decisions import decide_by_rank
from steward.decide.scheduling.ranking import Law, Ranking
from steward.errors import StewardError, unknown_name
from steward.model.decision import Decision
from steward.model.view import ClusterView

__all__ = ["RankedPolicy"]

_LEARNED = ("strength", "memory")  # the lab learns by the policy's own, live by the estimator's


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedPolicy:
    """A policy that `ranking` describes; `placement` chooses the GPUs, where the lab does not."""

    name: str
    placement: str = "packed"

    def __post_init__(self) -> None:
        """Refuse placements that do not exist."""
        if self.placement not in PLACEMENTS:
            raise unknown_name("placement", self.placement, PLACEMENTS, where=self.name)

    @property
    @abstractmethod
    def ranking(self) -> Ranking:
        """Return the policy as data."""

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        """Return what to stop and start now, in this policy's order."""
        for option in _LEARNED:
            if getattr(self.ranking, option) != getattr(_DEFAULT, option):
                raise StewardError(
                    f"{option} of {self.name} counts in the lab only",
                    where=f"policy {self.name}",
                    hint=f"set `{option}` of the estimator similar-jobs instead",
                )
        return decide_by_rank(self.name, self.ranking, view, placement=self.placement)


_DEFAULT = Ranking(law=Law.ARRIVAL)
