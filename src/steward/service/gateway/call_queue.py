"""The gateway's queue: requests wait in it until a dispatcher chooses an upstream for them."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Sequence

from steward.config.gateway_settings import GatewaySettings
from steward.decide.serving.edf import Edf
from steward.decide.serving.scaling.local_limits import local_limits
from steward.model.serving.requests import DeadlineClass
from steward.model.serving.view import Dispatch, ServingView
from steward.ports import Dispatcher, Evicts, ServingEstimator
from steward.service.gateway.call import UpstreamCall, Usage
from steward.service.gateway.forecasting import REFRESH_S, Forecasting
from steward.service.gateway.instances import Instances
from steward.service.gateway.live_view import LiveView
from steward.service.gateway.openai_errors import GatewayError
from steward.service.gateway.prefix_index import PrefixIndex
from steward.service.gateway.service_counts import ServiceCounts
from steward.service.gateway.tallies import Tallies
from steward.service.gateway.ticket import Ticket
from steward.service.gateway.upstream import Upstream, live_models
from steward.service.gateway.waits import ExpectedWait

__all__ = ["CallQueue"]

log = logging.getLogger(__name__)

_LEARN_AT = 1024  # finished requests
_BYTES_PER_TOKEN = 4.0
_LEARNED_PART = 0.05  # of a new answer, in what is known of bytes per token
_EVICTIONS = 3  # of one request, at most
_EVICT_EVERY_S = 0.05  # without room, dispatchers that evict are called so often at most
_LIMIT_GAIN = 0.5  # of local back-pressure, at the end of each window
_GENERATING = frozenset({"/v1/chat/completions", "/v1/completions", "/v1/responses"})


class CallQueue:
    """Keeps the view, calls the dispatcher when something changed, and books what comes of it.

    Everything runs in one event loop; nothing here blocks it for longer than a dispatcher does.
    """

    def __init__(  # noqa: PLR0913 - the parts that it is put together from
        self,
        settings: GatewaySettings,
        classes: Sequence[DeadlineClass],
        *,
        dispatcher: Dispatcher,
        estimator: ServingEstimator | None,
        tallies: Tallies,
        clock_s: Callable[[], float],
        wall_s: Callable[[], float],
    ) -> None:
        self.settings = settings
        self.tallies = tallies
        self.view = LiveView(classes)
        self.instances = Instances(self.view)
        self.waits = Forecasting(tallies, clock_s=clock_s, wall_s=wall_s)
        self.tickets: dict[int, Ticket] = {}  # by row
        self.counts = ServiceCounts(
            self.view, self.instances, PrefixIndex(self.tickets, self.instances.at)
        )
        self.queued = 0
        self.closing = False
        self._emptied = asyncio.Event()
        self._clock_s = clock_s
        self._scheduled = False
        self._ratio: dict[str, float] = {}  # tokens per byte, by model
        self._refreshing = False
        self.swaps: Callable[[Upstream, str], bool] = lambda _upstream, _model: False
        self._unserved_since_s: dict[str, float] = {}
        self._measured_s = clock_s()
        self._evicted_s = -_EVICT_EVERY_S
        self.set_policy(dispatcher, estimator)

    def set_policy(self, dispatcher: Dispatcher, estimator: ServingEstimator | None) -> None:
        """Use another dispatcher and estimator from now on."""
        self.dispatcher = dispatcher
        self.waits.set_policy(dispatcher, estimator)

    # -- a request's way -----------------------------------------------------------------------

    def enter(self, call: UpstreamCall) -> Ticket:
        """Take a request in. Raises what its sender has to be told.

        The task that calls this is the one whose cancellation aborts the request, to evict it.
        """
        self._check(call)
        now_s = self._clock_s()
        code = self._class_of(call)
        promised = self.view.classes[code]
        urgent_s = promised.urgent_s if call.deadline_in_s is None else call.deadline_in_s
        prompt_tokens = self._prompt_tokens(call)
        tenant = self.view.tenant_code(call.tenant)
        row = self.view.enter(
            arrival_s=now_s,
            deadline_s=now_s + urgent_s,
            prompt_tokens=prompt_tokens,
            deadline_class=code,
            tenant=tenant,
            model=self.view.model_code(call.model),
        )
        ticket = Ticket(
            call=call,
            id=call.request_id or uuid.uuid4().hex,
            row=row,
            code=code,
            promised=promised,
            entered_s=now_s,
            prompt_tokens=prompt_tokens,
            placed=asyncio.get_running_loop().create_future(),
            task=asyncio.current_task(),
        )
        self.tickets[row] = ticket
        self.counts.arrive(ticket, tenant)
        self.waits.add(ticket)
        self.queued += 1
        self.tallies.of_class(promised.name).queued += 1
        self.schedule()
        return ticket

    def begin(self, ticket: Ticket) -> None:
        """Note the first token of a stream."""
        now_s = self._clock_s()
        if ticket.first_s is not None or ticket.upstream is None:
            return
        ticket.first_s = now_s
        upstream = ticket.upstream
        upstream.streaming += 1
        if not ticket.begun:
            ticket.begun = True
            upstream.waiting -= 1
        self.view.begin(ticket.row, now_s)
        self._note_running(ticket, upstream)
        self.tallies.of_class(ticket.promised.name).first_token.add(now_s - ticket.entered_s)
        self.waits.record(ticket, now_s)
        self.schedule()

    def count(self, ticket: Ticket, tokens: int) -> None:
        """Note tokens of a stream."""
        ticket.generated += tokens
        upstream = ticket.upstream
        if upstream is not None:
            now_s = self._clock_s()
            upstream.tokens += tokens
            upstream.steps += tokens / max(1, upstream.streaming)
            if ticket.token_s is not None:
                upstream.between_s += now_s - ticket.token_s
                upstream.gaps += tokens
            ticket.token_s = now_s
            self.counts.tokens(ticket, tokens)
        self.view.count_tokens(ticket.row, ticket.generated)

    def finish(self, ticket: Ticket, usage: Usage | None) -> None:
        """Note that a request was answered."""
        upstream = self._release(ticket)
        if upstream is None:
            return
        now_s = self._clock_s()
        if usage is not None:
            self._learn_usage(ticket, usage, upstream)
        upstream.answers += 1
        if upstream.breaker.succeed():
            self.tallies.event("breaker closed", instance=upstream.name, why="it answers again")
        self._judge(ticket, now_s)
        self._remove(ticket)
        if ticket.generated and ticket.call.path in _GENERATING:
            self.view.end(ticket.row, now_s)
        else:
            self.view.drop(ticket.row)  # nothing to learn about lengths of answers
        if self.view.ended_count >= _LEARN_AT:
            self._learn()
        self.schedule()

    def refused(self, ticket: Ticket) -> None:
        """Note that an upstream would not do what the client asks for: nobody's deadline counts."""
        upstream = self._release(ticket)
        if upstream is None:
            return
        upstream.answers += 1
        upstream.breaker.succeed()
        self.tallies.of_class(ticket.promised.name).done += 1
        self._remove(ticket)
        self.view.drop(ticket.row)
        self.schedule()

    def fail_upstream(self, upstream: Upstream, why: str) -> None:
        """Count a failure of an upstream: by a request or by a health check."""
        upstream.errors += 1
        if upstream.breaker.fail(self._clock_s()):
            upstream.slots = None  # it may come back as another
            self.counts.prefixes.forget(upstream)
            self.tallies.event("breaker opened", instance=upstream.name, why=why)
            log.warning("%s gets no requests for now: %s", upstream.name, why)

    def now_s(self) -> float:
        """Return the time by which everything in the queue is counted."""
        return self._clock_s()

    def give_back(self, ticket: Ticket, *, avoid: bool) -> None:
        """Put a request that was sent into the queue again."""
        upstream = self._release(ticket)
        if upstream is None:
            return
        if avoid:
            ticket.avoid.add(upstream.name)
        ticket.generated = 0
        ticket.first_s = ticket.token_s = None
        ticket.placed = asyncio.get_running_loop().create_future()
        self.view.give_back(ticket.row)
        self.queued += 1
        self.tallies.of_class(ticket.promised.name).queued += 1
        self.schedule()

    def leave(self, ticket: Ticket, *, failed: bool = False) -> None:
        """Take a request out, wherever it is; does nothing for one that was finished."""
        if self.tickets.get(ticket.row) is not ticket:
            return
        tally = self.tallies.of_class(ticket.promised.name)
        if self._release(ticket) is None:
            self.queued -= 1
            tally.queued -= 1
        tally.done += failed
        tally.missed += failed
        self._remove(ticket)
        self.view.drop(ticket.row)
        self.schedule()

    async def empty(self) -> None:
        """Return once no request waits or is being answered."""
        if self.tickets:
            self._emptied.clear()
            await self._emptied.wait()

    def _remove(self, ticket: Ticket) -> None:
        del self.tickets[ticket.row]
        self.counts.leave(ticket)
        if not self.tickets:
            self._emptied.set()

    def expected(self, ticket: Ticket) -> ExpectedWait | None:
        """Return what a waiting request can expect, as of the last look at all of them."""
        return self.waits.board.of(ticket.row) or ticket.expected

    # -- dispatching ---------------------------------------------------------------------------

    def schedule(self) -> None:
        """Call the dispatcher soon, once for all that changes until then."""
        if not self._scheduled and self.queued:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._dispatch)

    def tick(self) -> None:
        """Do what is due a few times a second."""
        now_s = self._clock_s()
        elapsed_s = now_s - self._measured_s
        if elapsed_s >= 1.0:
            self._measured_s = now_s
            for each in self.instances.all:
                each.measure(elapsed_s)
        self._learn()
        self.instances.settle()
        self.instances.believe()
        if self.counts.tick(now_s, self.instances.all) and self.settings.local_limits:
            self._limit(now_s)
        self._expire(now_s)
        self._refresh()
        self.schedule()

    def _dispatch(self) -> None:
        self._scheduled = False
        now_s = self._clock_s()
        if self.queued and (self.instances.has_room(now_s) or self._may_evict(now_s)):
            view = self._moment(now_s)
            crowded = self.queued > int(view.instances.room.min())
            if self.waits.due(now_s, crowded=crowded):
                view = self.waits.predicted(view)
            self._carry_out(self._chosen(view))
        if self.queued and self.waits.lacks():
            self._refresh_soon()

    def _moment(self, now_s: float) -> ServingView:
        return self.counts.add_to(self.view.moment(now_s, self.instances.rows(now_s)))

    def _may_evict(self, now_s: float) -> bool:
        """Return whether to look at what runs: there is no room, so it is not done each time."""
        dispatcher = self.dispatcher
        if not (isinstance(dispatcher, Evicts) and dispatcher.evicts):
            return False
        if now_s - self._evicted_s < _EVICT_EVERY_S:
            return False
        self._evicted_s = now_s
        return bool(self.instances.by_row)

    def _limit(self, now_s: float) -> None:
        """Set limits by local back-pressure; the configured one is the most."""
        for row, limit in local_limits(self._moment(now_s), _LIMIT_GAIN):
            upstream = self.instances.at(row)[0]
            upstream.limit = min(limit, upstream.settings.limit)
        self.schedule()

    def _note_running(self, ticket: Ticket, upstream: Upstream) -> None:
        """Take in how many an upstream runs at once, where this shows it."""
        if upstream.was_full(ticket.sent_steps) or (
            upstream.slots is not None and upstream.streaming > upstream.slots
        ):
            row = self.instances.row_of(upstream, ticket.call.model)
            upstream.note_running(self.view.begun_until(ticket.row, row))

    def _chosen(self, view: ServingView) -> Dispatch:
        try:
            return self.dispatcher.dispatch(view)
        except Exception as fault:
            name = self.dispatcher.name
            log.error("the dispatcher %s failed: %s; edf goes on", name, fault, exc_info=fault)
            self.tallies.event("dispatcher failed", why=f"{name}: {fault!r}; edf goes on")
            self.set_policy(Edf(), self.waits.estimator)
            return self.dispatcher.dispatch(view)

    def _carry_out(self, chosen: Dispatch) -> None:
        now_s = self._clock_s()
        for request in chosen.evict:
            self._evict(request)
        for row, kind in chosen.swaps:
            if not self.swaps(self.instances.at(row)[0], self.view.types[kind].model):
                self.tallies.declined["swap"] += 1
        for request, row in chosen.routes:
            ticket = self.tickets.get(request)
            if ticket is None or ticket.upstream is not None or ticket.placed.done():
                self.tallies.declined["route"] += 1
                continue
            upstream = self._preferred(ticket, row, now_s)
            if upstream is None:
                self.tallies.declined["room"] += 1
                continue
            self._send(ticket, upstream, now_s)

    def _preferred(self, ticket: Ticket, row: int, now_s: float) -> Upstream | None:
        """Return the chosen upstream, or another if the request has failed there already."""
        chosen, model = self.instances.at(row)
        if model != ticket.call.model:
            return None
        if chosen.name in ticket.avoid:
            others = [
                each
                for each in self.instances.upstreams.values()
                if each.name not in ticket.avoid and model in each.models and each.room(now_s)
            ]
            chosen = min(others, key=lambda each: each.in_flight, default=chosen)
        return chosen if chosen.room(now_s) else None

    def _send(self, ticket: Ticket, upstream: Upstream, now_s: float) -> None:
        row = self.instances.row_of(upstream, ticket.call.model)
        tally = self.tallies.of_class(ticket.promised.name)
        tally.queued -= 1
        tally.in_flight += 1
        self.queued -= 1
        if ticket.sent_s is None:
            tally.wait.add(now_s - ticket.entered_s)
        ticket.sent_s = now_s
        ticket.upstream = upstream
        ticket.begun = not ticket.call.stream
        ticket.attempts += 1
        ticket.sent_steps = upstream.steps
        upstream.in_flight += 1
        upstream.waiting += not ticket.begun
        self.counts.send(ticket, upstream)
        self.view.send(ticket.row, row, now_s, begun=ticket.begun)
        ticket.placed.set_result(upstream)

    def _evict(self, request: int) -> None:
        """Abort a request whose answer nobody has seen a part of; it goes back to the queue."""
        ticket = self.tickets.get(request)
        if (
            ticket is None
            or ticket.upstream is None
            or ticket.task is None
            or ticket.first_s is not None  # a part of it is on its way to the client
            or ticket.evicted
            or ticket.evictions >= _EVICTIONS
        ):
            self.tallies.declined["evict"] += 1
            return
        ticket.evicted = True
        ticket.evictions += 1
        self.tallies.evictions += 1
        self.view.evict(request)
        ticket.task.cancel()

    # -- what is known of requests -------------------------------------------------------------

    def _check(self, call: UpstreamCall) -> None:
        if self.closing:
            raise GatewayError(
                503, "the gateway is shutting down", code="shutting_down", headers=_RETRY
            )
        if self.queued >= self.settings.max_queued:
            raise GatewayError(
                429,
                f"{self.queued} requests wait already, the most that gateway.max_queued allows",
                code="queue_full",
                headers=_RETRY,
            )
        models = self.instances.models
        if call.model in models:
            return
        if not models:  # some may come within `no_upstream_s`; invented names are bounded
            if self.view.knows_model(call.model) and self.settings.no_upstream_s > 0:
                return
            raise GatewayError(
                503, "no model server has answered yet", code="no_upstream", headers=_RETRY
            )
        raise GatewayError(
            404,
            f"the model '{call.model[:256]}' does not exist; there are: {', '.join(models)}",
            code="model_not_found",
            param="model",
        )

    def _class_of(self, call: UpstreamCall) -> int:
        name = call.deadline_class or self.settings.default_class
        if not name:
            return 0
        code = self.view.class_code(name)
        if code < 0:
            known = ", ".join(each.name for each in self.view.classes)
            raise GatewayError(
                400,
                f"there is no class '{name[:64]}'; known: {known}",
                code="unknown_class",
                param="x-steward-class",
            )
        return code

    def _prompt_tokens(self, call: UpstreamCall) -> int:
        ratio = self._ratio.get(call.model, 1 / _BYTES_PER_TOKEN)
        return max(1, round(len(call.body) * ratio))

    def _learn_usage(self, ticket: Ticket, usage: Usage, upstream: Upstream) -> None:
        size = len(ticket.call.body)
        if size and usage.prompt_tokens:
            known = self._ratio.get(ticket.call.model, 1 / _BYTES_PER_TOKEN)
            new = usage.prompt_tokens / size
            self._ratio[ticket.call.model] = known + _LEARNED_PART * (new - known)
            ticket.prompt_tokens = usage.prompt_tokens
            self.view.set_prompt(ticket.row, usage.prompt_tokens)
        upstream.tokens += usage.output_tokens - ticket.generated
        self.counts.tokens(ticket, usage.output_tokens - ticket.generated)
        ticket.generated = usage.output_tokens
        self.view.count_tokens(ticket.row, ticket.generated)

    def _release(self, ticket: Ticket) -> Upstream | None:
        """Free the place of a request at its upstream; None if it has none."""
        upstream = ticket.upstream
        if upstream is None:
            return None
        ticket.upstream = None
        upstream.in_flight -= 1
        upstream.waiting -= not ticket.begun
        upstream.streaming -= ticket.first_s is not None
        self.tallies.of_class(ticket.promised.name).in_flight -= 1
        return upstream

    def _judge(self, ticket: Ticket, now_s: float) -> None:
        sent_s = now_s if ticket.sent_s is None else ticket.sent_s
        first_s = sent_s if ticket.first_s is None else ticket.first_s
        self.tallies.of_class(ticket.promised.name).judge(
            ticket.promised,
            first_s=first_s - ticket.entered_s,
            whole_s=now_s - ticket.entered_s,
            token_s=(now_s - first_s) / (ticket.generated - 1) if ticket.generated > 1 else None,
        )

    # -- what is due now and then --------------------------------------------------------------

    def _learn(self) -> None:
        if self.view.ended_count:
            self.waits.learn(self._moment(self._clock_s()), self.view.ended)
            self.view.forget()

    def _refresh_soon(self) -> None:
        if not self._refreshing:
            self._refreshing = True
            wait_s = max(REFRESH_S, self.waits.refresh_at_s - self._clock_s())
            asyncio.get_running_loop().call_later(wait_s, self._refresh_due)

    def _refresh_due(self) -> None:
        self._refreshing = False
        self._refresh()

    def _refresh(self) -> None:
        now_s = self._clock_s()
        if not self.tickets:
            self.waits.board.clear()
        elif now_s >= self.waits.refresh_at_s:
            self.waits.refresh(self.waits.predicted(self._moment(now_s)))

    def _expire(self, now_s: float) -> None:
        """Fail what waits for models that no upstream has served for a while."""
        live = live_models(list(self.instances.upstreams.values()))
        lacking: dict[str, list[Ticket]] = {}
        if (self.queued and self.view.queued_models() - live) or self._unserved_since_s:
            for ticket in self.tickets.values():
                if ticket.waiting and ticket.call.model not in live:
                    lacking.setdefault(ticket.call.model, []).append(ticket)
        since_s = {name: self._unserved_since_s.get(name, now_s) for name in lacking}
        self._unserved_since_s = since_s
        for name, tickets in lacking.items():
            if now_s - since_s[name] >= self.settings.no_upstream_s:
                for ticket in tickets:
                    self._fail_waiting(ticket)

    def _fail_waiting(self, ticket: Ticket) -> None:
        if not ticket.placed.done():
            waited_s = self.settings.no_upstream_s
            ticket.placed.set_exception(
                GatewayError(
                    503,
                    f"no server of '{ticket.call.model}' has been up for {waited_s:g} s",
                    code="no_upstream",
                    headers=_RETRY,
                )
            )


_RETRY = {"Retry-After": "1"}
