"""Turns rows of counters into numbers with names: counters as they are, histograms as quantiles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steward.clients.bpf.columns import COLUMNS, HISTOGRAM, PLAIN, WIDTH, names_of
from steward.clients.bpf.counter_table import CounterTable
from steward.clients.bpf.histogram import BUCKETS, quantiles_s

__all__ = ["CounterReader"]

Values = NDArray[np.float64]

_SHARES = {"p50": 0.5, "p99": 0.99}
_RENEWED_AFTER_S = 0.9
_COUNTERS, _BUCKETS = slice(0, PLAIN), slice(PLAIN, WIDTH)
_HISTOGRAMS = tuple(name for name in COLUMNS if name.endswith(HISTOGRAM))


class CounterReader:
    """Reads a table: counters as of now, quantiles of the last second or since the last reading.

    `names` are those of the columns.
    """

    names: tuple[str, ...] = (
        *(column for name in COLUMNS if name not in _HISTOGRAMS for column in names_of(name)),
        *(name.replace(HISTOGRAM, f".{quantile}") for name in _HISTOGRAMS for quantile in _SHARES),
    )

    def __init__(self, table: CounterTable) -> None:
        self._table = table
        self._groups: tuple[str, ...] = ()
        self._values = np.zeros((1, len(self.names)))
        self._values[:, PLAIN:] = np.nan
        self._counts = np.zeros((1, WIDTH - PLAIN))  # of histograms, when they were last renewed
        self._renewed_s = -np.inf

    def read(self, now_s: float) -> Values:
        """Return a row per group of the table, in order, and one for all together at the end.

        The array is overwritten by the next reading.
        """
        is_due = now_s - self._renewed_s >= _RENEWED_AFTER_S
        if self._table.groups != self._groups:
            self._align()
            is_due = True
        self._table.totals(_COUNTERS, out=self._values[:, :PLAIN])
        if is_due:
            self._renew(now_s)
        return self._values

    def _align(self) -> None:
        """Keep the rows of groups that are still there; new groups start from zero."""
        groups = self._table.groups
        rows = {group: row for row, group in enumerate((*self._groups, ""))}
        values = np.zeros((len(groups) + 1, len(self.names)))
        counts = np.zeros((len(groups) + 1, WIDTH - PLAIN))
        for row, group in enumerate((*groups, "")):
            if group in rows:
                values[row], counts[row] = self._values[rows[group]], self._counts[rows[group]]
        self._groups, self._values, self._counts = groups, values, counts

    def _renew(self, now_s: float) -> None:
        """Compute the quantiles anew, of what was counted since they last were.

        A tenth of a second has too few events for a p99, and quantiles are what costs most here.
        """
        counts = self._table.totals(_BUCKETS)
        since = np.maximum(counts - self._counts, 0.0).reshape(-1, BUCKETS)
        found = quantiles_s(since, tuple(_SHARES.values()))
        self._values[:, PLAIN:] = found.reshape(len(counts), -1)
        self._counts, self._renewed_s = counts, now_s
