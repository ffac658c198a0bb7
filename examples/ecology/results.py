"""What came of a season under one strategy: by week, and by retraining."""

from __future__ import annotations

from dataclasses import dataclass

from ecology.placement import Plan

__all__ = ["Retraining", "SeasonResult", "WeekResult"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeekResult:
    """One week: how good the answers at the edge were, and what they took."""

    week: int
    f1: float  # of all frames, blank ones too, over the classes
    accuracy: float
    recall: float  # share of frames with an animal whose crop was sent
    frames: int
    labels: int  # bought in this week
    sent_bytes: int
    frame_bytes: int  # if every frame had been sent
    joules: float
    waited: int  # frames that the day's energy did not cover, summed over days


@dataclass(frozen=True, slots=True, kw_only=True)
class Retraining:
    """One training: why, where, what was expected, what it took, and whether it was deployed."""

    day: int
    why: str
    crops: int
    steps: int
    plan: Plan
    predicted_s: float
    actual_s: float  # of a core
    predicted_wall_s: float
    wall_s: float
    predicted_bytes: float
    peak_bytes: float
    f1_before: float  # of held-out labels
    f1_after: float
    deployed: bool
    job: str = ""  # of steward
    attempts: int = 1
    bit_equal: bool | None = None  # to the same training undisturbed

    @property
    def error_share(self) -> float:
        """Return how far the prediction was off."""
        return abs(self.predicted_s - self.actual_s) / self.actual_s


@dataclass(frozen=True, slots=True, kw_only=True)
class SeasonResult:
    """All of a season under one strategy."""

    strategy: str
    weeks: tuple[WeekResult, ...]
    retrainings: tuple[Retraining, ...]
    start_labels: int
    crops: int  # that the detectors kept: what labelling everything means
    alarms: tuple[tuple[int, str], ...] = ()  # day, reason

    @property
    def labels(self) -> int:
        """Return how many labels were bought, those of the start included."""
        return self.start_labels + sum(each.labels for each in self.weeks)

    @property
    def labels_share(self) -> float:
        """Return the labels as a share of those of labelling every kept crop."""
        return self.labels / (self.start_labels + self.crops)

    @property
    def saved_share(self) -> float:
        """Return the share of bytes that were not sent."""
        frames = sum(each.frame_bytes for each in self.weeks)
        return 1.0 - sum(each.sent_bytes for each in self.weeks) / frames

    @property
    def recall(self) -> float:
        """Return the mean over weeks of the share of animals whose crop was sent."""
        return sum(each.recall for each in self.weeks) / len(self.weeks)

    @property
    def usd(self) -> float:
        """Return what all trainings cost, where they were placed."""
        return sum(each.plan.chosen.usd for each in self.retrainings if each.plan.chosen)

    @property
    def grams_co2(self) -> float:
        """Return what all trainings emitted, where they were placed."""
        return sum(each.plan.chosen.grams_co2 for each in self.retrainings if each.plan.chosen)
