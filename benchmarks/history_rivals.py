"""What `history.py` compares with: last two, median of similar jobs, QSSF's rule, boosted trees.

Each sees jobs in the order of the trace's own events: it predicts when a job is submitted, from
those that had ended by then. Those that give one number get limits from their own past errors.
"""

from __future__ import annotations

import difflib
from collections import defaultdict, deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor

from steward.model.trace import Trace

__all__ = ["RIVALS", "order_of_events", "rival_forecasts"]

Floats = NDArray[np.float64]
RIVALS = ("last-two", "median-of-similar", "qssf", "boosted")
QUANTILES = (0.05, 0.5, 0.95)
NO_IDEA_S = 3600.0
_FEWEST = 100  # ended jobs before trees are trained
_GROWTH, _LATEST = 1.3, 4000  # trained again when so many times, or so many, more have ended
_WINDOW = 20_000  # they learn from the newest
_FEW = 3
_CATEGORIES = 250
_UNKNOWN = -20.0  # of columns of logarithms


def order_of_events(trace: Trace, start_s: Floats) -> Iterator[tuple[bool, int]]:
    """Yield (has ended, row) by time; at one instant ends come first."""
    n = len(trace)
    times_s = np.concatenate((trace.submit_s, start_s + trace.duration_s))
    ends = np.repeat([False, True], n)
    order = np.lexsort((~ends, times_s))
    for at in order.tolist():
        yield bool(ends[at]), at % n


@dataclass(slots=True)
class _Limits:
    """5 % and 95 % limits around one number, from how far the last 500 were off."""

    off: deque[float] = field(default_factory=lambda: deque(maxlen=500))
    factors: tuple[float, float] = (0.05, 20.0)
    count: int = 0

    def learn(self, off: float) -> None:
        self.off.append(off)
        self.count += 1
        if len(self.off) >= 20 and self.count % 10 == 0:
            low, high = np.exp(np.quantile(self.off, [0.05, 0.95])).tolist()
            self.factors = (min(low, 1.0), max(high, 1.0))

    def around(self, mid: float) -> tuple[float, float, float]:
        return mid * self.factors[0], mid, mid * self.factors[1]


class _Boosted:
    """Trees that are trained again and again; predictions wait until the next training."""

    def __init__(self, rows: Floats, log_s: Floats, categories: list[int], losses: Any) -> None:  # noqa: ANN401 - options of scikit-learn
        self._rows, self._log_s, self._categories = rows, log_s, categories or None
        self._losses = losses
        self._models: list[Any] = []
        self._waiting: list[int] = []
        self._trained = 0
        self.found = np.full((len(rows), len(losses)), np.nan)

    def ask(self, row: int) -> bool:
        if self._models:
            self._waiting.append(row)
        return bool(self._models)

    def learn(self, ended: list[int]) -> None:
        n = len(ended)
        if n < _FEWEST or n < min(self._trained * _GROWTH, self._trained + _LATEST):
            return
        self.flush()
        self._trained, newest = n, np.array(ended[-_WINDOW:])
        self._models = [
            HistGradientBoostingRegressor(
                max_iter=100,
                min_samples_leaf=10,
                categorical_features=self._categories,
                random_state=0,
                **loss,
            ).fit(self._rows[newest], self._log_s[newest])
            for loss in self._losses
        ]

    def flush(self) -> None:
        if self._waiting:
            rows = self._rows[self._waiting]
            for i, model in enumerate(self._models):
                self.found[self._waiting, i] = model.predict(rows)
        self._waiting = []


