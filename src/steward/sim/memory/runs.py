"""From names and figures to a run: what the command line and benchmarks share."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.memory import PAGE_POLICIES
from steward.errors import StewardError, unknown_name
from steward.learn.estimators.pages.migration import PageMigration
from steward.model.memory.tiers import MemorySystem, Tier
from steward.model.memory.trace import AccessTrace
from steward.model.memory.view import PageEstimator, PagePolicy
from steward.registry import known, resolve
from steward.sim.memory.background import Background
from steward.sim.memory.oracle import TrueFuture
from steward.sim.memory.simulate import EPOCH_ACCESSES, MemoryRun, simulate
from steward.sim.memory.traces import read_accesses

__all__ = ["ORACLE", "RunOptions", "background_of", "plugs_of", "run_of", "system_of", "trace_for"]

ORACLE = "oracle"
_LEARNING = ("indigo", "move-by-cost")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """A trace, a policy, and the memory behind a link that others use."""

    source: str
    policy: str = "indigo"
    near_share: float = 0.25
    load: float = 0.0
    link_bytes_per_s: float = 12.5e9
    far_s: float = 6e-7
    near_s: float = 1e-7
    accesses: int = 1_000_000
    pages: int = 20_000
    page_bytes: int = 4096
    epoch_accesses: int = EPOCH_ACCESSES
    seed: int = 0


def trace_for(asked: RunOptions) -> AccessTrace:
    """Read or make the accesses."""
    return read_accesses(
        asked.source,
        accesses=asked.accesses,
        pages=asked.pages,
        page_bytes=asked.page_bytes,
        seed=asked.seed,
    )


def system_of(trace: AccessTrace, asked: RunOptions) -> MemorySystem:
    """Return a near tier for a share of the trace's pages, and a far one for all of them."""
    if not 0.0 <= asked.near_share <= 1.0:
        problem = f"a near tier for {asked.near_share:.0%} of all pages"
        raise StewardError(problem, where="near share", hint="give 0 to 1")
    near = Tier(name="near", latency_s=asked.near_s, pages=int(asked.near_share * trace.pages))
    far = Tier(name="far", latency_s=asked.far_s, pages=trace.pages, linked=True)
    return MemorySystem(
        tiers=(near, far),
        page_bytes=trace.page_bytes,
        link_bytes_per_s=asked.link_bytes_per_s,
        lines=trace.lines,
        parallel=trace.parallel,
    )


def background_of(asked: RunOptions) -> Background:
    """Return the flows of others, drawn by seed."""
    return Background.drawn(asked.load, seed=asked.seed, bytes_per_s=asked.link_bytes_per_s)


def plugs_of(
    asked: RunOptions, trace: AccessTrace, background: Background
) -> tuple[PagePolicy, PageEstimator | None]:
    """Return the policy, and what estimates for it."""
    if asked.policy == ORACLE:
        future = TrueFuture(trace=trace, epoch_accesses=asked.epoch_accesses, background=background)
        return PAGE_POLICIES["move-by-cost"](name=ORACLE), future
    if asked.policy not in known("page-policy", PAGE_POLICIES):
        raise unknown_name("page-policy", asked.policy, (*PAGE_POLICIES, ORACLE))
    policy = resolve("page-policy", asked.policy, PAGE_POLICIES)()
    learns = asked.policy in _LEARNING
    return policy, PageMigration(seed=asked.seed) if learns else None


def run_of(asked: RunOptions, trace: AccessTrace) -> tuple[MemoryRun, MemoryRun]:
    """Run a policy, and the same accesses with no page moved."""
    system, background = system_of(trace, asked), background_of(asked)
    policy, estimator = plugs_of(asked, trace, background)
    run = simulate(
        trace,
        system,
        policy,
        estimator=estimator,
        background=background,
        epoch_accesses=asked.epoch_accesses,
    )
    if asked.policy == "none":
        return run, run
    nothing = PAGE_POLICIES["none"]()
    return run, simulate(trace, system, nothing, background=background)
