"""How long requests are expected to wait, how long they did, and how well the two agree."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from steward.model.serving.view import ServingView
from steward.model.serving.waits import expected_waits
from steward.service.gateway.status import EstimatorStatus, WaitRecord

__all__ = ["ExpectedWait", "WaitBoard", "WaitHistory"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_KEPT = 500
_SHORTEST_S = 0.01  # errors of shorter waits are relative to this
_ORDERS = {"fcfs": "arrival", "round-robin": "arrival", "least-loaded": "arrival"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedWait:
    """What a waiting request can expect; None is not known."""

    position: int  # requests of its model that go before it
    expected_s: float | None = None  # from now until its first token
    bound_s: float | None = None  # 90 % of such waits are shorter


class WaitBoard:
    """The queue in the order in which it is likely to be served, with the wait of each request.

    The order is by arrival, rank or deadline, as the dispatcher's name says; dispatchers that
    choose more freely are taken to go by deadline.
    """

    def __init__(self, policy: str) -> None:
        self._order = "rank" if policy == "priority" else _ORDERS.get(policy, "deadline")
        self._found: dict[int, ExpectedWait] = {}
        self._by_class: dict[int, list[ExpectedWait]] = {}

    def refresh(self, view: ServingView) -> None:
        """Read the queue of a view, and how long it waits if the view has forecasts."""
        self.clear()
        if not len(view.queue):
            return
        order = view.queue[np.argsort(self._keys(view), kind="stable")]
        positions = _positions(view, order)
        if view.forecasts is None:
            nothing = [None] * len(order)
            self._fill(view, order, positions, (nothing, nothing))
            return
        waits = expected_waits(view, order)
        mean = [_finite(each) for each in waits.mean_s.tolist()]
        upper = [_finite(each) for each in waits.upper_s.tolist()]
        self._fill(view, order, positions, (mean, upper))

    def clear(self) -> None:
        """Forget everything: nothing waits."""
        self._found, self._by_class = {}, {}

    def of(self, row: int) -> ExpectedWait | None:
        """Return what a request can expect, as of the last refresh."""
        return self._found.get(row)

    def newest(self, code: int) -> ExpectedWait | None:
        """Return what the last request of a class in the queue can expect."""
        found = self._by_class.get(code)
        return found[-1] if found else None

    def _fill(
        self,
        view: ServingView,
        order: Ints,
        positions: list[int],
        waits: tuple[list[float | None], list[float | None]] | tuple[list[None], list[None]],
    ) -> None:
        codes = view.requests.deadline_class[order].tolist()
        rows = zip(order.tolist(), codes, positions, *waits, strict=True)
        for row, code, position, mean, upper in rows:
            found = ExpectedWait(position=position, expected_s=mean, bound_s=upper)
            self._found[row] = found
            self._by_class.setdefault(code, []).append(found)

    def _keys(self, view: ServingView) -> Floats:
        if self._order == "arrival":
            return view.requests.arrival_s[view.queue]
        if self._order == "rank":
            ranks = np.array([each.rank for each in view.classes], np.float64)
            by_rank: Floats = ranks[view.requests.deadline_class[view.queue]]
            return by_rank
        return view.requests.deadline_s[view.queue]


def _positions(view: ServingView, order: Ints) -> list[int]:
    """Return how many requests of its model are ahead of each."""
    ahead: dict[int, int] = {}
    found = []
    for model in view.requests.model[order].tolist():
        found.append(ahead.get(model, 0))
        ahead[model] = found[-1] + 1
    return found


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


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
