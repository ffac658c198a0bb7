"""What policies on traffic share: moments in figures, and caps as decisions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.model.actions import Release, Throttle
from steward.model.decision import NOTHING_EXPECTED, Decision, Expectation
from steward.model.fabric.traits import line_rate
from steward.model.fabric.view import FabricView, traffic_claim
from steward.model.identity import DecisionId, JobId, TenantId, stable_id

__all__ = ["NEARLY_FREE", "CapChange", "Moment", "decisions"]

Floats = NDArray[np.float64]

NEARLY_FREE = 0.95  # of the line rate: a cap above that is taken off
LEAST_CHANGE = 0.05  # caps are not set anew for less


@dataclass(frozen=True, slots=True, kw_only=True)
class CapChange:
    """A cap that a policy wants, as a share of the line rate; 1 is none."""

    row: int
    share: float
    because: str
    expects: Expectation = NOTHING_EXPECTED


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """The figures of a view that policies go by."""

    view: FabricView
    line: Floats  # bytes a second of an endpoint, by application
    share: Floats  # the cap as a share of that; 1 is none
    load: Floats  # [application, link] bytes a second
    free: NDArray[np.bool_]  # applications about which something may be decided

    @classmethod
    def of(cls, view: FabricView) -> Moment:
        """Work them out."""
        count = len(view.applications)
        line = line_rate(view)
        load = np.zeros((count, len(view.topology.links)))
        np.add.at(load, (view.use.application, view.use.link), view.use.bytes_per_s)
        free = np.array(
            [traffic_claim(job) not in view.reserved for job in view.applications.jobs], np.bool_
        )
        share = np.minimum(view.applications.cap_bytes_per_s / line, 1.0)
        return cls(view, line, share, load, free & np.isfinite(line))

    def hot(self, least: float, held_s: float) -> NDArray[np.int64]:
        """Return the links of regions that have stalled at least so much for so long."""
        t_s = self.view.t_s
        rows = {
            link
            for region in self.view.regions
            if region.stalled_share >= least and t_s - region.since_s >= held_s
            for link in region.links
        }
        return np.array(sorted(rows), np.int64)


def decisions(
    policy: str, moment: Moment, changes: Iterable[CapChange], check_after_s: float
) -> tuple[Decision, ...]:
    """Return changes of caps as decisions; what is as it should be, or claimed, is left alone."""
    found = []
    for change in changes:
        action = _action(moment, change)
        if action is None or not moment.free[change.row]:
            continue
        view = moment.view
        about = (action.type, action.job, round(view.t_s, 3))
        found.append(
            Decision(
                id=DecisionId(stable_id("d", policy, *about)),
                t_s=view.t_s,
                policy=policy,
                action=action,
                because=change.because,
                expects=change.expects,
                check_after_s=check_after_s,
                tenant=TenantId(view.applications.tenants[change.row]),
                subject=f"traffic:{action.job}",
            )
        )
    return tuple(found)


def _action(moment: Moment, change: CapChange) -> Throttle | Release | None:
    job = JobId(moment.view.applications.jobs[change.row])
    had = float(moment.share[change.row])
    before = had * float(moment.line[change.row])
    if change.share >= NEARLY_FREE:
        return Release(job=job, before=before) if had < 1.0 else None
    if abs(change.share - had) < LEAST_CHANGE * had:
        return None
    return Throttle(
        job=job,
        bytes_per_s=change.share * float(moment.line[change.row]),
        before=before if had < 1.0 else None,
    )
