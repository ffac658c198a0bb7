"""Turns rows of counters into numbers with names: counters as they are, histograms as quantiles."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from steward.clients.bpf.histogram import BUCKETS, quantiles_s
from steward.clients.bpf.programs.block import DIRECTIONS
from steward.clients.bpf.programs.calls import CAUSES, COUNTED
from steward.clients.bpf.rows import Rows

__all__ = ["Readings"]

_PARTS: Mapping[str, tuple[str, ...]] = {"wait": CAUSES, "calls": COUNTED, "block": DIRECTIONS}
_SHARES = {"p50": 0.5, "p99": 0.99}
_HISTOGRAM = ".histogram"


class Readings:
    """Reads one kind of rows; a histogram is that of the time since the last reading."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._histograms = [name for name in rows.columns if name.endswith(_HISTOGRAM)]
        plain = [name for name in rows.columns if name not in self._histograms]
        self.words: tuple[str, ...] = (
            *(word for name in plain for word in _words(name, _width(rows, name))),
            *(name.replace(_HISTOGRAM, f".{q}") for name in self._histograms for q in _SHARES),
        )
        places = np.arange(rows.width)
        self._plain = np.concatenate([places[:0], *(places[rows.columns[each]] for each in plain)])
        self._buckets = np.concatenate(
            [places[:0], *(places[rows.columns[each]] for each in self._histograms)]
        )
        self._before: tuple[tuple[str, ...] | None, NDArray[np.int64]] = (
            None,
            np.empty((0, len(self._buckets)), dtype=np.int64),
        )

    def read(self) -> NDArray[np.float64]:
        """Return a row per group of the rows, in order, and one for all together at the end."""
        totals = self._rows.totals().view(np.int64)
        out = np.empty((len(totals), len(self.words)))
        out[:, : len(self._plain)] = totals[:, self._plain]
        if self._histograms:
            out[:, len(self._plain) :] = self._quantiles(totals)
        return out

    def _quantiles(self, totals: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the quantiles of all histograms since the last reading, a row per group."""
        counts, groups = totals[:, self._buckets], self._rows.groups
        known, before = self._before
        if known != groups:  # somebody came or went; who is new starts from nothing
            rows = dict(zip((*(known or ()), ""), before, strict=False))
            before = np.array([rows.get(each, 0 * counts[0]) for each in (*groups, "")])
        self._before = groups, counts
        since = np.maximum(counts - before, 0).reshape(-1, BUCKETS)
        found = quantiles_s(since.astype(np.float64), tuple(_SHARES.values()))
        return found.reshape(len(totals), -1)


def _words(name: str, width: int) -> list[str]:
    if width == 1:
        return [name]
    of, unit = name.split(".")
    return [f"{of}.{part}.{unit}" for part in _PARTS[of]]


def _width(rows: Rows, name: str) -> int:
    place = rows.columns[name]
    return int(place.stop - place.start)
