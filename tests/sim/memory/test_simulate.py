from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from page_tiers import SlowTiers, accesses, system_of
from steward.decide.memory import PAGE_POLICIES
from steward.errors import StewardError
from steward.learn.estimators.pages.migration import PageMigration
from steward.model.memory.trace import trace_of
from steward.model.memory.view import MemoryView, Moves, OnTouch, no_moves
from steward.sim.memory.background import Background
from steward.sim.memory.generated import GENERATED, generate
from steward.sim.memory.oracle import TrueFuture
from steward.sim.memory.simulate import simulate


@dataclass
class AtRandom:
    """Moves pages that may be moved, drawn by seed and epoch, and keeps what it did."""

    seed: int
    on_touch: OnTouch
    name: str = "at-random"

    def __post_init__(self) -> None:
        self.did: list[Moves] = []

    def migrate(self, view: MemoryView) -> Moves:
        moves = no_moves()
        if self.on_touch.mode in ("none", "trap"):
            draw = np.random.default_rng((self.seed, view.epoch))
            near, far = np.flatnonzero(view.tier == 0), np.flatnonzero(view.tier > 0)
            room = sum(each.pages for each in view.system.tiers[1:]) - int(view.used[1:].sum())
            demote = draw.permutation(near)[: min(len(near), int(draw.integers(0, 3)), room)]
            free = view.free_near + len(demote)
            promote = draw.permutation(far)[: min(len(far), int(draw.integers(0, 3)), free)]
            rest = np.setdiff1d(far, promote)
            trap = draw.permutation(rest)[:2] if self.on_touch.mode == "trap" else rest[:0]
            moves = Moves(promote=promote, demote=demote, trap=trap)
        self.did.append(moves)
        return moves


MODES = (
    OnTouch(),
    OnTouch(mode="trap", watches=True),
    OnTouch(mode="lru"),
    OnTouch(mode="fault", scan_share=0.5, near_faults=True, watermark_share=0.3),
    OnTouch(mode="fault", scan_share=0.7, needed=2, window_epochs=3, rate_pages=1),
)


@settings(max_examples=60, deadline=None)
@given(
    pages=st.lists(st.integers(0, 11), min_size=1, max_size=120),
    near=st.integers(0, 8),
    middle=st.integers(0, 4),
    epoch=st.integers(1, 30),
    on_touch=st.sampled_from(MODES),
    load=st.sampled_from((0.0, 0.5)),
    seed=st.integers(0, 99),
)
def test_the_compiled_simulator_equals_a_slow_one(  # noqa: PLR0917 - drawn
    pages: list[int], near: int, middle: int, epoch: int, on_touch: OnTouch, load: float, seed: int
) -> None:
    trace = accesses(*pages)
    system = system_of(near, 12, middle=middle)
    background = Background.drawn(load, seed=seed, bytes_per_s=1e9, slot_s=1e-6, slots=200)
    policy = AtRandom(seed=seed, on_touch=on_touch)

    run = simulate(trace, system, policy, background=background, epoch_accesses=epoch)

    slow = SlowTiers(trace=trace, system=system, on_touch=on_touch, background=background)
    did = iter(policy.did)
    for at in range(len(trace)):
        if at and at % epoch == 0:
            slow.end_epoch(next(did))
        slow.access(int(trace.page[at]), float(trace.think_s[at]))
    assert run.stall_s == pytest.approx(slow.stall, rel=1e-9)
    assert run.moved_bytes == slow.moved * system.page_bytes
    assert run.faults == slow.faults
    assert run.used == tuple(slow.used(tier) for tier in range(len(system.tiers)))


@pytest.mark.parametrize("name", sorted(PAGE_POLICIES))
@pytest.mark.parametrize("kind", ["zipf", "scan"])
def test_no_policy_loses_a_page_or_overfills_a_tier(name: str, kind: str) -> None:
    trace = generate(kind, accesses=6000, pages=200, seed=3)
    system = system_of(50, 200, middle=20)

    run = simulate(
        trace, system, PAGE_POLICIES[name](), estimator=PageMigration(), epoch_accesses=256
    )

    assert sum(run.used) == trace.pages
    assert all(used <= tier.pages for used, tier in zip(run.used, system.tiers, strict=True))
    assert run.stall_s > 0.0


def test_the_same_seed_gives_the_same_run() -> None:
    trace = generate("phases", accesses=5000, pages=300, seed=1)
    system = system_of(60, 300)

    stalls = {
        simulate(
            trace,
            system,
            PAGE_POLICIES["indigo"](),
            estimator=PageMigration(seed=4),
            background=Background.drawn(0.5, seed=2, bytes_per_s=1e9),
            epoch_accesses=128,
        ).stall_s
        for _ in range(2)
    }

    assert len(stalls) == 1


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("name", sorted(PAGE_POLICIES))
def test_traces_of_no_or_one_access_are_run(name: str, count: int) -> None:
    run = simulate(accesses(*range(count)), system_of(1, 1), PAGE_POLICIES[name]())

    assert run.as_record()["accesses"] == count
    assert run.stall_s == pytest.approx(count * 2.5e-8)
    assert run.moved_bytes == 0


