"""Reads what a gateway reports about itself: `GET /steward/v1/status`.

The other side may be older, newer, or no gateway at all: what is missing or of the wrong kind is
unknown, rows that make no sense are counted, and everything is cut to a size that can be shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, TypeVar

from steward.clients.web import Endpoint, open_client, read_up_to
from steward.errors import StewardError
from steward.model.serving.gateway_snapshot import (
    BatchFigures,
    ClassFigures,
    EstimatorFigures,
    GatewaySnapshot,
    InstanceFigures,
    ServingEvent,
    WaitFigures,
)

__all__ = ["GatewayStatusReader", "gateway_snapshot"]

_STATUS = "/steward/v1/status"
_MOST_BYTES = 4 << 20
_MOST_TEXT = 200
_MOST_CLASSES, _MOST_INSTANCES, _MOST_WAITS, _MOST_EVENTS = 32, 1000, 1000, 200
_NO_GATEWAY = "is this a gateway? `steward serve gateway` starts one"
Raw = Mapping[str, Any]
R = TypeVar("R")


class GatewayStatusReader:
    """Asks one gateway for its status only, and keeps its connection."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._url = endpoint.url.rstrip("/") + _STATUS
        self._client = open_client(endpoint, owner=self)

    def read(self) -> GatewaySnapshot:
        """Return the moment as the gateway has it. Raise if there is no answer that is one."""
        answer = read_up_to(self._client, self._url, most_bytes=_MOST_BYTES)
        try:
            found = json.loads(answer.content)
        except (ValueError, RecursionError):
            raise StewardError("answers with no JSON", where=self._url, hint=_NO_GATEWAY) from None
        if not isinstance(found, dict) or not isinstance(found.get("classes"), list):
            problem = "answers with something else than a gateway's status"
            raise StewardError(problem, where=self._url, hint=_NO_GATEWAY)
        return gateway_snapshot(found)


def gateway_snapshot(raw: Raw) -> GatewaySnapshot:
    """Return what can be read of an answer; never raises."""
    rows = _Rows()
    return GatewaySnapshot(
        t_s=_number(raw.get("t_s")),
        policy=_text(raw.get("policy")),
        estimator=_estimator(_table(raw.get("estimator"))),
        classes=rows.read(raw.get("classes"), _class, most=_MOST_CLASSES),
        instances=rows.read(raw.get("instances"), _instance, most=_MOST_INSTANCES),
        waits=rows.read(raw.get("waits"), _wait, most=_MOST_WAITS),
        events=rows.read(raw.get("events"), _event, most=_MOST_EVENTS),
        batches=_batches(_table(raw.get("batches"))),
        left_out=rows.left_out,
    )


class _Rows:
    """Reads lists of tables, and counts the rows that are left out."""

    def __init__(self) -> None:
        self.left_out = 0

    def read(self, raw: object, make: Callable[[Raw], R | None], *, most: int) -> tuple[R, ...]:
        """Return the last rows, at most so many: the newest of what has a time."""
        rows = raw if isinstance(raw, list) else []
        made = [make(each) if isinstance(each, dict) else None for each in rows[-most:]]
        found = tuple(each for each in made if each is not None)
        self.left_out += len(rows) - len(found)
        return found


def _estimator(raw: Raw) -> EstimatorFigures:
    return EstimatorFigures(
        name=_text(raw.get("name")),
        median_error=_number(raw.get("median_error")),
        coverage_90=_share(raw.get("coverage_90")),
        requests=_number(raw.get("requests")),
    )


def _class(raw: Raw) -> ClassFigures | None:
    name = _text(raw.get("name"))
    if not name:
        return None
    figures = ("queued", "in_flight", "done", "met", "missed")
    waits = ("oldest_wait_s", "expected_wait_s", "bound_wait_s", "deadline_s")
    return ClassFigures(
        name=name,
        attainment=_share(raw.get("attainment")),
        **{each: _number(raw.get(each)) for each in (*figures, *waits)},
    )


def _instance(raw: Raw) -> InstanceFigures | None:
    name, url = _text(raw.get("name")), _text(raw.get("url"))
    if not name and not url:
        return None
    draining = raw.get("draining")
    return InstanceFigures(
        name=name or url,
        url=url,
        model=_text(raw.get("model")),
        type=_text(raw.get("type")),
        state=_text(raw.get("state")),
        role=_text(raw.get("role")),
        breaker=_text(raw.get("breaker")),
        running=_number(raw.get("running")),
        waiting=_number(raw.get("waiting")),
        limit=_number(raw.get("limit")),
        tokens_per_s=_number(raw.get("tokens_per_s")),
        kv_share=_share(raw.get("kv_share")),
        errors=_number(raw.get("errors")),
        draining=draining if isinstance(draining, bool) else None,
    )


def _wait(raw: Raw) -> WaitFigures | None:
    t_s, expected_s, observed_s = (
        _number(raw.get(each)) for each in ("t_s", "expected_s", "observed_s")
    )
    if t_s is None or expected_s is None or observed_s is None:
        return None
    return WaitFigures(
        t_s=t_s,
        deadline_class=_text(raw.get("class")),
        expected_s=expected_s,
        observed_s=observed_s,
        bound_s=_number(raw.get("bound_s")),
    )


def _event(raw: Raw) -> ServingEvent | None:
    t_s, what = _number(raw.get("t_s")), _text(raw.get("what"))
    if t_s is None or not what:
        return None
    return ServingEvent(
        t_s=t_s, what=what, instance=_text(raw.get("instance")), why=_text(raw.get("why"))
    )


def _batches(raw: Raw) -> BatchFigures:
    figures = ("open", "waiting", "done", "failed")
    return BatchFigures(**{each: _number(raw.get(each)) for each in figures})


def _table(raw: object) -> Raw:
    return raw if isinstance(raw, dict) else {}


def _text(raw: object) -> str:
    return raw[:_MOST_TEXT] if isinstance(raw, str) else ""


def _number(raw: object) -> float | None:
    """Return a figure that is finite and not negative: all of a status are counts or times."""
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        return None
    try:
        value = float(raw)
    except OverflowError:
        return None
    return value if isfinite(value) and 0 <= value < 1e15 else None


def _share(raw: object) -> float | None:
    value = _number(raw)
    return value if value is not None and value <= 1 else None
