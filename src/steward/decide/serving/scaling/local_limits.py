"""Chiron's local limit: how many requests an instance may have in flight, by back-pressure."""

from __future__ import annotations

import numpy as np

from steward.model.serving.view import SERVING, ServingView

__all__ = ["back_pressure", "local_limits"]

_AT_LIMIT = 0.9  # a throughput that falls says something only where the limit was used
_LEAST = 4


def local_limits(view: ServingView, gain: float) -> tuple[tuple[int, int], ...]:
    """Return a new limit for each instance whose back-pressure is known.

    It moves against the pressure, `gain` of the way at a time, between 4 and what the server can
    run at once; the deadlines of what runs there decide, so that batch work runs in large batches.
    """
    instances = view.instances
    limits = []
    for row in np.flatnonzero(instances.state == SERVING).tolist():
        pressure = back_pressure(view, row)
        if pressure is None:
            continue
        most = view.types[int(instances.type[row])].max_sequences
        now = int(instances.limit[row])
        wanted = round(now * (1.0 + gain * (1.0 / pressure - 1.0)))
        if pressure < 1.0:
            wanted = max(wanted, now + 1)
        limits.append((row, int(min(max(wanted, min(_LEAST, most)), most))))
    return tuple(limits)


def back_pressure(view: ServingView, row: int) -> float | None:
    """Return the local back-pressure of an instance: above 1 is too much load.

    The larger of observed over promised time between tokens, and of earlier over present
    throughput while the limit is used; None where nothing was measured.
    """
    rates = view.rates
    if rates is None or not np.isfinite(rates.itl_s[row]):
        return None
    instances = view.instances
    promised_s = _tightest_itl_s(view, row)
    found = float(rates.itl_s[row]) / promised_s
    in_flight = instances.running[row] + instances.waiting[row]
    if in_flight >= _AT_LIMIT * instances.limit[row] and rates.tokens_per_s[row] > 0:
        found = max(found, float(rates.tokens_per_s_before[row] / rates.tokens_per_s[row]))
    return max(found, 1e-3)


def _tightest_itl_s(view: ServingView, row: int) -> float:
    there = np.unique(view.requests.deadline_class[view.requests.instance == row]).tolist()
    promised = (view.classes[code].itl_s for code in there)
    return min((each for each in promised if each is not None), default=np.inf)
