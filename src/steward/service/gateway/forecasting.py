"""Tells waiting requests what they can expect, and compares it with what happened."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from steward.model.serving.view import ServingView
from steward.ports import Dispatcher, ServingEstimator
from steward.service.gateway.status import WaitRecord
from steward.service.gateway.tallies import Tallies
from steward.service.gateway.ticket import Ticket
from steward.service.gateway.waits import WaitBoard, WaitHistory

__all__ = ["Forecasting"]

log = logging.getLogger(__name__)

# Dispatchers that look at no forecasts: they need not be made for each call of theirs.
_WITHOUT_FORECASTS = frozenset({"fcfs", "edf", "priority", "round-robin", "least-loaded"})
_PREDICT_EVERY_S = 0.02  # for an estimator to see the requests that it learns from
REFRESH_S = 0.05  # from one look at all waits to the next, at least
_REFRESH_SHARE = 0.05  # of the time at most, for such looks


class Forecasting:
    """What is expected of waiting requests. An estimator that fails is left out from then on."""

    def __init__(
        self, tallies: Tallies, *, clock_s: Callable[[], float], wall_s: Callable[[], float]
    ) -> None:
        self.history = WaitHistory()
        self.board = WaitBoard("")
        self.estimator: ServingEstimator | None = None
        self.refresh_at_s = 0.0
        self._tallies = tallies
        self._clock_s = clock_s
        self._wall_s = wall_s
        self._always = False
        self._predicted_s = 0.0
        self._unpredicted: list[Ticket] = []

    def set_policy(self, dispatcher: Dispatcher, estimator: ServingEstimator | None) -> None:
        """Assume the order of another dispatcher, and ask another estimator, from now on."""
        self.estimator = estimator
        self.board = WaitBoard(dispatcher.name)
        self._always = dispatcher.name not in _WITHOUT_FORECASTS

    def name(self) -> str:
        """Return the estimator's name."""
        return "none" if self.estimator is None else self.estimator.name

    def due(self, now_s: float, *, crowded: bool) -> bool:
        """Return whether a dispatcher's view should have forecasts now.

        Where all that wait fit in anyway, there is no order to choose: recent ones are enough.
        """
        return (self._always and crowded) or now_s - self._predicted_s >= _PREDICT_EVERY_S

    def predicted(self, view: ServingView) -> ServingView:
        """Return the view with forecasts, if there is an estimator that works."""
        if self.estimator is None or not view.types:
            return view
        self._predicted_s = view.t_s
        try:
            return replace(view, forecasts=self.estimator.predict(view))
        except Exception as fault:  # noqa: BLE001 - a broken plug must not stop the gateway
            self._give_up(self.estimator, fault)
            return view

    def learn(self, view: ServingView, ended: NDArray[np.int64]) -> None:
        """Let the estimator learn from requests that have ended."""
        if self.estimator is None:
            return
        try:
            self.estimator.learn(view, ended)
        except Exception as fault:  # noqa: BLE001 - as above
            self._give_up(self.estimator, fault)

    def add(self, ticket: Ticket) -> None:
        """Remember a request that has come: if it has to wait, it is told for how long."""
        self._unpredicted.append(ticket)

    def lacks(self) -> bool:
        """Return whether any request waits that was not told yet what to expect."""
        self._unpredicted = [each for each in self._unpredicted if each.waiting]
        return bool(self._unpredicted)

    def refresh(self, view: ServingView) -> None:
        """Look at all waits of a view with forecasts anew; the next time not too soon."""
        began_s = self._clock_s()
        self.board.refresh(view)
        for ticket in self._unpredicted:
            if ticket.waiting and ticket.expected is None:
                ticket.expected = self.board.of(ticket.row)
                ticket.expected_at_s = began_s
        self._unpredicted = []
        self.refresh_at_s = began_s + (self._clock_s() - began_s) / _REFRESH_SHARE

    def record(self, ticket: Ticket, now_s: float) -> None:
        """Compare a wait that ends now with what was predicted."""
        expected = ticket.expected
        if expected is None or expected.expected_s is None or expected.bound_s is None:
            return
        before_s = ticket.expected_at_s - ticket.entered_s
        self.history.add(
            WaitRecord(
                {
                    "t_s": self._wall_s(),
                    "class": ticket.promised.name,
                    "expected_s": before_s + expected.expected_s,
                    "bound_s": before_s + expected.bound_s,
                    "observed_s": now_s - ticket.entered_s,
                }
            )
        )

    def _give_up(self, estimator: ServingEstimator, fault: Exception) -> None:
        name = estimator.name
        log.error("the estimator %s failed: %s; waits are unknown", name, fault, exc_info=fault)
        self._tallies.event("estimator failed", why=f"{name}: {fault!r}; waits are unknown now")
        self.estimator = None
