"""How long requests are expected to wait, how long they did, and how well the two agree."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from steward.model.serving.view import OFF, SERVING, ServingView
from steward.service.gateway.status import EstimatorStatus, WaitRecord

__all__ = ["ExpectedWait", "WaitBoard", "WaitHistory"]

Floats = NDArray[np.float64]
_KEPT = 500
_SHORTEST_S = 0.01  # errors of shorter waits are relative to this


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedWait:
    """What a request is told when it has to wait; None is not known."""

    position: int  # requests of its model that go before it
    expected_s: float | None = None
    bound_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """The queue of one model in the order in which it is served."""

    keys: Floats
    mean_s: Floats  # cumulative work ahead; has one more element than keys
    variance: Floats
    typical_s: float  # work of one request: until a place is free


class WaitBoard:
    """Work that waits, by model and in order; made anew from forecasts a few times a second."""

    def __init__(self, order: str) -> None:
        self._order = order
        self._lines: dict[int, _Line] = {}
        self._view: ServingView | None = None

    def key(self, view: ServingView, deadline_s: float, arrival_s: float, code: int) -> float:
        """Return what the queue is ordered by, as far as it can be told for every policy."""
        if self._order == "arrival":
            return arrival_s
        if self._order == "rank":
            return view.classes[code].rank
        return deadline_s

    def refresh(self, view: ServingView) -> None:
        """Read the queue and the forecasts of a view."""
        self._view = view
        self._lines = {}
        models = view.requests.model[view.queue]
        for model in np.unique(models).tolist():
            self._lines[model] = self._line(view, model, view.queue[models == model])

    def newcomer(
        self, *, model: int, code: int, arrival_s: float, deadline_s: float
    ) -> ExpectedWait:
        """Return what a request of a model can expect that comes now."""
        view, line = self._view, self._lines.get(model)
        if view is None or line is None:
            return ExpectedWait(position=0)
        key = self.key(view, deadline_s, arrival_s, code)
        position = int(np.searchsorted(line.keys, key, side="right"))
        servers = int(np.sum(_serving(view, model)))
        if view.forecasts is None or not servers:
            return ExpectedWait(position=position)
        mean = np.array([(line.mean_s[position] + line.typical_s) / servers])
        spread = np.array([np.sqrt(line.variance[position]) / servers])
        bound = view.forecasts.upper_s(mean, spread)
        return ExpectedWait(position=position, expected_s=float(mean[0]), bound_s=float(bound[0]))

    def _line(self, view: ServingView, model: int, rows: NDArray[np.int64]) -> _Line:
        keys = self._keys(view, rows)
        order = np.argsort(keys, kind="stable")
        rows = rows[order]
        forecasts = view.forecasts
        where = np.flatnonzero(_serving(view, model))
        work, variance = np.zeros(len(rows)), np.zeros(len(rows))
        if forecasts is not None and len(where):
            types = view.instances.type[where]
            work = forecasts.work_s[types][:, rows].mean(axis=0)
            variance = (forecasts.work_sd_s[types][:, rows] ** 2).mean(axis=0)
        return _Line(
            keys=keys[order],
            mean_s=np.concatenate([[0.0], np.cumsum(work)]),
            variance=np.concatenate([[0.0], np.cumsum(variance)]),
            typical_s=float(work.mean()) if len(work) else 0.0,
        )

    def _keys(self, view: ServingView, rows: NDArray[np.int64]) -> Floats:
        if self._order == "arrival":
            return view.requests.arrival_s[rows]
        if self._order == "rank":
            ranks = np.array([each.rank for each in view.classes], np.float64)
            by_rank: Floats = ranks[view.requests.deadline_class[rows]]
            return by_rank
        return view.requests.deadline_s[rows]


def _serving(view: ServingView, model: int) -> NDArray[np.bool_]:
    instances = view.instances
    there: NDArray[np.bool_] = (instances.model == model) & (instances.state != OFF)
    serving = there & (instances.state == SERVING)
    return serving if serving.any() else there


class WaitHistory:
    """The last waits with what was predicted for them."""

    def __init__(self) -> None:
        self.records: deque[WaitRecord] = deque(maxlen=_KEPT)
        self.waits = 0
        self.within_bound = 0

    def add(self, record: WaitRecord) -> None:
        """Add a wait that is over."""
        self.records.append(record)
        self.waits += 1
        self.within_bound += record["observed_s"] <= record["bound_s"]

    def status(self, name: str) -> EstimatorStatus:
        """Return how well the last waits were predicted."""
        errors = [
            abs(each["expected_s"] - each["observed_s"]) / max(each["observed_s"], _SHORTEST_S)
            for each in self.records
        ]
        held = [each["observed_s"] <= each["bound_s"] for each in self.records]
        return EstimatorStatus(
            name=name,
            median_error=median(errors) if errors else None,
            coverage_90=sum(held) / len(held) if held else None,
            requests=self.waits,
        )
