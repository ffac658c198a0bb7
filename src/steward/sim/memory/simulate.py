"""Runs a program's accesses under a page policy that could as well be live."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.model.memory.tiers import MemorySystem
from steward.model.memory.trace import AccessTrace, trace_of
from steward.model.memory.view import (
    LinkState,
    MemoryView,
    Moves,
    PageEstimator,
    PagePolicy,
)
from steward.sim.memory.background import Background
from steward.sim.memory.kernel import end_epoch, move, run, trap
from steward.sim.memory.state import (
    AT,
    DEMOTED,
    EPOCH,
    EPOCH_FAR,
    EPOCH_PROMOTED,
    FAR,
    FAULTS,
    NEAR,
    NOW,
    PING_PONG,
    PROMOTED,
    RATE_USED,
    SLOT_S,
    STALL,
    THINK,
    TOUCHED,
    TRAPS,
    PageState,
    empty_state,
)

__all__ = ["EPOCH_ACCESSES", "EpochRow", "MemoryRun", "simulate", "warm_up"]

EPOCH_ACCESSES = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRow:
    """What one epoch was like, for pages and explanations."""

    t_s: float
    stall_s: float  # so far
    near_share: float  # of accesses in this epoch
    load_share: float
    promoted: int
    demoted: int
    hot_pages: int  # touched in this epoch
    arm: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemoryRun:
    """What a run was like as a whole."""

    trace: AccessTrace
    policy: str
    stall_s: float
    compute_s: float
    moved_bytes: int
    promoted: int
    demoted: int
    faults: int
    near_share: float
    epochs: int
    cpu_s: float
    used: tuple[int, ...] = ()
    rows: tuple[EpochRow, ...] = field(default=(), repr=False)

    def as_record(self) -> dict[str, Any]:
        """Return it as JSON values."""
        count = len(self.trace)
        return {
            "trace": self.trace.name,
            "synthetic": self.trace.synthetic,
            "left_out": self.trace.left_out,
            "policy": self.policy,
            "accesses": count,
            "pages": self.trace.pages,
            "page_bytes": self.trace.page_bytes,
            "stall_s": self.stall_s,
            "compute_s": self.compute_s,
            "moved_bytes": self.moved_bytes,
            "promoted": self.promoted,
            "demoted": self.demoted,
            "hint_faults": self.faults,
            "near_share": self.near_share,
            "epochs": self.epochs,
            "cpu_s": self.cpu_s,
            "accesses_per_s": count / self.cpu_s if self.cpu_s > 0 else 0.0,
        }


def simulate(
    trace: AccessTrace,
    system: MemorySystem,
    policy: PagePolicy,
    *,
    estimator: PageEstimator | None = None,
    background: Background | None = None,
    epoch_accesses: int = EPOCH_ACCESSES,
) -> MemoryRun:
    """Run all accesses. The policy is called after each epoch of `epoch_accesses`.

    Epochs are counted in accesses, so that each policy decides at the same places of a trace.
    """
    _check(trace, system, epoch_accesses)
    load = background or Background.quiet()
    began_s = time.process_time()
    world = _World.of(trace, system, policy, load)
    ends = range(epoch_accesses, len(trace), epoch_accesses)
    rows = [world.epoch(until, policy, estimator) for until in ends]
    run(world.state, len(trace))
    cpu_s = time.process_time() - began_s
    return world.result(trace, policy.name, rows, cpu_s)


def warm_up() -> None:
    """Compile the simulator and what estimates, or load what an earlier process compiled."""
    from steward.decide.memory import PAGE_POLICIES  # noqa: PLC0415 - policies to run with
    from steward.learn.estimators.pages.migration import PageMigration  # noqa: PLC0415
    from steward.model.memory.tiers import Tier  # noqa: PLC0415

    keys = np.arange(16, dtype=np.int64) % 4
    tiny = trace_of("tiny", keys, np.zeros(16))
    near = Tier(name="near", latency_s=1e-7, pages=2)
    far = Tier(name="far", latency_s=1e-6, pages=16, linked=True)
    system = MemorySystem(tiers=(near, far))
    for name in ("tpp", "indigo"):
        estimator = PageMigration()
        simulate(tiny, system, PAGE_POLICIES[name](), estimator=estimator, epoch_accesses=2)


def _check(trace: AccessTrace, system: MemorySystem, epoch_accesses: int) -> None:
    if epoch_accesses < 1:
        hint = "give at least 1"
        raise StewardError(f"an epoch has {epoch_accesses} accesses", where=trace.name, hint=hint)
    if trace.pages > system.pages:
        problem = f"it has {trace.pages} pages, and all tiers together hold {system.pages}"
        raise StewardError(problem, where=trace.name, hint="make a tier larger")


@dataclass(slots=True, kw_only=True)
class _World:
    """The state, and what changed since the last epoch."""

    state: PageState
    system: MemorySystem
    far_before: int = 0
    at_before: int = 0
    began_s: float = 0.0  # this epoch

    @staticmethod
    def of(
        trace: AccessTrace, system: MemorySystem, policy: PagePolicy, load: Background
    ) -> _World:
        state = empty_state(trace, system, policy.on_touch, load.share, load.slot_s)
        return _World(state=state, system=system)

    def epoch(self, until: int, policy: PagePolicy, estimator: PageEstimator | None) -> EpochRow:
        """Run to the end of an epoch and let the policy move pages."""
        state, counts = self.state, self.state.counts
        promoted, demoted, near = counts[PROMOTED], counts[DEMOTED], counts[NEAR]
        run(state, until)
        view = self._view()
        if estimator is not None:
            estimator.learn(view)
            view = view.with_forecasts(estimator.predict(view))
        moves = policy.migrate(view)
        if estimator is not None:
            estimator.took(view, moves)
        row = EpochRow(
            t_s=view.t_s,
            stall_s=float(state.clock[STALL]),
            near_share=float(counts[NEAR] - near) / (until - self.at_before),
            load_share=view.link.load_share,
            promoted=int(counts[PROMOTED] - promoted) + len(moves.promote),
            demoted=int(counts[DEMOTED] - demoted) + len(moves.demote),
            hot_pages=len(view.touched),
            arm=moves.arm,
            why=moves.why,
        )
        self.at_before = until
        end_epoch(state)
        if not move(state, moves.promote, moves.demote):
            raise _misled(policy, moves)
        if len(moves.trap) or state.counts[TRAPS]:
            trap(state, moves.trap)
        self.began_s = float(state.clock[NOW])
        return row

    def _view(self) -> MemoryView:
        state, counts, clock = self.state, self.state.counts, self.state.clock
        accesses = int(counts[AT]) - self.at_before
        promoted = int(counts[EPOCH_PROMOTED])
        now_s = float(clock[NOW])
        load_share, far_access_s = self._probed(now_s)
        link = LinkState(
            load_share=load_share,
            far_access_s=far_access_s,
            far_share=int(counts[EPOCH_FAR]) / accesses,
            measured_s=now_s - self.began_s,
            ping_pong_share=int(counts[PING_PONG]) / promoted if promoted else 0.0,
        )
        return MemoryView(
            t_s=float(clock[NOW]),
            epoch=int(counts[EPOCH]),
            system=self.system,
            tier=_read_only(state.tier),
            count=_read_only(state.hits),
            idle=(counts[EPOCH] - state.last_epoch).astype(np.int32),
            touched=_read_only(state.touched)[: counts[TOUCHED]],
            used=_read_only(state.used),
            trapped=int(counts[RATE_USED]),
            link=link,
        )

    def _probed(self, now_s: float) -> tuple[float, float]:
        """Return the load of others in this epoch, and the mean stall of far accesses in it.

        As a prober measures it that has one far access after the other: those under a high load
        take longer and are fewer.
        """
        state = self.state
        slot_s = float(state.floats[SLOT_S])
        slots = np.arange(int(self.began_s / slot_s), int(now_s / slot_s) + 1) % len(state.load)
        stalls = state.hit_s[-1] + state.wire_s[slots] * bool(state.linked[-1])
        return float(state.load[slots].mean()), float(1.0 / np.mean(1.0 / stalls))

    def result(
        self, trace: AccessTrace, policy: str, rows: list[EpochRow], cpu_s: float
    ) -> MemoryRun:
        counts, clock = self.state.counts, self.state.clock
        moved = int(counts[PROMOTED] + counts[DEMOTED])
        return MemoryRun(
            trace=trace,
            policy=policy,
            stall_s=float(clock[STALL]),
            compute_s=float(clock[THINK]),
            moved_bytes=moved * self.system.page_bytes,
            promoted=int(counts[PROMOTED]),
            demoted=int(counts[DEMOTED]),
            faults=int(counts[FAULTS]),
            near_share=1.0 - int(counts[FAR]) / len(trace) if len(trace) else 0.0,
            epochs=len(rows),
            cpu_s=cpu_s,
            used=tuple(int(each) for each in self.state.used),
            rows=tuple(rows),
        )


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    shown = array.view()
    shown.flags.writeable = False
    return shown


def _misled(policy: PagePolicy, moves: Moves) -> StewardError:
    return StewardError(
        f"it wanted {len(moves.promote)} promotions and {len(moves.demote)} demotions, which is "
        "not possible in that moment",
        where=f"policy {policy.name}",
        hint="promote far pages into free room, demote near ones",
    )