class _Past:
    """Run times by who and what, as each rival looks them up."""

    def __init__(self, trace: Trace) -> None:
        who = trace.user if len(trace.users) else trace.tenant
        batch = np.nan_to_num(trace.batch, nan=-1.0)
        self.who = who.tolist()
        self.name = [
            f"{trace.models[m] if m >= 0 else ''} {b:g}"
            for m, b in zip(trace.model.tolist(), batch.tolist(), strict=True)
        ]
        self.gpus, self.tenant = trace.gpus.tolist(), trace.tenant.tolist()
        self.limit_s = np.nan_to_num(trace.time_limit_s, nan=np.inf).tolist()
        self.recent: dict[Hashable, deque[float]] = defaultdict(lambda: deque(maxlen=100))
        self.sums: dict[Hashable, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self.names: dict[Hashable, dict[str, None]] = defaultdict(dict)

    def kinds(self, row: int) -> tuple[Hashable, ...]:
        who, name, gpus = self.who[row], self.name[row], self.gpus[row]
        tenant = self.tenant[row]
        return (
            *(("own", who, name, gpus), ("who", who, gpus), ("name", name, gpus), ("name", name)),
            *(("tenant", tenant, gpus), ("size", gpus), ("all",)),
        )

    def learn(self, row: int, duration_s: float) -> None:
        own = ("who", self.who[row], self.gpus[row])
        for key in (*self.kinds(row), ("last", self.who[row])):
            self.recent[key].append(duration_s)
        for sum_ in (self.sums[own, self.name[row]], self.sums[own], self.sums[()]):
            sum_[0] += duration_s
            sum_[1] += 1.0
        self.names[own][self.name[row]] = None

    def last_two_s(self, row: int) -> float:
        """Return what EASY++ takes: the mean of the user's last two."""
        last = self.recent.get(("last", self.who[row])) or self.recent.get(("all",)) or [NO_IDEA_S]
        return min(float(np.mean(list(last)[-2:])), float(self.limit_s[row]))

    def median_s(self, row: int) -> float:
        """Return the median of the last 100 of the narrowest kind with at least three."""
        found = next(
            (r for k in self.kinds(row) if (r := self.recent.get(k)) and len(r) >= _FEW),
            [NO_IDEA_S],
        )
        return min(float(np.median(found)), float(self.limit_s[row]))

    def rolling_s(self, row: int) -> float:
        """Return the rolling part of QSSF's rule: same user and size, names by difflib."""
        own = ("who", self.who[row], self.gpus[row])
        names = self.names.get(own, {})
        name = self.name[row]
        alike = [name] if name in names else difflib.get_close_matches(name, list(names), 2, 0.6)
        keys: list[Hashable] = [(own, each) for each in alike] or ([own] if names else [()])
        total, count = np.sum([self.sums[key] for key in keys], axis=0)
        return float(total / count) if count else NO_IDEA_S


def rival_forecasts(trace: Trace, start_s: Floats) -> dict[str, Floats]:
    """Return for each rival the low, likely and high run time of every job, as of its coming."""
    n, past = len(trace), _Past(trace)
    found = {name: np.full((n, 3), np.nan) for name in RIVALS}
    limits = {name: _Limits() for name in RIVALS}
    plain = _columns(trace)
    own = np.full((n, 5), _UNKNOWN)
    rows = np.column_stack((plain, own))
    log_s = np.log(trace.duration_s)
    categories = [c for c in (3, 4, 5, 6) if 1 < len(np.unique(plain[:, c])) <= _CATEGORIES]
    quantiles = [{"loss": "quantile", "quantile": q} for q in QUANTILES]
    boosted = _Boosted(rows, log_s, categories, quantiles)
    helios = _Boosted(plain, log_s, categories, [{"loss": "squared_error"}])
    rolling, ended = np.full(n, np.nan), list[int]()
    late: list[int] = []  # ended, but QSSF's number waits for its trees
    for has_ended, row in order_of_events(trace, start_s):
        if not has_ended:
            median_s, last_s = past.median_s(row), past.last_two_s(row)
            rows[row, -5:] = _own_columns(past, row, median_s, last_s)
            for name, mid in (("last-two", last_s), ("median-of-similar", median_s)):
                found[name][row] = limits[name].around(mid)
            found["boosted"][row] = limits["median-of-similar"].around(median_s)
            rolling[row] = past.rolling_s(row)
            boosted.ask(row)
            helios.ask(row)
            found["qssf"][row] = (*limits["qssf"].factors, rolling[row])
            continue
        past.learn(row, float(trace.duration_s[row]))
        ended.append(row)
        late.append(row)
        for name in ("last-two", "median-of-similar"):
            limits[name].learn(float(log_s[row] - np.log(found[name][row, 1])))
        boosted.learn(ended)
        before = helios._trained  # noqa: SLF001 - of this file
        helios.learn(ended)
        if helios._trained != before:  # noqa: SLF001
            for each in late:
                mid_s = _blended(rolling[each], helios.found[each, 0])
                limits["qssf"].learn(float(log_s[each] - np.log(mid_s)))
            late = []
    boosted.flush()
    helios.flush()
    known = ~np.isnan(boosted.found[:, 0])
    found["boosted"][known] = np.exp(np.sort(boosted.found[known], axis=1))
    factors = found["qssf"][:, :2].copy()
    both = zip(rolling.tolist(), helios.found[:, 0].tolist(), strict=True)
    mids = np.array([_blended(*pair) for pair in both])
    found["qssf"] = np.column_stack((mids * factors[:, 0], mids, mids * factors[:, 1]))
    return found


def _blended(rolling_s: float, log_s: float) -> float:
    return rolling_s if np.isnan(log_s) else 0.1 * rolling_s + 0.9 * float(np.exp(log_s))


def _own_columns(past: _Past, row: int, median_s: float, last_s: float) -> tuple[float, ...]:
    """Return what boosted trees are told of the past of a job's user and kind, as logarithms."""
    last = past.recent.get(("last", past.who[row]))
    own = past.recent.get(past.kinds(row)[0])
    return (
        float(np.log(last[-1])) if last else _UNKNOWN,
        float(np.log(last_s)),
        float(np.log(own[-1])) if own else _UNKNOWN,
        float(np.log(np.median(own))) if own else _UNKNOWN,
        float(np.log(median_s)),
    )


def _columns(trace: Trace) -> Floats:
    """Return what is known of each job when it is submitted."""
    unknown = -1.0
    return np.column_stack(
        (
            *(trace.gpus, np.nan_to_num(trace.cpus, nan=unknown)),
            np.nan_to_num(trace.memory_bytes, nan=unknown),
            *(trace.gpu_type, trace.tenant, trace.user, trace.model),
            np.nan_to_num(trace.batch, nan=unknown),
            np.nan_to_num(trace.time_limit_s, nan=unknown),
            trace.submit_s % 86400.0 // 3600.0,
            trace.submit_s // 86400.0 % 7.0,
        )
    ).astype(np.float64)
