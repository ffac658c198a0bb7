"""What our admission check says about each workload of Kueue: pure, from pools and workloads.

Ready lets Kueue start a workload; Retry makes it evict one that runs, free its quota and queue it
again. So GPUs are lent by the one and called back by the other, and Kueue stays in charge of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from steward.clients.kubernetes.annotations import SAVES
from steward.clients.kubernetes.kueue_objects import CheckState, Workload
from steward.clients.kubernetes.pool_usage import PoolUsage

__all__ = ["PlannedState", "plan_checks"]

LEAVING_S = 120.0
STARTING_S = 300.0  # within this time after Ready, pods that are not there yet are counted


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedState:
    """The state that a check of a workload should have."""

    workload: Workload
    check: str
    pool: str
    state: str
    message: str


def plan_checks(
    workloads: Iterable[Workload],
    pools: Mapping[str, str],
    usages: Mapping[str, PoolUsage],
    *,
    running: Mapping[str, int],
    now_s: float,
) -> list[PlannedState]:
    """Return the states that should be changed.

    `pools`: the pool of each check that is active. `running`: GPUs of the pods of each owner
    that do not end yet.
    """
    found: list[PlannedState] = []
    ours = [each for each in workloads if not each.over]
    for name in sorted(set(pools.values())):
        checks = {check for check, pool in pools.items() if pool == name}
        mine = [
            (workload, check)
            for workload in ours
            for check in workload.checks
            if check.name in checks
        ]
        found += _PoolPlan(usages[name], running, now_s).plan(mine)
    return found


@dataclass(slots=True)
class _PoolPlan:
    """One pool, whose usage grows with what is allowed on the way."""

    usage: PoolUsage
    running: Mapping[str, int]
    now_s: float

    def plan(self, mine: list[tuple[Workload, CheckState]]) -> list[PlannedState]:
        """Return what should change, those first to whom it is guaranteed, then the oldest."""
        for each, check in mine:
            self._count_starting(each, check)
        # A workload that is evicted must not be touched: Kueue resets its checks by itself, and one
        # that is set to Retry in between is never queued again.
        waiting = [
            (each, check)
            for each, check in mine
            if check.state == "Pending" and each.reserved and not each.evicted
        ]
        owed = {each.uid for each, _ in waiting if self._is_owed(each)}
        waiting.sort(key=lambda of: (of[0].uid not in owed, of[0].created_s, of[0].uid))
        missing, found = 0, []
        for each, check in waiting:
            planned, gpus = self._admitted(each, check), self._gpus(each)
            if (planned.state, planned.message) != (check.state, check.message):
                found.append(planned)
            if planned.state == "Ready":
                self.usage = self.usage.with_more(each.namespace, gpus)
            elif self._is_owed(each) and self.usage.pool.may_get(each.selector):
                missing += gpus - max(0, self.usage.free)
                self.usage = self.usage.with_more(each.namespace, gpus)  # nobody else may have it
        return found + self._called_back(mine, missing)

    def _is_owed(self, workload: Workload) -> bool:
        """Return whether a workload needs nothing but what is guaranteed to its namespace."""
        used = self.usage.used.get(workload.namespace, 0) + self._gpus(workload)
        return used <= self.usage.guaranteed.get(workload.namespace, 0)

    def _gpus(self, workload: Workload) -> int:
        return self.usage.pool.count(workload.devices)

    def _borrows(self, workload: Workload) -> int:
        return self.usage.borrows(workload.namespace, self._gpus(workload))

    def _count_starting(self, workload: Workload, check: CheckState) -> None:
        """Count GPUs of a workload that may start, and whose pods are not there yet."""
        if check.state != "Ready" or not workload.reserved or workload.evicted:
            return
        began_s = workload.admitted_s  # other checks may take their time
        if began_s is None or self.now_s - max(began_s, check.since_s) < STARTING_S:
            absent = max(0, self._gpus(workload) - self.running.get(workload.owner_uid, 0))
            self.usage = self.usage.with_more(workload.namespace, absent)

    def _admitted(self, workload: Workload, check: CheckState) -> PlannedState:
        gpus, pool = self._gpus(workload), self.usage.pool
        state, message = "Pending", self._unfit(workload)
        if not message and gpus > self.usage.free:
            free = max(0, self.usage.free)
            message = f"waits for {gpus} GPUs of pool {pool.name}, of which {free} are free"
        elif not message:
            lent = self._borrows(workload)
            state = "Ready"
            message = f"{gpus} GPUs of pool {pool.name}" + (
                f", {lent} of them lent" if lent else ""
            )
        return self._state(workload, check, state, message)

    def _state(
        self, workload: Workload, check: CheckState, state: str, message: str
    ) -> PlannedState:
        return PlannedState(
            workload=workload,
            check=check.name,
            pool=self.usage.pool.name,
            state=state,
            message=message,
        )

    def _unfit(self, workload: Workload) -> str:
        """Return why a workload is not admitted however much is free, or an empty text."""
        pool, lent = self.usage.pool, self._borrows(workload)
        if not pool.may_get(workload.selector):
            return f"its nodeSelector excludes the nodes of pool {pool.name}"
        limit_s = pool.call_back_s
        faults = {
            "lends nothing": not pool.lends,
            f"lends to priority class {pool.borrower_class}, and it has "
            f"{workload.priority_class or 'none'}": (
                pool.borrower_class not in ("", workload.priority_class)
            ),
            f"lends to pods that can save (annotation {SAVES} in the template)": (
                workload.save_s is None
            ),
            f"calls back within {limit_s or 0:.0f} s, and its grace period is "
            f"{workload.grace_s:.0f} s": limit_s is not None and workload.grace_s > limit_s,
        }
        why = next((text for text, holds in faults.items() if holds), "") if lent else ""
        return f"it would borrow {lent} GPUs: pool {pool.name} {why}" if why else ""

    def _called_back(
        self, mine: list[tuple[Workload, CheckState]], missing: int
    ) -> list[PlannedState]:
        """Call back lent GPUs for those to whom they are guaranteed, the youngest loans first."""
        coming = self.usage.leaving + sum(self._coming(each, check) for each, check in mine)
        missing = min(missing, self.usage.lent) - coming
        beyond = {
            name: used - self.usage.guaranteed.get(name, 0)
            for name, used in self.usage.used.items()
        }
        found = []
        running = [
            (each, check)
            for each, check in mine
            if check.state == "Ready" and each.reserved and not each.evicted
        ]
        for each, check in sorted(running, key=lambda of: (-of[1].since_s, of[0].uid)):
            gpus = self._gpus(each)
            if missing <= 0 or not gpus or beyond.get(each.namespace, 0) <= 0:
                continue
            missing -= gpus
            beyond[each.namespace] -= gpus
            message = (
                f"called back: its GPUs of pool {self.usage.pool.name} are guaranteed to others"
            )
            found.append(self._state(each, check, "Retry", message))
        return found

    def _coming(self, workload: Workload, check: CheckState) -> int:
        """Return the GPUs that a workload is about to give back, and whose pods do not end yet."""
        if check.state != "Retry" and workload.evicted_s is None:
            return 0
        if workload.owner_kind == "Job":
            return self.running.get(workload.owner_uid, 0)
        if workload.evicted_s is None:
            return self._gpus(workload)
        # Its pods are not its owner's: whether they are gone is not known.
        limit_s = self.usage.pool.call_back_s or LEAVING_S
        return self._gpus(workload) if self.now_s - workload.evicted_s < limit_s else 0
