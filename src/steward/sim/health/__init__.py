"""A fleet that fails: nodes with planted lemons, young parts, outages of racks and noisy logs.

Belongs here: what nodes need in truth, what they write into their logs, and what jobs lose by it.
Does not: what is done about it. The policies that run live decide here too (`live_policy`), beside
others that a site could have (`rivals`). Everything that happens is drawn per node and job, so that
policies of one seed meet the same faults.
"""

from __future__ import annotations

from steward.sim.health.fleet import Fleet, FleetResult, run_fleet
from steward.sim.health.live_policy import LivePolicy
from steward.sim.health.orders import FleetPolicy, Order, OrderKind
from steward.sim.health.plan import FleetPlan
from steward.sim.health.rivals import DrainOnFatal, NeverDrain, Oracle, ThreeStrikes

__all__ = [
    "DrainOnFatal",
    "Fleet",
    "FleetPlan",
    "FleetPolicy",
    "FleetResult",
    "LivePolicy",
    "NeverDrain",
    "Oracle",
    "Order",
    "OrderKind",
    "ThreeStrikes",
    "run_fleet",
]