def test_far_accesses_wait_longer_when_others_use_the_link() -> None:
    trace = accesses(*range(10))
    busy = Background(share=np.array([0.9]), slot_s=1.0)

    quiet = simulate(trace, system_of(0, 10), PAGE_POLICIES["none"]())
    loaded = simulate(trace, system_of(0, 10), PAGE_POLICIES["none"](), background=busy)

    assert loaded.stall_s > 5 * quiet.stall_s


def test_a_trace_that_does_not_fit_is_refused() -> None:
    with pytest.raises(StewardError, match="3 pages, and all tiers together hold 2"):
        simulate(accesses(1, 2, 3), system_of(1, 1), PAGE_POLICIES["none"]())
    with pytest.raises(StewardError, match="an epoch has 0 accesses"):
        simulate(accesses(1), system_of(1, 1), PAGE_POLICIES["none"](), epoch_accesses=0)


@dataclass
class Misled:
    name: str = "misled"
    on_touch: OnTouch = MODES[0]

    def migrate(self, view: MemoryView) -> Moves:
        return Moves(promote=np.array([0, 0]), demote=np.zeros(0, np.int64))


def test_moves_that_are_not_possible_name_the_policy() -> None:
    with pytest.raises(StewardError, match="wanted 2 promotions") as fault:
        simulate(accesses(1, 2, 3), system_of(1, 3), Misled(), epoch_accesses=1)

    assert fault.value.where == "policy misled"


def test_knowing_the_future_saves_more_than_learning_does() -> None:
    trace = generate("phases", accesses=60_000, pages=1000, seed=5)
    system = system_of(200, 1000)
    by_cost = PAGE_POLICIES["move-by-cost"]

    none = simulate(trace, system, PAGE_POLICIES["none"](), epoch_accesses=512)
    learnt = simulate(
        trace, system, PAGE_POLICIES["indigo"](), estimator=PageMigration(), epoch_accesses=512
    )
    future = TrueFuture(trace=trace, epoch_accesses=512)
    known = simulate(trace, system, by_cost(), estimator=future, epoch_accesses=512)

    assert known.stall_s < learnt.stall_s < none.stall_s


def test_nothing_is_moved_where_moving_cannot_pay() -> None:
    scattered = generate("scan", accesses=20_000, pages=2500, seed=0)  # each page once
    system = system_of(100, 2500)

    none = simulate(scattered, system, PAGE_POLICIES["none"](), epoch_accesses=512)
    ours = simulate(
        scattered, system, PAGE_POLICIES["indigo"](), estimator=PageMigration(), epoch_accesses=512
    )

    assert ours.stall_s <= 1.05 * none.stall_s


@pytest.mark.parametrize("kind", sorted(GENERATED))
def test_made_up_traces_repeat_with_their_seed(kind: str) -> None:
    first, again = (generate(kind, accesses=500, pages=50, seed=9) for _ in range(2))

    assert first.synthetic
    assert np.array_equal(first.page, again.page)
    assert 0 < first.pages <= 50
    assert int(first.page.max()) == first.pages - 1


def test_what_is_made_up_has_a_known_name_and_size() -> None:
    with pytest.raises(StewardError, match="zipf"):
        generate("zip", accesses=1, pages=1, seed=0)
    with pytest.raises(StewardError, match="0 pages"):
        generate("zipf", accesses=1, pages=0, seed=0)


@settings(max_examples=20, deadline=None)
@given(mean=st.floats(0.05, 0.85), seed=st.integers(0, 5))
def test_others_take_their_share_of_the_link(mean: float, seed: int) -> None:
    drawn = Background.drawn(mean, seed=seed, bytes_per_s=12.5e9)

    assert 0.0 <= drawn.share.min() <= drawn.share.max() <= 0.95
    assert drawn.share.mean() == pytest.approx(mean, abs=0.12)


def test_a_load_above_the_link_is_refused() -> None:
    with pytest.raises(StewardError, match="mean load"):
        Background.drawn(1.0, seed=0, bytes_per_s=1e9)


def test_tiers_that_cannot_be_are_refused_all_at_once() -> None:
    with pytest.raises(StewardError, match=r"page_bytes is 0; .*lines is -1"):
        type(system_of(1, 1))(tiers=system_of(1, 1).tiers, page_bytes=0, lines=-1)
    with pytest.raises(StewardError, match="no tiers"):
        type(system_of(1, 1))(tiers=())


def test_pages_are_numbered_by_their_first_access() -> None:
    trace = trace_of("given", np.array([70, 5, 70, 9]), np.zeros(4))

    assert trace.page.tolist() == [0, 1, 0, 2]
    assert trace.pages == 3
