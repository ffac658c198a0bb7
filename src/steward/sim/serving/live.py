"""One simulated model server in real time: the state and the steps of the simulator, bit by bit.

The caller has the clock: it submits and aborts requests at a time, and advances the server to a
time that never goes back. Rows of requests are used again once they ended.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.errors import StewardError
from steward.model.serving.instance_type import H200_LLAMA_8B, InstanceType
from steward.model.serving.requests import requests_of
from steward.model.serving.view import DONE, QUEUED, RUNNING, SENT
from steward.sim.serving.blocks import clear_cache
from steward.sim.serving.events import start_instance
from steward.sim.serving.prefix_ids import PrefixIds
from steward.sim.serving.state import (
    ENDED_N,
    PREFIX_TOKENS,
    QUEUE_N,
    STEPS,
    ServingState,
    by_reference,
    empty_state,
)
from steward.sim.serving.steps import (
    catch_up,
    commit,
    interrupt,
    plan,
    preempt_last,
    requeue,
    sweep,
)

__all__ = ["LiveServer", "Progress", "warm_up"]

Ints = NDArray[np.int64]
_LIVE_N, _ASLEEP = range(2)  # positions in `LiveServer.counts`


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Progress:
    """What requests got since the last time: columns with a place per request."""

    rows: Ints
    generated: Ints  # tokens in all; those that were preempted keep theirs
    ended: NDArray[np.bool_]  # finished, or aborted: the row may be used again


@dataclass(slots=True, kw_only=True)
class LiveServer:
    """One instance of `kind` that serves, with room for `places` requests at a time."""

    kind: InstanceType
    places: int = 8192
    prefix_block_tokens: int = 128  # 0: without a prefix cache
    most_tokens: int = 32_768  # of a request: prompt and answer
    state: ServingState = field(init=False, repr=False)
    counts: Ints = field(init=False, repr=False)
    asleep: bool = False
    _compiled: Any = field(init=False, repr=False)
    _live: Ints = field(init=False, repr=False)
    _reported: Ints = field(init=False, repr=False)
    _changed: Ints = field(init=False, repr=False)
    _free: list[int] = field(init=False, repr=False)
    _prefixes: PrefixIds | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        faults = self.kind.faults()
        if faults:
            raise StewardError(
                "; ".join(faults), where=self.kind.name, hint="change the server's limits"
            )
        width = 0
        if self.prefix_block_tokens:
            width = self.most_tokens // self.prefix_block_tokens
            cached = self.kind.kv_tokens // self.prefix_block_tokens
            self._prefixes = PrefixIds(ids=cached + self.places, width=width)
        self.state = _state(self.kind, self.places, width, self._prefixes)
        self.state.limits[PREFIX_TOKENS] = self.prefix_block_tokens
        self._compiled = by_reference(self.state)
        start_instance(self._compiled, 0, 0.0)
        self.counts = np.zeros(2, np.int64)
        self._live = np.zeros(self.places, np.int64)
        self._reported = np.zeros(2 * self.places, np.int64)
        self._changed = np.zeros(self.places, np.int64)
        self._free = list(range(2 * self.places - 2, -1, -2))

    def submit(
        self, t_s: float, *, prompt_tokens: int, output_tokens: int, prefix: Sequence[int] = ()
    ) -> int:
        """Let a request wait for its turn; return its row. `prefix` has a key per prompt block.

        Callers see to it that prompt and answer fit (`fits`) and that there is a place (`full`).
        """
        row = self._free.pop()
        state = self.state
        state.prompt[row] = prompt_tokens
        state.output[row] = output_tokens
        if self._prefixes is not None:
            self._prefixes.assign(row, prefix, state)
        _enter(self._compiled, self._live, self.counts, row, t_s)
        self._reported[row] = 0
        return row

    def fits(self, tokens: int) -> bool:
        """Return whether a request with so many tokens in all can ever run."""
        blocks = self.kind.kv_tokens // self.kind.block_tokens
        return tokens <= min(self.most_tokens, blocks * self.kind.block_tokens)

    @property
    def full(self) -> bool:
        """Return whether every place is taken."""
        return not self._free

    def abort(self, row: int, t_s: float) -> None:
        """Take a request from the server; `advance` says when its row is free."""
        _abort(self._compiled, self.counts, row, t_s)

    def advance(self, t_s: float) -> Progress:
        """Take in all steps that are over at `t_s`, and begin the next."""
        found = _go_on(self._compiled, self._live, self.counts, self._reported, self._changed, t_s)
        rows = self._changed[:found].copy()
        status = self.state.status[rows]
        ended = (status == DONE) | (status == QUEUED)
        for row in rows[ended].tolist():
            self._free.append(row)
            if self._prefixes is not None:
                self._prefixes.release(row)
        return Progress(rows=rows, generated=self.state.generated[rows], ended=ended)

    def sleep(self, t_s: float) -> None:
        """Forget the KV cache and begin no step until `wake`; requests wait, with their tokens."""
        self.asleep = True
        _sleep(self._compiled, self.counts, t_s)

    def wake(self) -> None:
        """Go on with the next `advance`."""
        self.asleep = False
        self.counts[_ASLEEP] = 0
        self.state.stale[0] = 1

    def next_s(self) -> float:
        """Return when the step that runs is over; infinite when nothing is to be done."""
        state = self.state
        steps = int(state.steps[0])
        if steps > 1:
            return float(state.begin_s[0] + state.first_step_s[0])
        if steps == 0 and state.stale[0] and not self.asleep:
            return -math.inf
        return float(state.end_s[0])

    @property
    def running(self) -> int:
        """Return how many requests are in the batch."""
        return int(self.state.running_n[0])

    @property
    def waiting(self) -> int:
        """Return how many requests were not admitted yet, or were preempted."""
        return int(self.state.waiting_n[0])

    @property
    def kv_used_share(self) -> float:
        """Return the share of KV blocks in use; cached ones that nobody uses count as free."""
        return 1.0 - float(self.state.free[0]) / float(self.state.type_blocks[0])

    @property
    def steps(self) -> int:
        """Return how many steps were computed so far."""
        return int(self.state.counts[STEPS])


def warm_up() -> None:
    """Compile what a live server calls, or load what an earlier process compiled."""
    server = LiveServer(kind=H200_LLAMA_8B, places=4)
    for _ in range(2):
        row = server.submit(0.0, prompt_tokens=256, output_tokens=8, prefix=(1, 2))
    server.advance(0.1)
    server.abort(row, 0.1)
    server.sleep(0.2)
    server.wake()
    server.advance(0.3)


def _state(kind: InstanceType, places: int, width: int, prefixes: PrefixIds | None) -> ServingState:
    """Return the simulator's state for one instance, with a long queue in the server itself."""
    zeros = np.zeros(2 * places, np.int64)  # row r + 1 only says where the prefix of row r ends
    trace = requests_of(
        "live", arrival_s=[0.0] * len(zeros), prompt_tokens=zeros, output_tokens=zeros
    )
    state = empty_state(trace, (kind,), models=(kind.model,), places=1, failures=())
    ids = prefixes.ids if prefixes is not None else 0
    return state._replace(
        waiting=np.zeros((1, 2 * places), np.int64),
        prefix_ids=np.zeros(places * width, np.int64),
        prefix_start=(np.arange(2 * places + 1, dtype=np.int64) + 1) // 2 * width,
        users=np.full((1, ids + 1), -1, np.int32),
        older=np.full((1, ids + 1), ids, np.int32),
        newer=np.full((1, ids + 1), ids, np.int32),
    )


