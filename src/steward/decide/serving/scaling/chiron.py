"""Chiron's global scaling: back-pressure of interactive work, and of batch work by slack."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.decide.serving.chiron import interactive_classes
from steward.decide.serving.demand import demand_of
from steward.decide.serving.scaling.local_limits import local_limits
from steward.decide.serving.scaling.replicas import Pool, pools
from steward.model.serving.view import ANY_CLASS, BATCH_ONLY, OFF, Scaling, ServingView

__all__ = ["ChironScaler"]

Ints = NDArray[np.int64]
_BATCH_GROUPS = 8  # clusters of deadlines


@dataclass(frozen=True, slots=True, kw_only=True)
class ChironScaler:
    """Chiron's rules: mixed instances by back-pressure, batch instances by waiting time.

    Interactive back-pressure is the share of mixed instances that run interactive work; it is kept
    near `theta`, whose inverse is the over-provisioning. Batch instances are added until no group
    of deadlines is expected to be late, and go away when no batch request waits.
    """

    theta: float = 1.0 / 3.0
    delta: float = 0.1
    gain: float = 0.3
    fewest: int = 1
    every_s: float = 10.0
    name: str = "chiron"

    def scale(self, view: ServingView) -> Scaling:
        off = np.flatnonzero(view.instances.state == OFF).tolist()
        start: list[int] = []
        drain: list[int] = []
        roles: list[tuple[int, int]] = []
        for pool in pools(view):
            role = view.instances.role[pool.rows]
            mixed, batch = pool.rows[role != BATCH_ONLY], pool.rows[role == BATCH_ONLY]
            for rows, wanted, code in (
                (mixed, self._mixed(view, mixed), ANY_CLASS),
                (batch, self._batch(view, pool, (mixed, batch)), BATCH_ONLY),
            ):
                for _ in range(min(wanted - len(rows), len(off))):
                    start.append(pool.type)
                    roles.append((off.pop(0), code))
                drain += _emptiest(view, rows)[: max(0, len(rows) - wanted)]
        return Scaling(
            start=tuple(start),
            drain=tuple(drain),
            roles=tuple(roles),
            limits=local_limits(view, self.gain),
        )

    def _mixed(self, view: ServingView, rows: Ints) -> int:
        """Return how many mixed instances bring the back-pressure back to its middle."""
        running = _running_interactive(view, rows)
        if not len(rows):
            return self.fewest
        pressure = running / len(rows)
        if abs(pressure - self.theta) <= self.delta:
            return len(rows)
        return max(self.fewest, round(running / self.theta))

    def _batch(self, view: ServingView, pool: Pool, rows: tuple[Ints, Ints]) -> int:
        chats = interactive_classes(view)[view.requests.deadline_class[pool.waiting]]
        batch = pool.waiting[~chats]
        if not len(batch):
            return 0
        mixed, own = rows
        spare = max(0.0, len(mixed) - _running_interactive(view, mixed))
        most = len(own) + int((view.instances.state == OFF).sum())
        for count in range(len(own), most):
            if not self._late_groups(view, batch, spare + count):
                return count
        return most

    def _late_groups(self, view: ServingView, batch: Ints, servers: float) -> int:
        """Return how many groups of deadlines wait longer than they may: the back-pressure."""
        demand = demand_of(view, batch[np.argsort(view.requests.deadline_s[batch], kind="stable")])
        waits_s = np.cumsum(demand.work_s) / servers if servers > 0 else np.inf
        late = np.broadcast_to(waits_s, demand.slack_s.shape) > demand.slack_s
        return sum(bool(part.any()) for part in np.array_split(late, _BATCH_GROUPS))


def _running_interactive(view: ServingView, rows: Ints) -> int:
    chats = interactive_classes(view)[view.requests.deadline_class]
    return int(np.isin(rows, view.requests.instance[chats]).sum())


def _emptiest(view: ServingView, rows: Ints) -> list[int]:
    in_flight = view.instances.running + view.instances.waiting
    return sorted(rows.tolist(), key=lambda row: (int(in_flight[row]), -row))
