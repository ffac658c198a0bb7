"""A slow model server, step by step and with plain objects: what the compiled one must agree with.

Written apart from `sim/serving`: it shares the values and the dispatchers, and none of its code.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np

from steward.model.serving.instance_type import InstanceType
from steward.model.serving.requests import RequestTrace
from steward.model.serving.view import (
    DONE,
    QUEUED,
    RUNNING,
    SENT,
    SERVING,
    InstanceColumns,
    RequestColumns,
    ServingView,
)
from steward.ports import Dispatcher


@dataclass
class Request:
    row: int
    arrival_s: float
    prompt: int
    output: int
    prefix: list[int]
    generated: int = 0
    computed: int = 0
    target: int = 0
    first_s: float = float("nan")
    finish_s: float = float("nan")
    shared: list[int] = field(default_factory=list)
    preemptions: int = 0
    reused: int = 0

    @property
    def decodes(self) -> bool:
        return self.computed >= self.target


class Server:
    def __init__(self, kind: InstanceType, prefix_tokens: int) -> None:
        self.kind = kind
        self.prefix_tokens = prefix_tokens
        self.unit = prefix_tokens // kind.block_tokens
        self.total = kind.kv_tokens // kind.block_tokens
        self.running: list[Request] = []
        self.waiting: list[Request] = []
        self.users: dict[int, int] = {}
        self.idle: OrderedDict[int, None] = OrderedDict()
        self.chunks: dict[int, int] = {}
        self.end_s = float("inf")
        self.stale = False

    # -- blocks ------------------------------------------------------------------------------

    def blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.kind.block_tokens)

    def used(self) -> int:
        """Count what running requests hold; shared blocks once."""
        own = 0
        for each in self.running:
            reserved = max(each.target, each.computed)
            own += self.blocks_for(reserved) - len(each.shared) * self.unit
        return own + len(self.users) * self.unit

    def trim(self) -> None:
        while self.idle and self.used() + len(self.idle) * self.unit > self.total:
            self.idle.popitem(last=False)

    def pin(self, request: Request, block: int) -> None:
        self.idle.pop(block, None)
        self.users[block] = self.users.get(block, 0) + 1
        request.shared.append(block)

    def release(self, request: Request) -> None:
        for block in reversed(request.shared):
            self.users[block] -= 1
            if not self.users[block]:
                del self.users[block]
                self.idle[block] = None
        request.shared = []

    def cached(self, request: Request) -> list[int]:
        hits: list[int] = []
        if self.prefix_tokens:
            for block in request.prefix[: (request.prompt - 1) // self.prefix_tokens]:
                if block not in self.users and block not in self.idle:
                    break
                hits.append(block)
        return hits

    # -- steps -------------------------------------------------------------------------------

    def begin(self, now_s: float) -> int:
        """Begin one step; return how many requests were admitted."""
        preempted = self.preempt()
        budget = self.kind.max_batched_tokens - sum(each.decodes for each in self.running)
        self.chunks = {}
        for each in self.running:
            if not each.decodes:
                self.chunks[each.row] = min(each.target - each.computed, budget)
                budget -= self.chunks[each.row]
        admitted = 0
        while not preempted and budget > 0 and self.waiting and self.admit(self.waiting[0]):
            each = self.waiting.pop(0)
            admitted += 1
            self.chunks[each.row] = min(each.target - each.computed, budget)
            budget -= self.chunks[each.row]
        self.end_s = now_s + self.step_s() if self.running else float("inf")
        return admitted

    def preempt(self) -> bool:
        preempted = False
        while True:
            more = sum(
                self.blocks_for(each.computed + 1) - self.blocks_for(each.computed)
                for each in self.running
                if each.decodes
            )
            if self.used() + more <= self.total:
                return preempted
            victim = self.running.pop()
            self.release(victim)
            victim.computed = 0
            victim.target = 0
            victim.preemptions += 1
            self.waiting.insert(0, victim)
            preempted = True

    def admit(self, request: Request) -> bool:
        if len(self.running) >= self.kind.max_sequences:
            return False
        target = request.prompt + request.generated
        hits = self.cached(request)
        newly = sum(block in self.idle for block in hits) * self.unit
        own = self.blocks_for(target) - len(hits) * self.unit
        kept = int(self.kind.watermark_share * self.total) if self.running else 0
        if self.used() + own + newly > self.total - kept:
            return False
        for block in hits:
            self.pin(request, block)
        request.target = target
        request.computed = len(hits) * self.prefix_tokens
        request.reused += request.computed
        self.running.append(request)
        self.trim()
        return True

    def step_s(self) -> float:
        decoding = [each for each in self.running if each.decodes]
        pairs = sum(
            self.chunks[each.row] * (each.computed + self.chunks[each.row] / 2)
            for each in self.running
            if self.chunks.get(each.row)
        )
        return self.kind.step_times.step_s(
            prefill_tokens=sum(self.chunks.values()),
            decode_sequences=len(decoding),
            kv_tokens=sum(each.computed for each in decoding),
            attention_pairs=pairs,
        )

    def end(self) -> None:
        for each in self.running:
            if each.decodes:
                each.computed += 1
                each.generated += 1
        self.trim()
        finished = []
        for each in self.running:
            if self.chunks.get(each.row):
                self.compute_prompt(each)
            if each.generated == each.output:
                each.finish_s = self.end_s
                finished.append(each)
                self.release(each)
        self.running = [each for each in self.running if each not in finished]
        self.end_s = float("inf")
        self.stale = True

    def compute_prompt(self, request: Request) -> None:
        request.computed += self.chunks[request.row]
        if request.computed == request.target:
            request.generated += 1
            if np.isnan(request.first_s):
                request.first_s = self.end_s
            if self.prefix_tokens:
                whole = request.prompt // self.prefix_tokens
                for block in request.prefix[len(request.shared) : whole]:
                    self.pin(request, block)

    # -- as a gateway sees it ------------------------------------------------------------------

    def room(self) -> int:
        free = self.kind.max_sequences - len(self.running) - len(self.waiting)
        return max(0, min(free, self.kind.max_waiting - len(self.waiting)))

    def held(self) -> int:
        return sum(each.computed for each in self.running)


class Caches:
    def __init__(self, servers: list[Server], requests: list[Request]) -> None:
        self.servers = servers
        self.requests = requests

    def cached_tokens(self, request: int, instance: int) -> int:
        server = self.servers[instance]
        return len(server.cached(self.requests[request])) * server.prefix_tokens


World = tuple[list[Server], list[Request], list[Request]]  # servers, queue, all requests


def serve_slowly(
    trace: RequestTrace, kind: InstanceType, instances: int, dispatcher: Dispatcher
) -> list[Request]:
    """Serve all requests that fit; return them."""
    requests = [
        Request(
            row=row,
            arrival_s=float(trace.arrival_s[row]),
            prompt=int(trace.prompt_tokens[row]),
            output=int(trace.output_tokens[row]),
            prefix=trace.prefix_ids[trace.prefix_start[row] : trace.prefix_start[row + 1]].tolist(),
        )
        for row in range(len(trace))
    ]
    servers = [Server(kind, trace.prefix_block_tokens) for _ in range(instances)]
    coming = list(requests)
    queue: list[Request] = []
    while True:
        now_s = min([each.end_s for each in servers] + [each.arrival_s for each in coming[:1]])
        if now_s == float("inf"):
            return requests
        changed = False
        for server in servers:
            if server.end_s == now_s:
                server.end()
                changed = True
        while coming and coming[0].arrival_s == now_s:
            request = coming.pop(0)
            if request.prompt + request.output <= servers[0].total * kind.block_tokens:
                queue.append(request)
                changed = True
        settle(now_s, trace, (servers, queue, requests), dispatcher, changed=changed)


def settle(
    now_s: float, trace: RequestTrace, world: World, dispatcher: Dispatcher, *, changed: bool
) -> None:
    """Ask the dispatcher, and begin steps, until nothing changes at this time."""
    servers = world[0]
    while True:
        if changed:
            ask(now_s, trace, world, dispatcher)
        changed = False
        for server in servers:
            if server.stale:
                server.stale = False
                changed |= server.begin(now_s) > 0
        if not changed:
            return


def ask(now_s: float, trace: RequestTrace, world: World, dispatcher: Dispatcher) -> None:
    servers, queue, requests = world
    if not queue or not any(each.room() for each in servers):
        return
    count = len(servers)
    state = np.full(len(trace), QUEUED)
    instance = np.full(len(trace), -1)
    for place, server in enumerate(servers):
        for code, there in ((SENT, server.waiting), (RUNNING, server.running)):
            rows = [each.row for each in there]
            state[rows], instance[rows] = code, place
    state[[each.row for each in requests if not np.isnan(each.finish_s)]] = DONE
    view = ServingView(
        t_s=now_s,
        queue=np.array([each.row for each in queue]),
        requests=RequestColumns(
            arrival_s=trace.arrival_s,
            deadline_s=trace.deadline_s,
            prompt_tokens=trace.prompt_tokens,
            deadline_class=trace.deadline_class,
            tenant=trace.tenant,
            model=np.zeros(len(trace), np.int64),
            state=state,
            generated_tokens=np.array([each.generated for each in requests]),
            instance=instance,
            sent_s=np.full(len(trace), np.nan),
            first_token_s=np.array([each.first_s for each in requests]),
            finish_s=np.array([each.finish_s for each in requests]),
        ),
        instances=InstanceColumns(
            type=np.zeros(count, np.int64),
            model=np.zeros(count, np.int64),
            state=np.full(count, SERVING),
            running=np.array([len(each.running) for each in servers]),
            waiting=np.array([len(each.waiting) for each in servers]),
            limit=np.full(count, servers[0].kind.max_sequences),
            room=np.array([each.room() for each in servers]),
            kv_tokens=np.array([each.held() for each in servers]),
            role=np.zeros(count, np.int64),
        ),
        types=(servers[0].kind,),
        models=(servers[0].kind.model,),
        classes=trace.classes,
        tenants=trace.tenants,
        prefixes=Caches(servers, requests) if trace.prefix_block_tokens else None,
    )
    for row, place in dispatcher.dispatch(view).routes:
        request = requests[row]
        queue.remove(request)
        servers[place].waiting.append(request)
        if not servers[place].running:
            servers[place].stale = True