@njit
def _enter(state: ServingState, live: Ints, counts: Ints, r: int, t_s: float) -> None:
    """Put a request at the end of the server's queue, and let the next step look at it."""
    _commit_until(state, counts, t_s)
    state.arrival_s[r] = t_s
    state.generated[r] = 0
    state.computed[r] = 0
    state.target[r] = 0
    state.blocks[r] = 0
    state.pinned[r] = 0
    state.chunk[r] = 0
    state.evicted[r] = 0
    state.preemptions[r] = 0
    state.reused[r] = 0
    state.sent_s[r] = np.nan
    state.first_s[r] = np.nan
    state.finish_s[r] = np.nan
    state.status[r] = SENT
    state.instance[r] = 0
    state.waiting[0, state.waiting_n[0]] = r
    state.waiting_n[0] += 1
    live[counts[_LIVE_N]] = r
    counts[_LIVE_N] += 1
    if state.steps[0] > 0:
        interrupt(state, 0, t_s)
    else:
        state.stale[0] = 1


@njit
def _abort(state: ServingState, counts: Ints, r: int, t_s: float) -> None:
    """Let a request leave: at once if it waits, else when the step that runs is over."""
    _commit_until(state, counts, t_s)
    if state.status[r] == SENT:
        kept = 0
        for place in range(state.waiting_n[0]):
            if state.waiting[0, place] != r:
                state.waiting[0, kept] = state.waiting[0, place]
                kept += 1
        state.waiting_n[0] = kept
        requeue(state, r)
    elif state.status[r] == RUNNING:
        state.evicted[r] = 1
        if state.steps[0] > 0:
            interrupt(state, 0, t_s)
        else:
            sweep(state, 0, t_s)


@njit
def _commit_until(state: ServingState, counts: Ints, t_s: float) -> None:
    """Take in the stretches that are over, each followed by the next."""
    while state.end_s[0] <= t_s:
        end_s = state.end_s[0]
        commit(state, 0, state.steps[0])
        state.counts[ENDED_N] = 0  # a list for estimators, which would grow for ever here
        _plan(state, counts, end_s)


@njit
def _plan(state: ServingState, counts: Ints, t_s: float) -> None:
    if counts[_ASLEEP] == 0:
        state.stale[0] = 0
        admitted = plan(state, 0, t_s)
        for place in range(state.running_n[0] - admitted, state.running_n[0]):
            r = state.running[0, place]
            if np.isnan(state.sent_s[r]):
                state.sent_s[r] = t_s


@njit
def _sleep(state: ServingState, counts: Ints, t_s: float) -> None:
    _commit_until(state, counts, t_s)
    counts[_ASLEEP] = 1
    while state.running_n[0] > 0:
        preempt_last(state, 0)
    clear_cache(state, 0)
    state.steps[0] = 0
    state.end_s[0] = np.inf


@njit
def _go_on(
    state: ServingState, live: Ints, counts: Ints, reported: Ints, changed: Ints, t_s: float
) -> int:
    """Advance to `t_s`; write the rows that got tokens or ended, and return how many they are."""
    _commit_until(state, counts, t_s)
    if state.stale[0] and state.steps[0] == 0:
        _plan(state, counts, t_s)
    catch_up(state, 0, t_s)
    state.counts[QUEUE_N] = 0  # who was aborted has left
    kept = found = 0
    for place in range(counts[_LIVE_N]):
        r = live[place]
        over = state.status[r] == DONE or state.status[r] == QUEUED
        if over or state.generated[r] != reported[r]:
            reported[r] = state.generated[r]
            changed[found] = r
            found += 1
        if not over:
            live[kept] = r
            kept += 1
    counts[_LIVE_N] = kept
    return found
