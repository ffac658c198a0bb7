"""Replays requests on simulated model servers, with a dispatcher that could as well be live."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.model.serving.forecasts import ServingForecasts
from steward.model.serving.instance_type import InstanceType
from steward.model.serving.requests import RequestTrace, requests_of
from steward.model.serving.view import (
    OFF,
    Dispatch,
    InstanceColumns,
    InstanceRates,
    RequestColumns,
    Scaling,
    ServingView,
)
from steward.ports import Dispatcher, Evicts, Scaler, ServingEstimator
from steward.sim.serving.blocks import cached_tokens
from steward.sim.serving.events import (
    ENDED,
    TICKED,
    WRONG_ROUTE,
    advance,
    drain,
    evict,
    set_limit,
    set_role,
    start_instance,
    swap,
)
from steward.sim.serving.kv_offload import KvOffload
from steward.sim.serving.result import ServingRun
from steward.sim.serving.state import (
    ENDED_N,
    EVERY_STEP,
    NEXT_ARRIVAL,
    NOW,
    QUEUE_N,
    ROUTES,
    STEPS,
    TICK,
    UNDONE,
    WITHOUT_ROOM,
    ServingState,
    by_reference,
    empty_state,
)

__all__ = ["Failure", "Fleet", "draw_failures", "simulate", "warm_up"]

_IDLE_TICKS = 1000  # so many ticks without anything else happening, and it ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An instance loses what it has at `t_s`, and begins to start again `down_s` later."""

    t_s: float
    instance: int
    down_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The instances at the start, which all serve, and what can become of them."""

    types: tuple[InstanceType, ...]
    instances: tuple[int, ...]  # positions of types
    places: int = 0  # instances at most; those at the start if that is more
    failures: tuple[Failure, ...] = ()

    @property
    def models(self) -> tuple[str, ...]:
        """Return the models of all types, in their order."""
        return tuple(dict.fromkeys(each.model for each in self.types))


def draw_failures(*, seed: int, mtbf_s: float, until_s: float, instances: int) -> list[Failure]:
    """Return failures at exponential distances, `mtbf_s` apart on average for each instance."""
    draw = np.random.default_rng(seed)
    found = []
    for row in range(instances):
        t_s = float(draw.exponential(mtbf_s))
        while t_s < until_s:
            found.append(Failure(t_s=t_s, instance=row))
            t_s += float(draw.exponential(mtbf_s))
    return sorted(found, key=lambda each: (each.t_s, each.instance))


def simulate(  # noqa: PLR0913 - all that a run can have
    trace: RequestTrace,
    fleet: Fleet,
    dispatcher: Dispatcher,
    *,
    scaler: Scaler | None = None,
    estimator: ServingEstimator | None = None,
    every_step: bool = False,
    offload: KvOffload | None = None,
) -> ServingRun:
    """Serve all requests; return what became of each.

    An `estimator` learns from requests that ended, and predicts, before each call of the
    dispatcher and of the scaler; they find what it expects in the view.

    With `offload`, prefix blocks that leave a GPU go to its host, and from there to remote memory;
    what comes back is not computed again.

    `every_step` takes each step by itself instead of whole stretches of decoding: slow, and the
    same to the rounding of numbers.
    """
    _check(trace, fleet)
    began_s = time.process_time()
    evicts = isinstance(dispatcher, Evicts) and dispatcher.evicts
    world = _World.of(trace, fleet, every_step=every_step, evicts=evicts, offload=offload)
    calls = world.run(dispatcher, scaler, estimator)
    cpu_s = time.process_time() - began_s
    return world.result(trace, calls=calls, cpu_s=cpu_s, policy=dispatcher.name)


def warm_up() -> None:
    """Compile the simulator, or load what an earlier process compiled."""
    from steward.decide.serving.fcfs import Fcfs  # noqa: PLC0415 - a policy to run with
    from steward.model.serving.instance_type import H200_LLAMA_8B  # noqa: PLC0415

    tiny = requests_of("tiny", arrival_s=[0.0], prompt_tokens=[8], output_tokens=[2])
    fleet = Fleet(types=(H200_LLAMA_8B,), instances=(0,))
    simulate(tiny, fleet, Fcfs())


def _check(trace: RequestTrace, fleet: Fleet) -> None:
    wrong = [f"{each.name}: {fault}" for each in fleet.types for fault in each.faults()]
    unknown = sorted(set(trace.models) - set(fleet.models))
    if unknown:
        known = ", ".join(fleet.models)
        wrong.append(f"no instance type serves {', '.join(unknown)}; served: {known}")
    block = trace.prefix_block_tokens
    wrong += [
        f"{each.name}: prefix blocks of {block} tokens are not whole blocks of {each.block_tokens}"
        for each in fleet.types
        if block % each.block_tokens
    ]
    if not len(trace):
        wrong.append("there are no requests")
    if not fleet.instances:
        wrong.append("there are no instances")
    if wrong:
        raise StewardError("; ".join(wrong), where=trace.name, hint="change the instance types")


@dataclass(frozen=True, slots=True)
class SimulatedCaches:
    """What the simulated servers' prefix caches hold."""

    compiled: Any

    def cached_tokens(self, request: int, instance: int) -> int:
        return int(cached_tokens(self.compiled, instance, request))


