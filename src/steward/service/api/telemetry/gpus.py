"""`GET /api/v1/gpus/GPU/...`: what one GPU did, as series and as a heat map."""

from __future__ import annotations

from math import isnan
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from steward.errors import did_you_mean
from steward.service.api.replies import Reply, failures
from steward.service.api.telemetry.query_parameters import (
    From,
    MetricNames,
    SeriesList,
    Step,
    To,
    check_metrics,
    check_span,
    read,
    time_range,
)
from steward.service.failures import RefusedError
from steward.service.live_state import LiveState
from steward.service.telemetry import LONGEST_S, read_heat_map

__all__ = ["gpu_routes"]

MetricName = Annotated[str, Query(description="the canonical name of a metric of GPUs")]


class HeatReply(Reply):
    """Cells of a heat map. `values[i][j]` is the mean at `from_s + i*column_s + j*row_s`."""

    entity: str
    metric: str
    from_s: float
    column_s: float
    row_s: float
    period_s: float | None = Field(description="how far samples are apart; null: too few of them")
    values: list[list[float | None]] = Field(description="null is a gap")


def gpu_routes(live_state: LiveState) -> APIRouter:
    """Return the routes about single GPUs."""
    routes = APIRouter(tags=["telemetry"])

    @routes.get("/gpus/{gpu:path}/series", responses=failures(404))
    def series(
        gpu: str, metric: MetricNames, from_s: From = None, to: To = None, step: Step = None
    ) -> SeriesList:
        """Return metrics of a GPU over time, in at most 2,000 points each."""
        _check_there(live_state, gpu)
        check_metrics(metric, "gpu")
        return read(live_state, gpu, metric, time=time_range(live_state, from_s, to), step_s=step)

    @routes.get("/gpus/{gpu:path}/heat", responses=failures(404))
    def heat(
        gpu: str, metric: MetricName = "gpu.busy_share", from_s: From = None, to: To = None
    ) -> HeatReply:
        """Return one metric of a GPU by second and offset within it (or minute, or hour)."""
        _check_there(live_state, gpu)
        check_metrics([metric], "gpu")
        begin_s, end_s = time_range(live_state, from_s, to)
        check_span(begin_s, end_s, LONGEST_S)
        found = read_heat_map(live_state.loop.telemetry, gpu, metric, from_s=begin_s, to_s=end_s)
        if found is None:
            return HeatReply(
                entity=gpu,
                metric=metric,
                from_s=begin_s,
                column_s=1.0,
                row_s=0.1,
                period_s=None,
                values=[],
            )
        return HeatReply(
            entity=gpu,
            metric=metric,
            from_s=found.from_s,
            column_s=found.rhythm_map.column_s,
            row_s=found.rhythm_map.row_s,
            period_s=found.period_s,
            values=[
                [None if isnan(each) else each for each in column]
                for column in found.values.tolist()
            ],
        )

    return routes


def _check_there(live_state: LiveState, gpu: str) -> None:
    there = [each.id for each in live_state.refresh().cluster.gpus]
    if gpu in there or live_state.latest.of(gpu):
        return
    hint = did_you_mean(gpu, there) or "GET /api/v1/nodes lists the GPUs of every node"
    raise RefusedError(404, f"there is no GPU called '{gpu}'", where="path.gpu", hint=hint)
