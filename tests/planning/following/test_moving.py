"""Followed jobs in a world of two and three sites: moved, lost, found again, ended once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from followed_world import STEPS, T0, World, write_checkpoint
from steward.model.actions import EndCopy, MoveJob
from steward.model.decision import Autonomy, Choice
from steward.model.planning.followed import JobEnd, RunState

HOUR = 3600.0


@pytest.fixture
def late(tmp_path: Path) -> World:
    """Return a job that was planned for 2 hours, takes 10 where it is, and is due in 5."""
    world = World(tmp_path, {"slow": STEPS / (10 * HOUR), "fast": STEPS / (1 * HOUR)})
    world.submit(site="slow", planned_s={"slow": 2 * HOUR, "fast": 2 * HOUR}, deadline_s=5 * HOUR)
    return world


def test_a_job_at_risk_goes_on_elsewhere_from_its_checkpoint_and_is_in_time(late: World) -> None:
    late.turns(6 * HOUR, every_s=120.0)

    job = late.job()
    assert job.end is JobEnd.COMPLETED
    assert [each.site for each in job.runs] == ["slow", "fast"]
    assert job.runs[1].from_share > 0
    assert job.ended_s is not None
    assert job.ended_s < T0 + 5 * HOUR
    assert [each.starts for each in late.copies()] == [1, 1]


def test_two_copies_never_run_and_the_new_one_waits_until_the_old_has_ended(late: World) -> None:
    for _ in range(150):
        late.turn(120.0)
        assert len(late.running()) <= 1

    assert late.job().end is JobEnd.COMPLETED


def test_what_the_move_was_worth_is_measured_against_what_was_forecast(late: World) -> None:
    late.turns(6 * HOUR, every_s=120.0)

    [outcome] = late.outcomes
    assert outcome.yardstick == "plans"
    assert outcome.gained.mid > 10  # the deadline counts 20 USD, and was nearly sure to be missed
    assert outcome.gained.low <= outcome.gained.mid <= outcome.gained.high
    assert "in time" in outcome.text


def test_by_default_a_move_is_proposed_with_its_command_and_waits_for_a_person(
    tmp_path: Path,
) -> None:
    world = World(
        tmp_path, {"slow": STEPS / (10 * HOUR), "fast": STEPS / HOUR}, autonomy=Autonomy.ADVISE
    )
    world.submit(site="slow", planned_s=2 * HOUR, deadline_s=5 * HOUR)
    world.turns(2 * HOUR, every_s=120.0)
    assert [each.site for each in world.job().runs] == ["slow"]
    move = world.decisions[-1]
    assert isinstance(move.action, MoveJob)
    assert world.actuator.by_hand(move, world.t_s).commands == (
        f"steward decisions approve {move.id}",
    )

    said = Choice(decision=move.id, t_s=world.t_s, choice="approve", user="ann")
    world.turn(60.0, choices=[said])
    world.turns(3 * HOUR, every_s=120.0)

    assert world.job().end is JobEnd.COMPLETED
    assert [each.site for each in world.job().runs] == ["slow", "fast"]


def test_a_job_moves_to_where_the_rest_is_cheaper(tmp_path: Path) -> None:
    speed = STEPS / (4 * HOUR)
    world = World(tmp_path, {"dear": speed, "cheap": speed}, usd={"dear": 10.0, "cheap": 1.0})
    world.submit(site="dear", planned_s=4 * HOUR, deadline_s=12 * HOUR)

    world.turns(6 * HOUR, every_s=120.0)

    assert [each.site for each in world.job().runs] == ["dear", "cheap"]
    assert world.job().end is JobEnd.COMPLETED
    assert world.outcomes[0].gained.mid > 20  # USD


def test_a_damaged_checkpoint_leaves_a_job_where_it_is(late: World) -> None:
    engine = late.engines["slow"]
    real = engine.change

    def damage(job: str, what: str) -> None:
        real(job, what)
        if what == "save":
            found = next(iter(engine.jobs.values()))
            write_checkpoint(found.folder, int(found.step), engine.now_s, damaged=True)

    engine.change = damage  # type: ignore[method-assign]
    late.turns(3 * HOUR, every_s=120.0)

    assert [each.state for each in late.job().runs] == [RunState.RUNNING]
    assert any("another content" in str(getattr(each, "text", each)) for each in late.faults)


def test_a_job_that_does_not_answer_a_request_to_save_goes_on(late: World) -> None:
    late.engines["slow"].answers = False

    late.turns(3 * HOUR, every_s=120.0)

    assert late.running() == ["slow"]
    assert any("did not save within 300 s" in getattr(each, "text", "") for each in late.faults)


def test_a_run_that_ends_in_the_moment_in_which_it_is_cancelled_is_moved_all_the_same(
    late: World,
) -> None:
    late.engines["slow"].ends_by_itself = True

    late.turns(3 * HOUR, every_s=120.0)

    assert late.job().end is JobEnd.COMPLETED
    assert [each.site for each in late.job().runs] == ["slow", "fast"]


def test_a_site_that_refuses_changes_nothing(late: World) -> None:
    late.engines["fast"].refuses = True

    late.turns(3 * HOUR, every_s=120.0)

    assert late.running() == ["slow"]
    assert {each.site for each in late.job().runs if each.state is RunState.FAILED} == {"fast"}


def test_a_job_of_a_lost_site_goes_on_from_its_kept_checkpoint_and_the_old_is_ended(
    late: World,
) -> None:
    late.turns(0.6 * HOUR, every_s=120.0)  # it has moved to the fast site, and is half done
    assert late.running() == ["fast"]
    fast, slow = late.engines["fast"], late.engines["slow"]
    fast.away, fast.files, fast.steps_per_s = True, False, 0.0
    late.turns(1.5 * HOUR, every_s=120.0)
    assert [each.state for each in late.job().runs][1] is RunState.LOST
    assert late.job().runs[2].site == "slow"
    assert late.job().runs[2].from_share > 0

    fast.away = False
    late.turns(600, every_s=120.0)

    assert len(late.running()) == 1
    assert any(isinstance(each.decision.action, EndCopy) for each in late.done)
    assert fast.jobs["p-1-1"].state == "cancelled"
    assert slow.jobs["p-1-2"].kept_step >= 0 or slow.jobs["p-1-2"].state == "running"


def test_a_lost_copy_that_completed_meanwhile_is_the_job_and_the_other_is_ended(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, {"a": STEPS / HOUR, "b": STEPS / (3 * HOUR)})
    world.submit(site="a", planned_s={"a": HOUR, "b": 3 * HOUR})
    world.turns(1800, every_s=120.0)
    a = world.engines["a"]
    a.away, a.files = True, False
    world.turns(3000, every_s=120.0)
    assert world.job().runs[0].state is RunState.LOST

    a.away = False
    world.turns(600, every_s=120.0)

    assert world.job().end is JobEnd.COMPLETED
    assert world.running() == []
    assert [each.state for each in world.copies()].count("finished") == 1


def test_a_job_of_a_silent_site_whose_files_go_on_is_not_doubled(late: World) -> None:
    late.turns(0.5 * HOUR, every_s=120.0)
    late.engines["fast"].away = True

    late.turns(1200, every_s=120.0)

    assert late.running() == ["fast"]
    assert len(late.job().runs) == 2


def test_a_person_who_cancels_a_job_at_its_site_has_ended_it(late: World) -> None:
    late.turn()
    engine = late.engines["slow"]
    engine.change(next(iter(engine.jobs.values())).id, "cancel")

    late.turns(600, every_s=120.0)

    assert late.job().end is JobEnd.CANCELLED
    assert late.running() == []


@pytest.mark.parametrize("at", range(12))
def test_a_kill_between_any_two_steps_of_a_move_loses_and_doubles_nothing(
    tmp_path: Path, at: int
) -> None:
    world = World(tmp_path, {"slow": STEPS / (10 * HOUR), "fast": STEPS / HOUR})
    world.submit(site="slow", planned_s=2 * HOUR, deadline_s=5 * HOUR)
    world.turns(600, every_s=120.0)
    kills = _KilledAt(world, at)

    for _ in range(200):
        try:
            world.turn(120.0)
        except _Killed:
            world.restart()
            kills.arm_again()
        assert len(world.running()) <= 1

    assert world.job().end is JobEnd.COMPLETED
    assert [each.state for each in world.copies()].count("finished") == 1
    assert sum(each.starts for each in world.copies()) == len(world.copies())


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["away", "back", "kill", "refuse", "accept", "wait"]),
        st.sampled_from(["a", "b", "c"]),
        st.integers(1, 15),
    ),
    max_size=8,
)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(events=EVENTS, deadline_h=st.sampled_from([None, 3.0, 6.0]))
def test_whatever_sites_vanish_and_return_each_job_ends_once_and_no_copy_is_left(
    events: list[tuple[str, str, int]], deadline_h: float | None
) -> None:
    with TemporaryDirectory() as folder:
        speeds = {"a": STEPS / (4 * HOUR), "b": STEPS / (2 * HOUR), "c": STEPS / HOUR}
        world = World(Path(folder), speeds, usd={"a": 1.0, "b": 2.0, "c": 3.0})
        jobs = [f"p-{number}" for number in range(3)]
        for id_, site in zip(jobs, speeds, strict=True):
            deadline_s = None if deadline_h is None else deadline_h * HOUR
            world.submit(id_, site=site, planned_s=2 * HOUR, deadline_s=deadline_s)
        ended: dict[str, JobEnd] = {}
        for what, site, count in events:
            _happen(world, what, site)
            _watched(world, count, ended)
        for engine in world.engines.values():
            engine.away, engine.refuses, engine.files = False, False, True
        _watched(world, 150, ended)

        assert {*ended} == {*jobs}
        assert {*ended.values()} == {JobEnd.COMPLETED}
        assert [world.running(each) for each in jobs] == [[], [], []]
        for id_ in jobs:
            states = [each.state for each in world.copies(id_)]
            assert "finished" in states
            assert {*states} <= {"finished", "cancelled"}


def _happen(world: World, what: str, site: str) -> None:
    engine = world.engines[site]
    if what in ("away", "back"):
        engine.away = what == "away"
        engine.files = not engine.away
    elif what in ("refuse", "accept"):
        engine.refuses = what == "refuse"
    elif what == "kill":
        world.restart()


def _watched(world: World, count: int, ended: dict[str, JobEnd]) -> None:
    """Take turns; a job has one place to run in each, and its end stays."""
    for _ in range(count):
        world.turn(240.0)
        for job in world.store.jobs():
            if job.end is not None:
                assert ended.setdefault(job.id, job.end) is job.end
            assert sum(not (each.state.ended or each.held) for each in job.runs) <= 1


class _Killed(BaseException):
    """Steward is gone in the middle of what it did."""


class _KilledAt:
    """Ends steward before, or after, the N-th thing that it asks of an engine once it moves."""

    def __init__(self, world: World, at: int) -> None:
        self.world, self.left, self.after = world, at // 2, at % 2 == 1
        for engine in world.engines.values():
            for name in ("submit", "change"):
                setattr(engine, name, self._wrapped(getattr(engine, name)))

    def arm_again(self) -> None:
        """Kill only once."""
        self.left = -1

    def _wrapped(self, real: Callable[..., object]) -> Callable[..., object]:
        def call(*given: object) -> object:
            mine, self.left = self.left == 0, self.left - 1
            if mine and not self.after:
                raise _Killed
            answer = real(*given)
            if mine:
                raise _Killed
            return answer

        return call
