"""Ours, for GPUs that two jobs can share: packing by measured interference, and by nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from steward.decide.scheduling.colocation.interface import (
    ColocationChoice,
    ColocationView,
    Line,
    Profiling,
    Share,
    Solo,
    StartAlone,
)
from steward.errors import StewardError

__all__ = ["CommonsPacked"]

_NOBODY = (-1.0, -1, -1)
_Lines = Mapping[float, Sequence[Line]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonsPacked:
    """The least expected GPU time first; without a free GPU, two share where measured to pay.

    Whoever fits takes free GPUs, and who does not fit is passed over. Where there are no free ones
    for it, a job joins one that runs alone on as many GPUs, if it was measured that the two get
    `least_together` times as much done as one alone: that is the sum of their speeds. Among several
    it takes the largest sum, then the partner that is expected to take longest. Pairs that nobody
    measured never share. Nobody is stopped, moved, or tried out.

    Why 4/3: any sum above 1 gets more done, but slows the one that runs already. Two that share at
    a speed of s each end on average no later than one after the other if s is at least 2/3,
    whatever is left of either: the pair does not pay for what all behind it gain.
    """

    packs: bool = True
    least_together: float = 4.0 / 3.0
    trial_s: ClassVar[float] = 0.0
    move_s: ClassVar[float] = 0.0
    keeps_sizes_together: ClassVar[bool] = False
    name: str = "commons-packed"

    def __post_init__(self) -> None:
        if not self.least_together > 1.0:
            raise StewardError(
                f"least_together is {self.least_together}: pairs would share and gain nothing",
                where=self.name,
                hint="give the sum of both speeds, of their speeds alone: above 1, at most 2",
            )

    def profiling(self, total_gpus: int, gpus_per_node: int) -> Profiling | None:
        del total_gpus, gpus_per_node
        return None

    def rank(self, predicted_s: float, gpus: float) -> float:
        return predicted_s * gpus

    def score(self, shared_speed: float) -> int:
        del shared_speed  # a mean over partners: each pair is looked up instead
        return 0

    def decide(self, moment: ColocationView) -> tuple[ColocationChoice, ...]:
        """Return who is served next: the first of a kind stands for all behind it."""
        alone = _by_gpus(moment.solos) if self.packs else {}
        for (_, _, job), kind in sorted((line[0], kind) for kind, line in moment.waiting.items()):
            if moment.fits(job):
                return (StartAlone(job=job),)
            partner = self._partner(moment, job, alone.get(kind.gpus, ()))
            if partner >= 0:
                return (Share(job=job, partner=partner),)
        return ()

    def _partner(self, moment: ColocationView, job: int, lines: Sequence[Line]) -> int:
        """Return with whom the job gets most done; -1: with nobody enough."""
        best = (self.least_together, _NOBODY)
        for line in lines:
            together = sum(moment.pair_speeds(job, line[0][2]))  # the same for all in a line
            if together >= best[0]:  # never true of NaN
                for each in reversed(line):
                    if moment.may_join(job, each[2]):
                        best = max(best, (together, each))
                        break
        return best[1][2]


def _by_gpus(solos: Mapping[Solo, Line]) -> _Lines:
    """Return the lines by size, without those that nobody measured: they are looked at often."""
    lines: dict[float, list[Line]] = {}
    for solo, line in solos.items():
        if solo.model >= 0:
            lines.setdefault(solo.gpus, []).append(line)
    return lines
