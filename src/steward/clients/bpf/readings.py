"""Turns rows of counters into numbers with names: counters as they are, histograms as quantiles."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from steward.clients.bpf.histogram import quantiles_s
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
        self._plain = np.concatenate(
            [np.arange(rows.width)[rows.columns[name]] for name in plain] or [np.arange(0)]
        )
        self._before: dict[str, tuple[tuple[str, ...] | None, NDArray[np.int64]]] = {}

    def read(self, groups: tuple[str, ...]) -> NDArray[np.float64]:
        """Return a row per group (NaN where it is no more), and one for all together at the end."""
        have = self._rows.groups
        totals = self._rows.totals().view(np.int64)
        if have != groups:
            totals, missing = _picked(totals, have, groups)
        else:
            missing = []
        out = np.empty((len(totals), len(self.words)))
        out[:, : len(self._plain)] = totals[:, self._plain]
        at = len(self._plain)
        for name in self._histograms:
            counts = totals[:, self._rows.columns[name]]
            out[:, at : at + len(_SHARES)] = self._quantiles(name, groups, counts)
            at += len(_SHARES)
        out[missing] = np.nan
        return out

    def _quantiles(
        self, name: str, groups: tuple[str, ...], counts: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        known, before = self._before.get(name, (None, counts[:0]))
        if known != groups:  # somebody came or went; who is new starts from nothing
            rows = dict(zip((*(known or ()), ""), before, strict=False))
            before = np.array([rows.get(each, 0 * counts[0]) for each in (*groups, "")])
        self._before[name] = (groups, counts)
        return quantiles_s(
            np.maximum(counts - before, 0).astype(np.float64), tuple(_SHARES.values())
        )


def _words(name: str, width: int) -> list[str]:
    if width == 1:
        return [name]
    of, unit = name.split(".")
    return [f"{of}.{part}.{unit}" for part in _PARTS[of]]


def _width(rows: Rows, name: str) -> int:
    place = rows.columns[name]
    return int(place.stop - place.start)


def _picked(
    totals: NDArray[np.int64], have: tuple[str, ...], wanted: tuple[str, ...]
) -> tuple[NDArray[np.int64], list[int]]:
    place = {group: number for number, group in enumerate(have)}
    rows = [place.get(group, -1) for group in wanted]
    missing = [number for number, row in enumerate(rows) if row < 0]
    return totals[[*rows, -1]], missing
