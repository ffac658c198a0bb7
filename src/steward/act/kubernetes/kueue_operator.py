"""Answers the admission checks of Kueue that are ours, from what the pools have."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from steward.act.kubernetes.admission_plans import Owner, PlannedState, plan_checks
from steward.act.kubernetes.kept_objects import KeptObjects
from steward.act.kubernetes.pool_operator import PoolOperator
from steward.act.kubernetes.retry_backoff import RetryBackoff
from steward.clients.kubernetes import Api, Reflector
from steward.clients.kubernetes.annotations import DOMAIN
from steward.clients.kubernetes.conditions import condition
from steward.clients.kubernetes.faults import ConflictError, MissingError, UnreachableError
from steward.clients.kubernetes.kueue_objects import (
    ADMISSION_CHECKS,
    WORKLOADS,
    AdmissionCheck,
    Workload,
    admission_check_from,
    workload_from,
)
from steward.clients.kubernetes.objects import maps_in
from steward.errors import StewardError

__all__ = ["KueueOperator"]

CALLED_BACK_S = 3600.0  # within this time, what was called back for a namespace is limited
_OURS = f"{DOMAIN}/ResourcePool"


class KueueOperator:
    """Follows workloads and checks. A cluster without Kueue has neither, which is no fault."""

    def __init__(
        self,
        api: Api,
        pools: PoolOperator,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api = api
        self._pools = pools
        self._now = now
        self._backoff = RetryBackoff(clock=clock)  # workloads whose answer was refused
        # When, in which pool and for which namespace how many GPUs were called back.
        self._called_back: list[tuple[float, str, str, int]] = []
        self._checks: KeptObjects[AdmissionCheck] = KeptObjects(
            Reflector(api, ADMISSION_CHECKS, make=admission_check_from)
        )
        self._workloads: KeptObjects[Workload] = KeptObjects(
            Reflector(api, WORKLOADS, make=workload_from)
        )

    @property
    def reflectors(self) -> tuple[Reflector[Any], ...]:
        return self._checks.reflector, self._workloads.reflector

    def start(self) -> None:
        """Begin to watch."""
        for each in self.reflectors:
            each.start()

    def stop(self) -> None:
        """Stop watching."""
        for each in self.reflectors:
            each.stop()

    def turn(self, *, leads: bool) -> tuple[StewardError, ...]:
        """Write the states that are due; return what went wrong. Call it after the pools' turn."""
        self._checks.fold()
        for uid in self._workloads.fold():
            if uid not in self._workloads.objects:
                self._backoff.forget(uid)
        problems = [
            each.problem
            for each in self.reflectors
            if each.problem is not None and not isinstance(each.problem, MissingError)
        ]
        ready = self._pools.ready and all(each.synced for each in self.reflectors)
        if not leads or not ready:
            return tuple(problems)
        active: dict[str, str] = {}
        for check in sorted(self._checks.objects.values(), key=lambda each: each.name):
            pool, reason, why = self._pool_of(check)
            problems += self._say_active(check, holds=bool(pool), reason=reason, why=why)
            active |= {check.name: pool} if pool else {}
        return (*problems, *self._answered(self._planned(active)))

    def _answered(self, plans: list[PlannedState]) -> list[StewardError]:
        """Write the answers; one that is refused is tried again after pauses that double."""
        problems = []
        for each in plans:
            self._backoff.forget(each.workload.uid, unless=(each.workload.version,))
        due = {*self._backoff.due({each.workload.uid for each in plans})}
        for each in plans:
            uid, version = each.workload.uid, each.workload.version
            if uid not in due:
                continue
            faults = self._sent(each)
            problems += faults
            if any(not isinstance(fault, UnreachableError) for fault in faults):
                self._backoff.pause(uid, version)
        return problems

    def _pool_of(self, check: AdmissionCheck) -> tuple[str, str, str]:
        """Return the pool of a check, empty where it has none, and the reason in words."""
        known = sorted(self._pools.usages)
        names = ", ".join(known) or "none"
        if not check.refers_to and len(known) == 1:
            return known[0], "Active", f"pool {known[0]}, the only one"
        if check.refers_to not in ("", _OURS):
            why = f"parameters are of {check.refers_to}, and have to be of {_OURS}"
            return "", "BadParametersRef", why
        if check.pool not in known:
            what = f"no ResourcePool {check.pool}" if check.pool else "parameters name no pool"
            return "", "BadParametersRef", f"{what}; there are: {names}"
        return check.pool, "Active", f"pool {check.pool}"

    def _planned(self, active: dict[str, str]) -> list[PlannedState]:
        running: dict[Owner, Counter[str]] = {}
        for pod in self._pools.pods:
            if pod.node and pod.phase in ("Running", "Pending") and not pod.leaving:
                owner = pod.namespace, pod.owner_uid
                running.setdefault(owner, Counter()).update(pod.devices)
        now_s = self._now().timestamp()
        self._called_back = [
            each for each in self._called_back if 0 <= now_s - each[0] < CALLED_BACK_S
        ]
        spent: Counter[tuple[str, str]] = Counter()
        for _, pool, namespace, gpus in self._called_back:
            spent[pool, namespace] += gpus
        return plan_checks(
            self._workloads.objects.values(),
            active,
            self._pools.usages,
            running=running,
            called_back=spent,
            now_s=now_s,
        )

    def _say_active(
        self, check: AdmissionCheck, *, holds: bool, reason: str, why: str
    ) -> list[StewardError]:
        found = condition(
            check.status,
            "Active",
            holds=holds,
            reason=reason,
            why=why,
            now=self._text(),
            generation=check.generation,
        )
        known = maps_in(check.status, "conditions")
        wanted = [*(each for each in known if each.get("type") != "Active"), found]
        if found in known:
            return []
        meta = {"resourceVersion": check.version, "uid": check.uid}
        body = {"metadata": meta, "status": {"conditions": wanted}}
        return self._patched(f"{ADMISSION_CHECKS}/{check.name}/status", body)[0]

    def _sent(self, planned: PlannedState) -> list[StewardError]:
        """Change our entry of a list that is patched as a whole; its version guards the others."""
        workload = planned.workload
        entries = [
            self._entry(planned, each) if each.get("name") == planned.check else each
            for each in workload.raw_checks
        ]
        meta = {"resourceVersion": workload.version, "uid": workload.uid}
        body = {"metadata": meta, "status": {"admissionChecks": entries}}
        faults, sent = self._patched(f"{workload.path}/status", body)
        if sent and planned.called_for:
            spent = (self._now().timestamp(), planned.pool, planned.called_for, planned.gpus)
            self._called_back.append(spent)
        return faults

    def _entry(self, planned: PlannedState, before: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        changed = before.get("state") != planned.state
        found = {
            **before,
            "state": planned.state,
            "message": planned.message,
            "lastTransitionTime": self._text() if changed else before.get("lastTransitionTime"),
        }
        found.pop("podSetUpdates", None)
        if planned.state == "Ready" and (updates := self._placed(planned)):
            found["podSetUpdates"] = updates
        return found

    def _placed(self, planned: PlannedState) -> list[dict[str, Any]]:
        """Return the labels that bind its pods to the nodes of the pool; Kueue only adds some."""
        pool = self._pools.usages[planned.pool].pool
        missing = {
            name: {k: v for k, v in pool.node_selector.items() if k not in selector}
            for name, selector in planned.workload.pod_sets.items()
        }
        return [{"name": name, "nodeSelector": each} for name, each in missing.items() if each]

    def _patched(self, path: str, body: dict[str, Any]) -> tuple[list[StewardError], bool]:
        """Return what went wrong, and whether it was written."""
        try:
            self._api.patch(path, body)
        except (ConflictError, MissingError):
            return [], False  # the watch brings what it is now, which is looked at again
        except StewardError as fault:
            return [fault], False
        return [], True

    def _text(self) -> str:
        return self._now().isoformat(timespec="seconds").replace("+00:00", "Z")
