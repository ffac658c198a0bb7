"""When ended jobs say that plans of an application are wrong: corrections, and measuring anew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from math import comb, log

from steward.model.planning.calibration import Calibration, RunError

__all__ = ["corrections", "drifted"]

NEWEST = 20  # errors that a correction is from
LEAST_CHANGE = 0.05  # of the logarithm of a factor, below which it stays
WATCHED = 6  # of the newest jobs of an application
CHANCE_OUTSIDE = 0.1  # of a job to end outside its range, if the range is right
SURE = 0.02  # the chance of so many outside by accident, below which it is drift


def corrections(
    errors: Sequence[RunError], in_force: Sequence[Calibration]
) -> tuple[Calibration, ...]:
    """Return the corrections that differ from those in force."""
    known = {(each.name, each.gpu_model): each for each in in_force}
    found = []
    for key, group in groupby(sorted(errors, key=_key), key=_key):
        made = Calibration.of(list(group)[-NEWEST:])
        before = known.get(key)
        change = log(made.factor / (before.factor if before is not None else 1.0))
        if abs(change) > LEAST_CHANGE and (before is None or before.jobs != made.jobs):
            found.append(made)
    return tuple(found)


def drifted(errors: Iterable[RunError], *, since_s: float) -> str:
    """Return why runs of one application have drifted from their plans since then, or nothing."""
    newest = [each for each in errors if each.t_s > since_s][-WATCHED:]
    outside = sum(each.outside for each in newest)
    if outside < 2 or _by_accident(outside, len(newest)) > SURE:
        return ""
    return f"{outside} of its last {len(newest)} jobs ended outside their 90 % range"


def _key(error: RunError) -> tuple[str, str]:
    return error.name, error.gpu_model


def _by_accident(outside: int, count: int) -> float:
    """Return the chance of so many outside or more, if ranges are right."""
    p = CHANCE_OUTSIDE
    return sum(comb(count, k) * p**k * (1 - p) ** (count - k) for k in range(outside, count + 1))
