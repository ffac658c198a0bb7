"""Real traffic control, for benchmarks/network.py: what a cap does to who has it and to others.

In network namespaces: a bulk transfer and small messages cross one slow router. Then the bulk
transfer is throttled by a decision that the actuator carries out.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # the bed that real tests use

from beds.traffic_bed import BULK_PORT, TARGET, traffic_bed
from steward.act.fabric.traffic_control import TrafficControl
from steward.clients.linux.traffic import Match, TrafficShaper
from steward.model.actions import Throttle
from steward.model.decision import Decision
from steward.model.identity import DecisionId, JobId, TenantId

__all__ = ["measure"]

CAP = 12.5e6  # bytes a second: half of what the router passes


def measure(*, short: bool) -> dict[str, Any]:
    """Return the bulk transfer's rate and the latency of small messages, before and after."""
    seconds = 1.0 if short else 4.0
    with traffic_bed() as bed:
        shaper = TrafficShaper(bed.out, namespace=bed.sender)
        control = TrafficControl(
            shapers={"n1": shaper},
            matches={"812": (Match(to_address=TARGET, to_port=BULK_PORT),)},
        )
        bed.listen()
        idle = bed.latencies_s(seconds)
        bed.send()
        bed.rate(1.0)  # until its window has opened
        before, rate_before = bed.latencies_s(seconds), bed.rate(seconds)
        control.carry_out(_throttle(), 0.0)
        bed.rate(1.0)
        after, rate_after = bed.latencies_s(seconds), bed.rate(seconds)
    return {
        "cap_mbit_per_s": CAP * 8 / 1e6,
        "bulk_mbit_per_s_before": round(rate_before * 8 / 1e6, 2),
        "bulk_mbit_per_s_after": round(rate_after * 8 / 1e6, 2),
        "throttled_of_cap": round(rate_after / CAP, 3),
        "latency_ms_idle": _quantiles(idle),
        "latency_ms_before": _quantiles(before),
        "latency_ms_after": _quantiles(after),
        "latency_after_of_before": round(statistics.median(after) / statistics.median(before), 4),
    }


def _throttle() -> Decision:
    return Decision(
        id=DecisionId("d-tc"),
        t_s=0.0,
        policy="netscope",
        action=Throttle(job=JobId("812"), bytes_per_s=CAP),
        because="it fills the router's queue",
        check_after_s=60.0,
        tenant=TenantId("bio"),
    )


def _quantiles(seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=100)
    return {"p50": round(cuts[49] * 1e3, 3), "p99": round(cuts[98] * 1e3, 3)}
