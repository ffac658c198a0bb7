"""`GET /api/v1/savings`: what all decisions together were worth."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field

from steward.service.api.replies import IntervalReply, Number, Reply, failures
from steward.service.live_state import LiveState

__all__ = ["savings_routes"]


class AssumptionsReply(Reply):
    """What turns GPU-hours into money, energy and carbon; set in `[savings]`."""

    price_per_gpu_hour: float
    currency: str
    host_watts_per_gpu: float
    power_usage_effectiveness: float
    co2_kg_per_kwh: float


class SavingsPointReply(Reply):
    """GPU-hours saved up to a time."""

    t_s: Number
    low: Number
    mid: Number
    high: Number


class KindReply(Reply):
    """What decisions of one kind brought, each figure in its own unit."""

    kind: str
    decisions: int
    outcomes: int
    gpu_hours: IntervalReply
    freed_gpu_hours: IntervalReply
    waiting_hours: IntervalReply
    cost: IntervalReply
    energy_kwh: IntervalReply
    co2_kg: IntervalReply
    hourly_share: Number = Field(
        description="the part of the energy whose carbon is that of its own hours"
    )


class ProjectionReply(Reply):
    """A year of days like those measured: no measurement."""

    days: int
    gpu_hours: IntervalReply
    cost: IntervalReply
    energy_kwh: IntervalReply
    co2_kg: IntervalReply


class SavingsReply(Reply):
    """The sum of all measured outcomes. Expectations never count."""

    gpu_hours: IntervalReply
    cost: IntervalReply
    energy_kwh: IntervalReply
    co2_kg: IntervalReply
    stop_cost_gpu_hours: Number = Field(
        description="what stopping jobs for others cost; not taken off the savings"
    )
    outcomes: int
    decisions: int
    by_kind: list[KindReply] = Field(
        description="of settled outcomes; the sums above count open loans too"
    )
    projection: ProjectionReply | None = Field(description="null while too few days were measured")
    assumptions: AssumptionsReply
    simulated_truth_gpu_hours: Number = Field(
        description="the simulator's own account, in a demo; null elsewhere"
    )
    series: list[SavingsPointReply] = Field(description="GPU-hours over time, at most 512 points")


def savings_routes(live_state: LiveState) -> APIRouter:
    """Return the route about savings."""
    routes = APIRouter(tags=["savings"])

    @routes.get("/savings", responses=failures())
    def savings() -> SavingsReply:
        """Return what was gained, each figure with its 95 % interval."""
        snapshot = live_state.refresh()
        sums = snapshot.savings
        return SavingsReply(
            gpu_hours=IntervalReply.model_validate(sums.gpu_hours),
            cost=IntervalReply.model_validate(sums.cost),
            energy_kwh=IntervalReply.model_validate(sums.energy_kwh),
            co2_kg=IntervalReply.model_validate(sums.co2_kg),
            stop_cost_gpu_hours=snapshot.stop_cost_gpu_hours,
            outcomes=sums.outcomes,
            decisions=sums.decisions,
            by_kind=[KindReply.model_validate(each) for each in snapshot.kinds],
            projection=None
            if snapshot.projection is None
            else ProjectionReply.model_validate(snapshot.projection),
            assumptions=AssumptionsReply.model_validate(sums.assumptions),
            simulated_truth_gpu_hours=snapshot.truth,
            series=[SavingsPointReply.model_validate(point) for point in snapshot.curve],
        )

    return routes