@dataclass(slots=True, kw_only=True)
class _World:
    """The state in both forms, as arrays and as compiled code sees it, with the view's columns."""

    state: ServingState
    compiled: Any
    view: ServingView
    queue: NDArray[np.int64]  # the same memory as the state's, not to be written to
    ended: NDArray[np.int64]  # likewise
    tokens_per_s: NDArray[np.float64]  # of each instance, in the window before the last tick
    offload: KvOffload | None = None
    learned: int = 0  # how many of `ended` the estimator knows
    counted: tuple[NDArray[Any], NDArray[Any]] | None = None  # at the last tick

    @staticmethod
    def of(
        trace: RequestTrace,
        fleet: Fleet,
        *,
        every_step: bool,
        evicts: bool,
        offload: KvOffload | None,
    ) -> _World:
        places = max(fleet.places, len(fleet.instances))
        failures = [(each.t_s, each.instance, each.down_s) for each in fleet.failures]
        state = empty_state(
            trace,
            fleet.types,
            models=fleet.models,
            places=places,
            failures=failures,
            offload=offload.tiers if offload is not None else None,
        )
        state.limits[EVERY_STEP] = every_step
        state.limits[WITHOUT_ROOM] = evicts
        state.counts[UNDONE] = len(trace)
        compiled = by_reference(state)
        for kind in fleet.instances:
            start_instance(compiled, kind, 0.0)
        return _World(
            state=state,
            compiled=compiled,
            view=_view(trace, fleet, state, compiled),
            queue=_read_only(state.queue),
            ended=_read_only(state.ended),
            tokens_per_s=np.zeros(places),
            offload=offload,
        )

    def run(
        self, dispatcher: Dispatcher, scaler: Scaler | None, estimator: ServingEstimator | None
    ) -> int:
        """Go on until nothing is left to happen; return how often the dispatcher was called."""
        state, compiled, queue, view = self.state, self.compiled, self.queue, self.view
        counts, clock = state.counts, state.clock
        calls = idle_ticks = before = 0
        if scaler is not None:
            clock[TICK] = 0.0
        while True:
            reason = advance(compiled)
            if reason == ENDED:
                return calls
            if reason == WRONG_ROUTE:
                raise self._refused(dispatcher)
            now = replace_moment(view, float(clock[NOW]), queue[: counts[QUEUE_N]])
            if self.offload is not None:
                self.offload.follow(state, now.t_s)
            if estimator is not None:
                now = self._estimated(estimator, now)
            if reason == TICKED and scaler is not None:
                happened = int(counts[STEPS] + counts[NEXT_ARRIVAL])
                more_come = counts[NEXT_ARRIVAL] < len(state.arrival_s)
                idle_ticks = 0 if more_come or happened != before else idle_ticks + 1
                before = happened
                self._scale(scaler, self._rated(now, scaler.every_s))
                more = counts[UNDONE] > 0 and idle_ticks < _IDLE_TICKS
                clock[TICK] = now.t_s + scaler.every_s if more else np.inf
                continue
            calls += 1
            self._carry_out(dispatcher, dispatcher.dispatch(now))

    def _estimated(self, estimator: ServingEstimator, now: ServingView) -> ServingView:
        """Return the view with what is expected, once what ended since was learned."""
        ended = int(self.state.counts[ENDED_N])
        if ended > self.learned:
            estimator.learn(now, self.ended[self.learned : ended])
            self.learned = ended
        return replace_moment(now, now.t_s, now.queue, forecasts=estimator.predict(now))

    def _rated(self, now: ServingView, window_s: float) -> ServingView:
        """Return the view with what instances did since the last tick, if there was one."""
        made, between_s = self.state.made.copy(), self.state.between_s.copy()
        before, self.counted = self.counted, (made, between_s)
        if before is None:
            return now
        tokens = made - before[0]
        with np.errstate(invalid="ignore"):
            itl_s = (between_s - before[1]) / np.where(tokens > 0, tokens, np.nan)
        rates = InstanceRates(
            window_s=window_s,
            itl_s=itl_s,
            tokens_per_s=tokens / window_s,
            tokens_per_s_before=self.tokens_per_s,
        )
        self.tokens_per_s = rates.tokens_per_s
        return replace(now, rates=rates)

    def _carry_out(self, dispatcher: Dispatcher, chosen: Dispatch) -> None:
        state = self.state
        for place, (request, instance) in enumerate(chosen.routes):
            state.route_request[place] = request
            state.route_instance[place] = instance
        state.counts[ROUTES] = len(chosen.routes)
        for request in chosen.evict:
            if not evict(self.compiled, request):
                raise _misled(dispatcher, f"request {request}, which is nowhere, evicted")
        for instance, kind in chosen.swaps:
            if not swap(self.compiled, instance, kind):
                raise _misled(dispatcher, f"instance {instance} swapped to type {kind}")

    def _scale(self, scaler: Scaler, now: ServingView) -> None:
        chosen: Scaling = scaler.scale(now)
        for instance, limit in chosen.limits:
            if not set_limit(self.compiled, instance, limit):
                raise _misled(scaler, f"a limit for instance {instance}")
        for instance in chosen.drain:
            if not drain(self.compiled, instance):
                raise _misled(scaler, f"instance {instance} drained")
        for kind in chosen.start:  # where all places are taken, nothing starts
            start_instance(self.compiled, kind, now.types[kind].start_s)
        for instance, role in chosen.roles:  # also of those that were started just now
            if not set_role(self.compiled, instance, role):
                raise _misled(scaler, f"role {role} for instance {instance}")

    def _refused(self, dispatcher: Dispatcher) -> StewardError:
        place = int(self.state.counts[ROUTES])
        request = int(self.state.route_request[place])
        instance = int(self.state.route_instance[place])
        return _misled(dispatcher, f"request {request} on instance {instance}")

    def result(self, trace: RequestTrace, **about: Any) -> ServingRun:  # noqa: ANN401
        """Close the books of instances that still run, and return what became of requests."""
        state = self.state
        end_s = float(max(state.clock[NOW], np.nanmax(state.finish_s, initial=0.0)))
        on = state.state != OFF
        open_s = np.where(on, end_s - state.on_since_s, 0.0) * state.type_gpus[state.type]
        return ServingRun(
            trace=trace,
            sent_s=state.sent_s,
            first_token_s=state.first_s,
            finish_s=state.finish_s,
            instance=state.last_instance,
            preemptions=state.preemptions,
            returns=state.returns,
            reused_tokens=state.reused,
            offloaded=self.offload.counts(state) if self.offload is not None else {},
            end_s=end_s,
            gpu_seconds=float(state.gpu_seconds.sum() + open_s.sum()),
            steps=int(state.counts[STEPS]),
            **about,
        )


