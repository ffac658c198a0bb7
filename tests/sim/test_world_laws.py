"""What holds in every simulated world, whoever lends what to whom and calls it back when."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from factories import decision
from steward.errors import PermanentError
from steward.model.actions import CallBack, Lend
from steward.model.decision import Decision
from steward.model.identity import DecisionId
from steward.model.moment import Moment
from steward.model.view import ClusterView
from steward.model.view import Loan as SeenLoan
from steward.sim.cluster import BORROWER, NOBODY, OWNER
from steward.sim.scenario import Scenario, demo
from steward.sim.world import World

START_S = 1_800_000_000.0
SMALL = replace(
    demo(),
    nodes=2,
    gpus_per_node=4,
    groups=demo().groups[3:4],
    initial_jobs=25,
    usual_queue=15,
    warm_up_s=3600.0,
    longest_job_s=3 * 3600.0,
    failures_per_gpu_hour=0.05,
    repair_s=900.0,
)
# A move: how long to wait, whether to lend or to call back, and which of the possible ones.
MOVES = st.lists(
    st.tuples(st.floats(0.0, 400.0), st.sampled_from(["lend", "back"]), st.integers(0, 10**6)),
    max_size=25,
)
FEW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Player:
    """Lends and calls back at will, without any sense; refusals are part of the game."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.made = 0

    def move(self, t_s: float, what: str, pick: int) -> Decision | None:
        choice = self._lend(pick) if what == "lend" else self._back(pick)
        if choice is None:
            return None
        try:
            self.world.carry_out(choice, t_s)
        except PermanentError:
            return None
        return choice

    def _lend(self, pick: int) -> Decision | None:
        lives = list(self.world._engine.lives.values())
        owners = [life for life in lives if life.running]
        waiting = [life for life in lives if not life.running]
        if not owners or not waiting:
            return None
        owner = owners[pick % len(owners)]
        borrower = waiting[pick // 7 % len(waiting)]
        gpus = owner.job.gpus[: borrower.job.shape.gpus]
        self.made += 1
        action = Lend(gpus=gpus, owner=owner.id, borrower=borrower.id)
        return decision(f"d-{self.made}", action=action)

    def _back(self, pick: int) -> Decision | None:
        loans = list(self.world._engine.ledger.open.values())
        if not loans:
            return None
        loan = loans[pick % len(loans)]
        gpus = tuple(self.world._engine.cluster.ids[row] for row in loan.gpus)
        self.made += 1
        action = CallBack(loan=loan.id, gpus=gpus, owner=loan.owner.id, borrower=loan.borrower.id)
        return decision(f"d-{self.made}", action=action)


def check_seats(world: World) -> None:
    """No GPU has two holders or two borrowers, and every job sits where it says."""
    engine = world._engine
    seats = np.full_like(engine.cluster.seats, NOBODY)
    for life in engine.lives.values():
        assert len(life.gpus) == (life.job.shape.gpus if life.running else 0)
        assert tuple(engine.cluster.ids[row] for row in life.gpus) == life.job.gpus
        if life.running:
            assert (seats[life.seat, life.gpus] == NOBODY).all()
            seats[life.seat, life.gpus] = life.slot
    assert np.array_equal(seats, engine.cluster.seats)
    assert not ((seats[OWNER] == NOBODY) & (seats[BORROWER] != NOBODY)).any()
    assert not ((seats[OWNER] != NOBODY) & ~engine.cluster.healthy).any()


def check_work(world: World) -> None:
    """Progress never exceeds the program, and what is saved never exceeds progress."""
    now_s = world._engine.now_s
    for life in world._engine.lives.values():
        done_s, total_s = life.done_s(now_s), life.program.total_s
        assert -1e-6 <= life.saved_s <= done_s + 1e-6
        assert done_s <= total_s + 1e-6
        assert 0.0 < life.speed <= 1.0


def check_counts(world: World) -> None:
    truth = world.truth()
    assert truth.submitted == truth.queued + truth.running + truth.ended
    assert truth.queued >= 0
    assert truth.running >= 0


def check_account(world: World) -> None:
    truth = world.truth()
    ledger = world._engine.ledger
    each = [world.gained_by(DecisionId(id_)) for id_ in (*ledger.open, *ledger.gained)]
    assert math.fsum(each) == pytest.approx(truth.gained_gpu_s, abs=1e-6)
    assert truth.gained_gpu_s == pytest.approx(
        truth.gross_gpu_s - truth.owner_loss_gpu_s - truth.redo_gpu_s - truth.restore_gpu_s
    )
    for part in (truth.gross_gpu_s, truth.owner_loss_gpu_s, truth.redo_gpu_s, truth.restore_gpu_s):
        assert part >= -1e-9
    assert truth.redo_gpu_s <= truth.busy_gpu_s + 1e-6
    assert truth.busy_gpu_s <= truth.capacity_gpu_s + 1e-6
    assert truth.held_idle_gpu_s <= truth.held_gpu_s + 1e-6 <= truth.capacity_gpu_s + 2e-6


@FEW
@given(seed=st.integers(0, 5), moves=MOVES)
def test_seats_work_jobs_and_accounts_are_right_whatever_is_lent(
    seed: int, moves: list[tuple[float, str, int]]
) -> None:
    world, t_s = World(SMALL, seed=seed, start_s=START_S), START_S
    player = Player(world)

    for wait_s, what, pick in moves:
        t_s += wait_s
        world.collect(t_s)
        player.move(t_s, what, pick)
        check_seats(world)
        check_work(world)
        check_counts(world)
        check_account(world)


@FEW
@given(seed=st.integers(0, 5), moves=MOVES, cuts=st.lists(st.floats(0.0, 1.0), max_size=8))
def test_loans_come_out_the_same_however_time_is_cut(
    seed: int, moves: list[tuple[float, str, int]], cuts: list[float]
) -> None:
    whole, pieces = (World(SMALL, seed=seed, start_s=START_S) for _ in range(2))
    rows = {id(whole): [], id(pieces): []}
    players = (Player(whole), Player(pieces))

    t_s = START_S
    for wait_s, what, pick in moves:
        for cut in sorted(cuts):
            rows[id(pieces)] += pieces.collect(t_s + cut * wait_s).frame.rows()
        t_s += wait_s
        for player in players:
            rows[id(player.world)] += player.world.collect(t_s).frame.rows()
            player.move(t_s, what, pick)

    one, other = whole.truth(), pieces.truth()
    assert rows[id(whole)] == rows[id(pieces)]
    assert one.gained_gpu_s == pytest.approx(other.gained_gpu_s, abs=1e-6)
    assert one.busy_gpu_s == pytest.approx(other.busy_gpu_s, abs=1e-6)
    assert [life.job for life in whole._engine.lives.values()] == [
        life.job for life in pieces._engine.lives.values()
    ]


def fold_and_compare(scenario: Scenario, *, seed: int, turns: int, step_s: float) -> int:
    """Run a world under a lender without sense; the moment must know who sits where, always."""
    world, moment = World(scenario, seed=seed, start_s=START_S), Moment()
    player, loans = Player(world), 0
    random = np.random.default_rng(seed)
    for turn in range(turns):
        t_s = START_S + step_s * turn
        moment.fold(world.collect(t_s))
        view = moment.view(t_s)
        compare(world, view)
        for what in ("back", "lend", "lend"):
            choice = player.move(t_s, what, int(random.integers(10**6)))
            if choice is not None and isinstance(choice.action, Lend):
                loans += 1
                action = choice.action
                moment.lend(
                    SeenLoan(
                        id=choice.id,
                        owner=action.owner,
                        borrower=action.borrower,
                        gpus=action.gpus,
                        since_s=t_s,
                    )
                )
    return loans


def compare(world: World, view: ClusterView) -> None:
    engine = world._engine
    names = np.array([*view.jobs.ids, None], dtype=object)
    for seat, column in ((OWNER, view.gpus.owner), (BORROWER, view.gpus.borrower)):
        sits = [engine.meter.lives[slot] for slot in engine.cluster.seats[seat]]
        assert names[column].tolist() == [None if life is None else life.id for life in sits]
    assert {str(name) for name in view.jobs.ids} == {life.id for life in engine.lives.values()}
    assert set(engine.ledger.open) <= {loan.id for loan in view.loans}


@pytest.mark.parametrize("step_s", [10.0, 137.0])
def test_a_moment_that_folds_what_the_world_says_knows_who_sits_where(step_s: float) -> None:
    loans = fold_and_compare(SMALL, seed=1, turns=300, step_s=step_s)

    assert loans > 20
