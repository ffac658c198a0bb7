"""How run time falls with the number of GPUs, from runs of the same work at several counts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError

__all__ = ["GpuAdvice", "ScalingRuns", "advise", "fit_scaling"]

Floats = NDArray[np.float64]
Runs = Mapping[int, tuple[float, float, float]]  # by GPUs: how many, mean and squares of log time

_SERIAL = np.concatenate(([0.0], np.geomspace(1e-4, 1.0, 400)))  # shares that do not scale
_KINDS, _COUNTS = 500, 16
_KEPT = 50.0  # runs of one kind and count that count; older ones fade
_NOISE, _NOISE_RUNS = 0.15, 4.0  # spread of log run times before any, and what it counts for
_LEVELS = (0.05, 0.5, 0.95)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuAdvice:
    """How many GPUs are worth their while. `gpus` is None where the runs do not tell, by `why`."""

    gpus: int | None
    low: int | None
    high: int | None
    why: str
    serial_share: tuple[float, float, float] | None = None  # of the work: 5 %, 50 %, 95 %
    speedup: tuple[tuple[int, float, float], ...] = ()  # GPUs, speed against one, marginal share


class ScalingRuns:
    """Run times by kind of work and number of GPUs; at most 500 kinds are kept."""

    def __init__(self) -> None:
        self._kinds: OrderedDict[Hashable, dict[int, tuple[float, float, float]]] = OrderedDict()

    def learn(self, kind: Hashable, gpus: int, run_s: float) -> None:
        """Learn how long a run took that came to its end."""
        if gpus < 1 or run_s <= 0.0:
            return
        runs = self._kinds.setdefault(kind, {})
        self._kinds.move_to_end(kind)
        if len(self._kinds) > _KINDS:
            self._kinds.popitem(last=False)
        count, mean, squares = runs.pop(gpus, (0.0, 0.0, 0.0))
        keep = min(count, _KEPT - 1.0) / max(count, 1.0)
        count, squares = count * keep + 1.0, squares * keep
        off = log(run_s) - mean
        mean += off / count
        runs[gpus] = (count, mean, squares + off * (log(run_s) - mean))
        if len(runs) > _COUNTS:
            del runs[next(iter(runs))]  # the count that was not used for longest

    def of(self, kind: Hashable) -> Runs:
        """Return what was seen of a kind."""
        return self._kinds.get(kind, {})

    def save_state(self) -> list[Any]:
        """Return the state as JSON values."""
        return [
            [
                list(kind) if isinstance(kind, tuple) else kind,
                [[n, *run] for n, run in runs.items()],
            ]
            for kind, runs in self._kinds.items()
        ]

    def restore_state(self, state: list[Any]) -> None:
        """Go on from a saved state."""
        self._kinds = OrderedDict(
            (tuple(kind) if isinstance(kind, list) else kind,
             {int(n): (float(count), float(mean), float(squares))
              for n, count, mean, squares in runs})
            for kind, runs in state
        )  # fmt: skip


def fit_scaling(runs: Runs) -> Floats:
    """Return how likely each share of work is that does not scale (Amdahl), summing to 1.

    Run time on n GPUs is taken as `a (s + (1 - s) / n)` with log-normal noise, of which the runs
    themselves and a little prior tell how large it is. `s` is uniform beforehand.
    """
    gpus = np.array([*runs], np.float64)
    count, mean, squares = np.array([*runs.values()]).T
    curve = np.log(_SERIAL[:, None] + (1.0 - _SERIAL[:, None]) / gpus)
    level = ((mean - curve) * count).sum(axis=1, keepdims=True) / count.sum()
    off = ((mean - curve - level) ** 2 * count).sum(axis=1)
    within, freedom = squares.sum() + _NOISE**2 * _NOISE_RUNS, count.sum() - 1.0 + _NOISE_RUNS
    likely = -0.5 * freedom * np.log((within + off) / freedom)
    weight = np.exp(likely - likely.max()) * np.gradient(_SERIAL)
    return np.asarray(weight / weight.sum(), np.float64)


def advise(runs: Runs, *, worth: float = 0.5, most: int = 0) -> GpuAdvice:
    """Return the largest count whose last doubling is worth it.

    Worth it means that the GPUs that a doubling adds give at least the share `worth` of what the
    first one gives. Counts are powers of two, up to twice the largest that was measured, or `most`.
    """
    if not 0.0 < worth < 1.0:
        raise StewardError(
            f"{worth:g} is no share", where="--worth", hint="between 0 and 1, as 0.5"
        )
    if not runs:
        return _untold("no run of this user and name has ended")
    if len(runs) == 1:
        (gpus,) = runs
        other = max(gpus // 2, 1) if gpus > 1 else 2
        return _untold(
            f"all {runs[gpus][0]:.0f} runs used {gpus} GPU{'s' * (gpus != 1)}: "
            f"run it once with {other} to see how it scales"
        )
    weight = fit_scaling(runs)
    below = np.cumsum(weight)
    low, mid, high = (float(_SERIAL[np.searchsorted(below, share)]) for share in _LEVELS)
    largest = max(runs)
    reach = most or 2 * largest
    best, least, greatest = (_count(share, worth, reach) for share in (mid, high, low))
    total = sum(run[0] for run in runs.values())
    table = tuple((n, _speed(mid, n), _marginal(mid, n)) for n in _powers(reach))
    seen = ", ".join(str(n) for n in sorted(runs))
    why = (
        f"{total:.0f} runs with {seen} GPUs: {mid:.1%} of the work does not scale "
        f"({low:.1%} to {high:.1%}); beyond {best} another GPU gives less than {worth:.0%} of one"
    )
    if best > largest:
        why += f"; more than {largest} was never tried"
    if greatest >= 4 * max(least, 1):
        return GpuAdvice(
            gpus=None,
            low=least,
            high=greatest,
            why=f"too uncertain, {least} to {greatest}: {why}; a run with {2 * largest} would tell",
            serial_share=(low, mid, high),
            speedup=table,
        )
    return GpuAdvice(
        gpus=best, low=least, high=greatest, why=why, serial_share=(low, mid, high), speedup=table
    )


def _untold(why: str) -> GpuAdvice:
    return GpuAdvice(gpus=None, low=None, high=None, why=why)


def _powers(most: int) -> list[int]:
    return [2**i for i in range(max(most, 1).bit_length()) if 2**i <= most]


def _speed(serial: float, gpus: int) -> float:
    return 1.0 / (serial + (1.0 - serial) / gpus)


def _marginal(serial: float, gpus: int) -> float:
    """Return what each GPU of the last doubling gives, as a share of what the first one gives."""
    if gpus == 1:
        return 1.0
    return (_speed(serial, gpus) - _speed(serial, gpus // 2)) / (gpus - gpus // 2)


def _count(serial: float, worth: float, most: int) -> int:
    best = 1
    for gpus in _powers(most):
        if _marginal(serial, gpus) < worth:
            break
        best = gpus
    return best