def replace_moment(
    view: ServingView,
    t_s: float,
    queue: NDArray[np.int64],
    *,
    forecasts: ServingForecasts | None = None,
) -> ServingView:
    """Return the view at another time with another queue; the columns are shared."""
    return ServingView(
        t_s=t_s,
        queue=queue,
        requests=view.requests,
        instances=view.instances,
        types=view.types,
        models=view.models,
        classes=view.classes,
        tenants=view.tenants,
        forecasts=forecasts,
        prefixes=view.prefixes,
        served_tokens=view.served_tokens,
    )


def _view(
    trace: RequestTrace,
    fleet: Fleet,
    state: ServingState,
    compiled: Any,  # noqa: ANN401
) -> ServingView:
    return ServingView(
        t_s=0.0,
        queue=_read_only(state.queue)[:0],
        requests=RequestColumns(
            arrival_s=_read_only(trace.arrival_s),
            deadline_s=_read_only(trace.deadline_s),
            prompt_tokens=_read_only(trace.prompt_tokens),
            deadline_class=_read_only(trace.deadline_class),
            tenant=_read_only(trace.tenant),
            model=_read_only(state.model),
            state=_read_only(state.status),
            generated_tokens=_read_only(state.generated),
            instance=_read_only(state.instance),
            sent_s=_read_only(state.sent_s),
            first_token_s=_read_only(state.first_s),
            finish_s=_read_only(state.finish_s),
        ),
        instances=InstanceColumns(
            type=_read_only(state.type),
            model=_read_only(state.instance_model),
            state=_read_only(state.state),
            running=_read_only(state.running_n),
            waiting=_read_only(state.waiting_n),
            limit=_read_only(state.limit),
            room=_read_only(state.room),
            kv_tokens=_read_only(state.held),
            role=_read_only(state.role),
        ),
        types=fleet.types,
        models=fleet.models,
        classes=trace.classes,
        tenants=trace.tenants,
        served_tokens=_read_only(state.served),
        prefixes=SimulatedCaches(compiled) if trace.prefix_block_tokens else None,
    )


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    shown = array.view()
    shown.flags.writeable = False
    return shown


def _misled(plug: Dispatcher | Scaler, what: str) -> StewardError:
    return StewardError(
        f"it wanted {what}, which is not possible in that moment",
        where=f"policy {plug.name}",
        hint="send only waiting requests, to serving instances of their model with room",
    )
