"""Query parameters of requests for telemetry: metric, time range, resolution."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import Field

from steward.errors import unknown_name
from steward.model.metric import MetricKind
from steward.model.metrics import METRICS
from steward.service.api.replies import Number, Reply
from steward.service.failures import RefusedError
from steward.service.live_state import LiveState
from steward.service.telemetry import Series, read_series

__all__ = [
    "From",
    "MetricNames",
    "SeriesList",
    "Step",
    "To",
    "check_metrics",
    "check_span",
    "read",
    "time_range",
]

HOUR_S = 3600.0
DAY_S = 86400.0
MOST_METRICS = 32
LAST_S = 253_402_300_800.0  # the year 10000
KEPT = {each.name: each.of for each in METRICS if each.kind is MetricKind.GAUGE}
UNITS = {each.name: each.unit for each in METRICS}

From = Annotated[
    float | None,
    Query(
        alias="from",
        ge=0,
        le=LAST_S,
        allow_inf_nan=False,
        description="seconds since 1970; without it, an hour before `to`",
    ),
]
To = Annotated[
    float | None,
    Query(
        ge=0,
        le=LAST_S,
        allow_inf_nan=False,
        description="seconds since 1970; without it, now (in a demo, the simulated now)",
    ),
]
Step = Annotated[
    float | None,
    Query(
        gt=0,
        le=LAST_S,
        allow_inf_nan=False,
        description="seconds per point; made longer where there would be more than 2,000 points",
    ),
]
MetricNames = Annotated[
    list[str],
    Query(min_length=1, max_length=MOST_METRICS, description="canonical names; may be repeated"),
]


class PointReply(Reply):
    """One point. All three are null where there is a gap."""

    t_s: float
    mean: Number
    least: Number
    most: Number


class SeriesReply(Reply):
    """One metric of one entity, oldest point first."""

    entity: str
    metric: str
    unit: str
    step_s: float = Field(description="0: every sample is a point")
    points: list[PointReply]


class SeriesList(Reply):
    """The requested series. A metric without samples in that time is left out."""

    from_s: float
    to_s: float
    items: list[SeriesReply]


def time_range(
    live_state: LiveState, from_s: float | None, to_s: float | None
) -> tuple[float, float]:
    """Return a time that makes sense; 422 for one that does not."""
    end_s = live_state.refresh().cluster.t_s if to_s is None else to_s
    begin_s = max(0.0, end_s - HOUR_S) if from_s is None else from_s
    if begin_s >= end_s:
        raise RefusedError(
            422,
            f"the time from {begin_s:.15g} to {end_s:.15g} is empty",
            where="query.from, query.to",
            hint="`from` has to be before `to`; both are seconds since 1970",
        )
    return begin_s, end_s


def check_span(from_s: float, to_s: float, longest_s: float) -> None:
    """Refuse a time whose answer would have no bounded size, before anything is read."""
    if to_s - from_s > longest_s:
        raise RefusedError(
            422,
            f"the time from {from_s:.15g} to {to_s:.15g} is longer than {longest_s / DAY_S:g} days",
            where="query.from, query.to",
            hint="ask for a shorter time; `series` takes any",
        )


def check_metrics(names: list[str], of: str) -> None:
    """Refuse names that nothing of this kind can have."""
    for name in names:
        if KEPT.get(name) != of:
            there = [each for each, kind in KEPT.items() if kind == of]
            fault = unknown_name(f"metric of a {of}", name, there, where="query.metric")
            raise RefusedError(422, fault.problem, where=fault.where, hint=fault.hint)


def read(
    live_state: LiveState,
    entity: str,
    metrics: list[str],
    *,
    time: tuple[float, float],
    step_s: float | None,
) -> SeriesList:
    """Read series and put them into their shape."""
    from_s, to_s = time
    found = read_series(
        live_state.loop.telemetry, [entity], metrics, from_s=from_s, to_s=to_s, step_s=step_s
    )
    return SeriesList(from_s=from_s, to_s=to_s, items=[_reply(each) for each in found])


def _reply(series: Series) -> SeriesReply:
    columns = (series.t_s, series.mean, series.least, series.most)
    return SeriesReply(
        entity=series.entity,
        metric=series.metric,
        unit=UNITS[series.metric],
        step_s=series.step_s,
        points=[
            PointReply(t_s=t_s, mean=mean, least=least, most=most)
            for t_s, mean, least, most in zip(*(each.tolist() for each in columns), strict=True)
        ],
    )
