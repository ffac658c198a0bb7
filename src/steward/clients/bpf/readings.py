"""Turns rows of counters into numbers with names: counters as they are, histograms as quantiles."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from steward.clients.bpf.histogram import BUCKETS, quantiles_s
from steward.clients.bpf.programs.block import DIRECTIONS
from steward.clients.bpf.programs.calls import CAUSES, COUNTED
from steward.clients.bpf.rows import HISTOGRAM, Rows

__all__ = ["Readings"]

_PARTS: Mapping[str, tuple[str, ...]] = {"wait": CAUSES, "calls": COUNTED, "block": DIRECTIONS}
_SHARES = {"p50": 0.5, "p99": 0.99}
_RENEWED_AFTER_S = 0.9


class Readings:
    """Reads the rows: counters as they are now, quantiles of the last second or reading."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        histograms = [name for name in rows.columns if name.endswith(HISTOGRAM)]
        plain = [name for name in rows.columns if name not in histograms]
        self.words: tuple[str, ...] = (
            *(word for name in plain for word in _words(name, _width(rows, name))),
            *(name.replace(HISTOGRAM, f".{q}") for name in histograms for q in _SHARES),
        )
        self._known: tuple[str, ...] = ()
        self._before = np.zeros((1, len(histograms) * BUCKETS))
        self._quantiles = np.full((1, len(histograms) * len(_SHARES)), np.nan)
        self._renewed_s = -np.inf

    def read(self, now_s: float) -> NDArray[np.float64]:
        """Return a row per group of the rows, in order, and one for all together at the end."""
        plain = self._rows.totals(self._rows.plain)
        return np.concatenate((plain, self._latest(now_s)), axis=1)

    def _latest(self, now_s: float) -> NDArray[np.float64]:
        """Return the quantiles of all histograms, a row per group: those of the last second.

        A tenth of a second has too few events for a p99, and quantiles are what costs most here.
        """
        groups = self._rows.groups
        if groups == self._known and now_s - self._renewed_s < _RENEWED_AFTER_S:
            return self._quantiles
        counts = self._rows.totals(self._rows.buckets)
        if groups != self._known:  # somebody came or went; who is new starts from nothing
            before = dict(zip((*self._known, ""), self._before, strict=True))
            nothing = np.zeros(counts.shape[1])
            self._before = np.array([before.get(each, nothing) for each in (*groups, "")])
        since = np.maximum(counts - self._before, 0.0).reshape(-1, BUCKETS)
        found = quantiles_s(since, tuple(_SHARES.values()))
        self._quantiles = found.reshape(len(counts), -1)
        self._before, self._known, self._renewed_s = counts, groups, now_s
        return self._quantiles


def _words(name: str, width: int) -> list[str]:
    if width == 1:
        return [name]
    of, unit = name.split(".")
    return [f"{of}.{part}.{unit}" for part in _PARTS[of]]


def _width(rows: Rows, name: str) -> int:
    place = rows.columns[name]
    return int(place.stop - place.start)
