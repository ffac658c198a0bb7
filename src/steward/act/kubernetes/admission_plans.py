"""What our admission check says about each workload of Kueue: pure, from pools and workloads.

Ready lets Kueue start a workload; Retry makes it evict one that runs, free its quota and queue it
again. So GPUs are lent by the one and called back by the other, and Kueue stays in charge of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from steward.act.kubernetes.call_backs import Loan, fewest_loans, loans_of
from steward.clients.kubernetes.annotations import SAVES
from steward.clients.kubernetes.kueue_objects import CheckState, Workload
from steward.clients.kubernetes.pool_usage import PoolUsage

__all__ = ["Owner", "PlannedState", "plan_checks"]

LEAVING_S = 120.0
STARTING_S = 300.0  # within this time after Ready, pods that are not there yet are counted

Owner = tuple[str, str]  # namespace, and uid of the object to which pods belong
Devices = Mapping[str, int]  # by resource name


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedState:
    """The state that a check of a workload should have."""

    workload: Workload
    check: str
    pool: str
    state: str
    message: str
    called_for: str = ""  # the namespace for which it is called back
    gpus: int = 0  # that this frees


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checked:
    """A workload with its checks of one pool: it is counted once, however many there are."""

    workload: Workload
    checks: tuple[CheckState, ...]
    others_ready: bool  # all checks of other controllers

    @property
    def state(self) -> str:
        """The state of all of them together."""
        states = {each.state for each in self.checks}
        return next(each for each in ("Rejected", "Retry", "Pending", "Ready", *states)
                    if each in states)  # fmt: skip

    @property
    def since_s(self) -> float:
        return max(each.since_s for each in self.checks)

    @property
    def runs(self) -> bool:
        """Whether it may run, and is not about to be stopped."""
        workload = self.workload
        return (
            self.state == "Ready"
            and workload.reserved
            and not workload.evicted
            and not workload.over
        )

    @property
    def waits(self) -> bool:
        # A workload that is evicted must not be touched: Kueue resets its checks by itself, and one
        # that is set to Retry in between is never queued again.
        workload = self.workload
        return (
            self.state == "Pending"
            and workload.reserved
            and not workload.evicted
            and not workload.over
        )


def plan_checks(
    workloads: Iterable[Workload],
    pools: Mapping[str, str],
    usages: Mapping[str, PoolUsage],
    *,
    running: Mapping[Owner, Devices],
    called_back: Mapping[tuple[str, str], int],
    now_s: float,
) -> list[PlannedState]:
    """Return the states that should be changed.

    `pools`: the pool of each check that is active. `running`: what the pods of each owner have that
    do not end yet. `called_back`: GPUs by pool and namespace for which they were, in the last hour.
    """
    found: list[PlannedState] = []
    known = list(workloads)
    for name in sorted(set(pools.values())):
        mine = []
        for workload in known:
            checks = tuple(each for each in workload.checks if pools.get(each.name) == name)
            others = [each.state for each in workload.checks if each.name not in pools]
            ready = all(state == "Ready" for state in others)
            if checks:
                mine.append(_Checked(workload=workload, checks=checks, others_ready=ready))
        spent = {owner: gpus for (pool, owner), gpus in called_back.items() if pool == name}
        found += _PoolPlan(usages[name], running, spent, now_s).plan(mine)
    return found


@dataclass(slots=True)
class _PoolPlan:
    """One pool, whose usage grows with what is allowed on the way."""

    usage: PoolUsage
    running: Mapping[Owner, Devices]
    spent: dict[str, int]  # GPUs that were called back for each namespace in the last hour
    now_s: float
    loans: list[Loan] = field(default_factory=list)
    lent: int = 0  # when what is on its way back has arrived
    coming: dict[str, int] = field(default_factory=dict)  # by resource: on its way back

    def plan(self, mine: list[_Checked]) -> list[PlannedState]:
        """Return what should change, those first to whom it is guaranteed, then the oldest."""
        absent = {each.workload.uid: self._count_starting(each) for each in mine}
        self._find_loans(mine, absent)
        waiting = [each for each in mine if each.waits]
        owed = {each.workload.uid for each in waiting if self._is_owed(each.workload)}

        def turn(each: _Checked) -> tuple[bool, float, str]:
            return each.workload.uid not in owed, each.workload.created_s, each.workload.uid

        found = []
        for each in sorted(waiting, key=turn):
            found += self._answered(each)
        return found

    def _answered(self, each: _Checked) -> list[PlannedState]:
        """Return the answer for one that waits, and what is called back for it."""
        workload = each.workload
        state, message = self._admitted(workload)
        found: list[PlannedState] = []
        if state == "Ready":
            self.usage = self.usage.with_more(workload.namespace, workload.devices)
        elif self._is_owed(workload) and self.usage.pool.may_get(workload.selector):
            if self._gpus(workload) > self.usage.total:
                message = f"{message}; it has {self.usage.total} on nodes that are ready"
            else:
                found, why = self._called_back(each)
                message += f"; {why}" if why else ""
                # nobody else may have it
                self.usage = self.usage.with_more(workload.namespace, workload.devices)
        answers = [
            self._state(workload, check.name, state, message)
            for check in each.checks
            if check.state == "Pending" and (check.state, check.message) != (state, message)
        ]
        return [*answers, *found]

    def _is_owed(self, workload: Workload) -> bool:
        """Return whether a workload needs nothing but what is guaranteed to its namespace."""
        used = self.usage.used.get(workload.namespace, 0) + self._gpus(workload)
        return used <= self.usage.guaranteed.get(workload.namespace, 0)

    def _gpus(self, workload: Workload) -> int:
        return self.usage.pool.count(workload.devices)

    def _ours(self, devices: Devices) -> dict[str, int]:
        """Return what of it is of the pool's kinds."""
        names = self.usage.pool.resource_names
        return {name: devices[name] for name in names if devices.get(name, 0) > 0}

    def _borrows(self, workload: Workload) -> int:
        return self.usage.borrows(workload.namespace, self._gpus(workload))

    def _count_starting(self, each: _Checked) -> dict[str, int]:
        """Count GPUs of a workload that may start, and whose pods are not there yet."""
        workload = each.workload
        if not each.runs:
            return {}
        began_s = workload.admitted_s  # other checks may take their time
        if began_s is not None and self.now_s - max(began_s, each.since_s) >= STARTING_S:
            return {}
        there = self.running.get(workload.owner, {})
        absent = {
            name: count - there.get(name, 0)
            for name, count in self._ours(workload.devices).items()
            if count > there.get(name, 0)
        }
        self.usage = self.usage.with_more(workload.namespace, absent)
        return absent

    def _admitted(self, workload: Workload) -> tuple[str, str]:
        gpus, pool = self._gpus(workload), self.usage.pool
        if unfit := self._unfit(workload):
            return "Pending", unfit
        if not self.usage.has_room(workload.devices):
            kinds = self._ours(workload.devices)
            free = sum(max(0, self.usage.free_of.get(name, 0)) for name in kinds)
            waits = f"waits for {gpus} GPUs of pool {pool.name}, of which {free} are free"
            return "Pending", waits
        lent = self._borrows(workload)
        some = f", {lent} of them lent" if lent else ""
        return "Ready", f"{gpus} GPUs of pool {pool.name}{some}"

    def _state(self, workload: Workload, check: str, state: str, message: str) -> PlannedState:
        return PlannedState(
            workload=workload,
            check=check,
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
            f"lends to pods that can save, and it needs {workload.save_s or 0:.0f} s for that: its "
            f"grace period is {workload.grace_s:.0f} s": not workload.can_save,
            f"calls back within {limit_s or 0:.0f} s, and its grace period is "
            f"{workload.grace_s:.0f} s": limit_s is not None and workload.grace_s > limit_s,
        }
        why = next((text for text, holds in faults.items() if holds), "") if lent else ""
        return f"it would borrow {lent} GPUs: pool {pool.name} {why}" if why else ""

    # -- calling back --------------------------------------------------------------------------

    def _find_loans(self, mine: list[_Checked], absent: Mapping[str, Devices]) -> None:
        """Find what could be called back, and what is on its way back already."""
        used, self.coming = dict(self.usage.used), dict(self.usage.returning)
        for namespace, gpus in self.usage.leaving.items():
            used[namespace] -= gpus
        for each in mine:
            namespace, coming = each.workload.namespace, self._coming(each)
            used[namespace] = max(0, used.get(namespace, 0) - sum(coming.values()))
            for name, count in coming.items():
                self.coming[name] = self.coming.get(name, 0) + count
        running = [
            Loan(
                workload=each.workload,
                check=each.checks[0].name,
                since_s=each.since_s,
                frees=self._frees(each.workload, absent[each.workload.uid]),
            )
            for each in mine
            if each.runs
        ]
        self.lent = replace(self.usage, used=used).lent
        self.loans = [
            each
            for each in loans_of(running, used, self.usage.guaranteed)
            if each.workload.can_save
        ]

    def _called_back(self, owner: _Checked) -> tuple[list[PlannedState], str]:
        """Return what is called back so that a workload may start, or why nothing is.

        Nothing is called back where that would not be enough: it would only be lost.
        """
        wanted, missing = self._ours(owner.workload.devices), {}
        for name, count in wanted.items():
            lacks = max(0, count - max(0, self.usage.free_of.get(name, 0)))
            from_coming = min(lacks, self.coming.get(name, 0))
            if from_coming:
                self.coming[name] -= from_coming
            missing[name] = lacks - from_coming
        if not any(missing.values()):
            return [], ""
        if not owner.others_ready:
            return [], "nothing is called back before its other checks are ready"
        chosen = fewest_loans(self.loans, missing)
        if chosen is None or sum(missing.values()) > self.lent:
            return [], "too few of its GPUs are lent to what can save and be called back"
        namespace, gpus = owner.workload.namespace, sum(each.gpus for each in chosen)
        spent, most = self.spent.get(namespace, 0), self.usage.guaranteed.get(namespace, 0)
        if spent and spent + gpus > most:
            return [], f"{spent} GPUs were called back for {namespace} within an hour, of {most}"
        self._take(chosen, missing, namespace)
        return [self._retry(each, owner.workload) for each in chosen], ""

    def _take(self, chosen: list[Loan], missing: Devices, namespace: str) -> None:
        for each in chosen:
            self.loans.remove(each)
            self.lent -= each.gpus
            self.spent[namespace] = self.spent.get(namespace, 0) + each.gpus
            for name, count in each.frees.items():
                self.coming[name] = self.coming.get(name, 0) + count
        for name, count in missing.items():
            self.coming[name] = self.coming.get(name, 0) - count

    def _retry(self, loan: Loan, owner: Workload) -> PlannedState:
        pool = self.usage.pool.name
        message = f"called back: its GPUs of pool {pool} are guaranteed to {owner.namespace}"
        found = self._state(loan.workload, loan.check, "Retry", message)
        return replace(found, called_for=owner.namespace, gpus=loan.gpus)

    def _frees(self, workload: Workload, absent: Devices) -> dict[str, int]:
        """Return what others could have of a running workload's GPUs after it is gone."""
        if workload.owner_kind != "Job":
            return self._ours(workload.devices)  # its pods are not its owner's: they are not known
        there = self.usage.owned.get(workload.owner, {})
        found = {name: there.get(name, 0) + absent.get(name, 0) for name in {*there, *absent}}
        return self._ours(found)

    def _coming(self, each: _Checked) -> dict[str, int]:
        """Return what a workload is about to give back, and whose pods do not end yet."""
        workload = each.workload
        if each.state != "Retry" and not workload.evicted and not workload.over:
            return {}
        if workload.owner_kind == "Job":
            return self._ours(self.usage.owned.get(workload.owner, {}))
        if workload.over:
            return {}
        # Whether its pods are gone is not known.
        limit_s = max(self.usage.pool.call_back_s or LEAVING_S, workload.grace_s)
        late = workload.evicted_s is not None and self.now_s - workload.evicted_s >= limit_s
        return {} if late else self._ours(workload.devices)
