"""Turns what a scaler wants into decisions of the loop, within what may be scaled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest

from steward.model.actions import (
    DrainInstance,
    ServingAction,
    SetLimit,
    SetRole,
    StartInstance,
    SwapModel,
)
from steward.model.decision import NOTHING_EXPECTED, Decision, Expectation
from steward.model.identity import DecisionId, TenantId, stable_id
from steward.model.serving.moment import ScalableType, ServingMoment, instance_claim
from steward.model.serving.snapshot import ModelServer
from steward.model.serving.view import ANY_CLASS, ROLES, Scaling
from steward.ports import Scaler

__all__ = ["ScaleInstances"]

HOUR_S = 3600.0
MINUTE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleInstances:
    """Decide what a scaler says, by names instead of rows.

    Instances of types that nobody configured are left alone. Of each type at least `least` are kept
    and at most `most` started, whatever the scaler says. An instance that is down for `down_s` is
    taken away. A start and a drain at the same time, on as many GPUs of the same engine, are a swap
    of the model. Limits that change by less than `limit_share` are left as they are.
    """

    scaler: Scaler
    down_s: float = 120.0
    limit_share: float = 0.1
    check_after_s: float = 600.0

    @property
    def name(self) -> str:
        """Return the name of the scaler: it is whose decisions these are."""
        return self.scaler.name

    def decide(self, moment: ServingMoment) -> tuple[Decision, ...]:
        """Return what should be started, drained, swapped and set."""
        if moment.unknown:
            return ()
        plan = _Plan(moment=moment)
        plan.take_away(self.down_s)
        plan.keep_least()
        scaling = self.scaler.scale(moment.view)
        plan.drain(scaling)
        plan.start(scaling)
        plan.swap()
        plan.set(scaling, self.limit_share)
        return tuple(self._decision(action, why, moment) for action, why in plan.wanted)

    def _decision(self, action: ServingAction, why: str, moment: ServingMoment) -> Decision:
        """Return a decision whose id stays as long as its cause does, and at most an hour.

        What is rejected would never be wanted again otherwise, and a limit set once a minute is
        set back and forth no more often.
        """
        about = (action.type, action.instance, _target(action))
        changed_s = max(moment.changed_s.values(), default=0.0)
        period_s = MINUTE_S if isinstance(action, SetLimit | SetRole) else HOUR_S
        period = int(moment.t_s // period_s)
        start_s = _start_s(action, moment)
        check_s = self.check_after_s + start_s
        gpus = len(action.gpus)
        saves = isinstance(action, DrainInstance)
        return Decision(
            id=DecisionId(stable_id("d", self.name, *about, changed_s, period)),
            t_s=moment.t_s,
            policy=self.name,
            action=action,
            because=why,
            expects=Expectation(low=0.0, mid=gpus * check_s, high=gpus * check_s)
            if saves
            else NOTHING_EXPECTED,
            check_after_s=check_s,
            tenant=TenantId(moment.tenant),
            subject=f"instance:{action.instance}",
        )


@dataclass(slots=True, kw_only=True)
class _Plan:
    """What is wanted so far: each step counts what those before it have decided."""

    moment: ServingMoment
    starts: list[tuple[StartInstance, str]] = field(default_factory=list)
    drains: list[tuple[DrainInstance, str]] = field(default_factory=list)
    others: list[tuple[ServingAction, str]] = field(default_factory=list)
    starting: Counter[str] = field(default_factory=Counter)  # by type
    draining: Counter[str] = field(default_factory=Counter)
    leaving: set[str] = field(default_factory=set)  # instances
    named: set[str] = field(default_factory=set)

    @property
    def wanted(self) -> tuple[tuple[ServingAction, str], ...]:
        """Return all of it, with reasons."""
        return (*self.drains, *self.starts, *self.others)

    def take_away(self, down_s: float) -> None:
        """Drain what has been down for too long: it holds GPUs and serves nothing."""
        for name, since_s in sorted(self.moment.down_since_s.items()):
            server, kind = self._managed(name)
            silent_s = self.moment.t_s - since_s
            if server is None or kind is None or silent_s < down_s:
                continue
            why = f"{name} has not answered the gateway for {silent_s:.0f} s"
            self._drain(server, kind, why, serves=False)

    def keep_least(self) -> None:
        """Start what is missing to the least number of each type."""
        for name, kind in self.moment.scalable.items():
            for _ in range(kind.least - self.moment.count_of(name)):
                self._start(kind, f"at least {kind.least} of {name} are kept")

    def drain(self, scaling: Scaling) -> None:
        """Drain what the scaler names, while enough are left."""
        for row in scaling.drain:
            name = self.moment.rows[row]
            server, kind = self._managed(name)
            if server is None or kind is None or server.state != "serving":
                continue
            left = self.moment.count_of(server.type) - self.draining[server.type]
            if left > kind.least:
                self._drain(server, kind, f"{left - 1} of {server.type} suffice{self._seen()}")

    def start(self, scaling: Scaling) -> None:
        """Start what the scaler names, while more may be; they take rows that are off in order."""
        moment, roles = self.moment, dict(scaling.roles)
        off = [row for row, name in enumerate(moment.rows) if not name]
        for code, row in zip_longest(scaling.start, off[: len(scaling.start)], fillvalue=-1):
            kind = moment.scalable.get(moment.view.types[code].name)
            if kind is not None:
                count = moment.count_of(kind.type.name) + self.starting[kind.type.name] + 1
                why = f"{count} of {kind.type.name} are needed{self._seen()}"
                self._start(kind, why, role=ROLES[roles.get(row, ANY_CLASS)])

    def swap(self) -> None:
        """Make one action of a drain and a start that can use the same GPUs."""
        for drain, why in tuple(self.drains):
            fit = next((pair for pair in self.starts if self._fits(pair[0], drain)), None)
            if fit is None or drain.instance in self.moment.down_since_s:
                continue
            self.starts.remove(fit)
            self.drains.remove((drain, why))
            self.others.append((_swapped(drain, fit[0]), fit[1]))

    def set(self, scaling: Scaling, limit_share: float) -> None:
        """Set limits that differ enough, and roles."""
        for row, limit in scaling.limits:
            server = self._settable(row)
            if server is None or abs(limit - server.limit) < max(1.0, limit_share * server.limit):
                continue
            limited = SetLimit(instance=server.name, before=server.limit, limit=max(1, limit))
            self.others.append((limited, f"its batch pays up to {limit}{self._seen()}"))
        for row, code in scaling.roles:
            server = self._settable(row)
            if server is not None and server.role != ROLES[code]:
                other = SetRole(instance=server.name, before=server.role, role=ROLES[code])
                self.others.append((other, f"{ROLES[code]} requests need it{self._seen()}"))

    def _settable(self, row: int) -> ModelServer | None:
        server = self.moment.server(self.moment.rows[row])
        if server is None or not self._is_free(server.name):
            return None
        return server

    def _managed(self, name: str) -> tuple[ModelServer | None, ScalableType | None]:
        server = self.moment.server(name)
        if server is None or not self._is_free(name):
            return None, None
        return server, self.moment.scalable.get(server.type)

    def _is_free(self, name: str) -> bool:
        return name not in self.leaving and instance_claim(name) not in self.moment.reserved

    def _drain(
        self, server: ModelServer, kind: ScalableType, why: str, *, serves: bool = True
    ) -> None:
        self.leaving.add(server.name)
        self.draining[server.type] += serves
        action = DrainInstance(
            instance=server.name,
            instance_type=server.type,
            model=kind.type.model,
            gpu_count=kind.type.gpus,
            count=self.moment.count_of(server.type) - self.draining[server.type],
        )
        self.drains.append((action, why))

    def _start(self, kind: ScalableType, why: str, *, role: str = ROLES[ANY_CLASS]) -> None:
        type_ = kind.type.name
        if self.moment.taken_of(type_) + self.starting[type_] >= kind.most:
            return
        self.starting[type_] += 1
        name = next(each for each in self._names(type_) if each not in self.named)
        self.named.add(name)
        action = StartInstance(
            instance=name,
            instance_type=type_,
            model=kind.type.model,
            gpu_count=kind.type.gpus,
            count=self.moment.count_of(type_) + self.starting[type_],
            role=role,
        )
        self.starts.append((action, why))

    def _names(self, type_: str) -> Iterator[str]:
        """Yield names of this type that are free, lowest number first."""
        number = 0
        while True:
            number += 1
            name = f"{type_}-{number}"
            if not self.moment.is_named(name) and self._is_free(name):
                yield name

    def _fits(self, start: StartInstance, drain: DrainInstance) -> bool:
        now, then = (self.moment.scalable[each.instance_type] for each in (drain, start))
        same = now.fleet == then.fleet and now.type.gpus == then.type.gpus
        return same and now.type.name != then.type.name

    def _seen(self) -> str:
        """Return what speaks for a decision: how much waits, and for how long."""
        found = []
        for each in self.moment.snapshot.classes:
            if not each.queued + each.in_flight:
                continue
            expected = each.expected_wait_s
            text = f"{each.name}: {each.queued} wait, {each.in_flight} run"
            found.append(text if expected is None else f"{text}, {expected:.1f} s expected")
        return f" ({'; '.join(found) or 'nothing waits or runs'})"


def _swapped(drain: DrainInstance, start: StartInstance) -> SwapModel:
    return SwapModel(
        instance=drain.instance,
        before_type=drain.instance_type,
        before_model=drain.model,
        instance_type=start.instance_type,
        model=start.model,
        gpu_count=drain.gpu_count,
    )


def _target(action: ServingAction) -> str:
    match action:
        case SetLimit():
            return str(action.limit)
        case SetRole():
            return action.role
        case _:
            return action.instance_type


def _start_s(action: ServingAction, moment: ServingMoment) -> float:
    """Return how long it takes until an action can show what it is worth."""
    match action:
        case StartInstance():
            return moment.scalable[action.instance_type].type.start_s
        case SwapModel():
            return moment.scalable[action.instance_type].type.swap_s
        case _:
            return 0.0
