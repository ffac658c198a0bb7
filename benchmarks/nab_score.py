"""The scoring of the Numenta Anomaly Benchmark (Lavin and Ahmad 2015), and alarms at a budget."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

__all__ = ["PROFILES", "Labelled", "alarms", "load", "nab_score", "probation", "threshold_for"]

Array = NDArray[np.float64]
PROFILES = {  # weights of a false alarm and of a missed window; a found one counts 1
    "standard": (0.11, 1.0),
    "few false alarms": (0.22, 1.0),
    "few misses": (0.11, 2.0),
}
_STEEP = 5.0
_FAR = 3.0  # windows behind one, from where an alarm is wholly false


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """One series with the windows in which an anomaly is to be found, by first and last row."""

    name: str
    t_s: Array
    values: Array
    windows: tuple[tuple[int, int], ...]


def load(folder: Path) -> list[Labelled]:
    """Read the series of a folder in NAB's form, by name."""
    labels = json.loads((folder / "labels.json").read_text(encoding="utf-8"))
    found = []
    for name in sorted(labels):
        table = pl.read_csv(folder / name)
        t_s = table["timestamp"].str.to_datetime().dt.epoch("s").cast(pl.Float64).to_numpy()
        windows = []
        for window in labels[name]["windows"]:
            edges = pl.Series(window).str.to_datetime().dt.epoch("s").to_list()
            first = int(np.searchsorted(t_s, edges[0]))
            windows.append((first, int(np.searchsorted(t_s, edges[1], side="right")) - 1))
        values = table["value"].cast(pl.Float64).to_numpy()
        found.append(Labelled(name=name, t_s=t_s, values=values, windows=tuple(windows)))
    return found


def probation(rows: int) -> int:
    """Return how many rows at the beginning are not judged."""
    return int(min(0.15 * rows, 0.15 * 5000))


def alarms(scores: Array, threshold: float, apart: int) -> list[int]:
    """Return the rows of alarms; within `apart` rows of one there is no other."""
    found: list[int] = []
    for row in np.flatnonzero(scores >= threshold):
        if row >= probation(len(scores)) and (not found or row - found[-1] > apart):
            found.append(int(row))
    return found


def threshold_for(scores: Sequence[Array], *, budget: int, apart: int) -> float:
    """Return the lowest threshold, one for all series, that gives at most so many alarms."""
    judged = np.concatenate([each[probation(len(each)) :] for each in scores])
    levels = np.unique(judged)[::-1]
    low, high = 0, min(len(levels), 50_000) - 1
    while low < high:
        middle = (low + high + 1) // 2
        count = sum(len(alarms(each, float(levels[middle]), apart)) for each in scores)
        low, high = (middle, high) if count <= budget else (low, middle - 1)
    return float(levels[low])


def nab_score(
    series: Sequence[Labelled], found: Mapping[str, Sequence[int]], profile: str
) -> float:
    """Return the score: 0 for a detector without alarms, 100 for a perfect one."""
    false_alarm, miss = PROFILES[profile]
    total, windows = 0.0, 0
    for each in series:
        windows += len(each.windows)
        total += _of_one(each, found[each.name], false_alarm, miss)
    return 100.0 * (total + miss * windows) / (windows * (1.0 + miss))


def _of_one(each: Labelled, rows: Sequence[int], false_alarm: float, miss: float) -> float:
    total, hit = 0.0, set()
    for row in rows:
        inside = [w for w in each.windows if w[0] <= row <= w[1]]
        before = [w for w in each.windows if w[1] < row]
        if inside:
            first, last = inside[0]
            if inside[0] not in hit:
                hit.add(inside[0])
                total += _sigmoid(-(last - row + 1) / (last - first + 1)) / _sigmoid(-1.0)
        elif before:
            first, last = before[-1]
            total += false_alarm * _sigmoid((row - last) / max(1, last - first))
        else:
            total -= false_alarm
    return total - miss * (len(each.windows) - len(hit))


def _sigmoid(position: float) -> float:
    return -1.0 if position > _FAR else 2.0 / (1.0 + exp(_STEEP * position)) - 1.0
