"""Idle guarantees of a real Slurm are lent through its pool, and `steward up` calls them back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from beds.slurm_pool import Line, Pool, pool
from patience import until
from steward.model.decision import DecisionState
from steward.model.outcome import Story

pytestmark = pytest.mark.real

DEAF = """#!/bin/bash
trap '' USR2
echo "begin $EPOCHREALTIME 0" >> "$1"
while [ -e "$1" ]; do sleep 1; done
"""


@pytest.fixture
def lent() -> Iterator[Pool]:
    """Return a pool in which one account is guaranteed one node of four."""
    with pool(guaranteed=8) as made:
        yield made


def ended(made: Pool, type_: str, job: str, state: DecisionState) -> Story:
    """Wait until a decision about a job has ended like this."""

    def found() -> Story | None:
        about = [each for each in made.stories() if each.decision.action.acts_on == job]
        ended = [each for each in about if each.decision.action.type == type_]
        return next((each for each in ended if each.state is state), None)

    story = until(found, why=f"{type_} of {job} {state.value}")
    assert story is not None
    return story


def all_lent(made: Pool, *, save_s: int = 2) -> dict[str, str]:
    """Let borrowers hold all nodes; return their names by their ids."""
    ids = {made.borrow(f"b{node}", save_s=save_s): f"b{node}" for node in range(4)}
    for name in ids.values():
        made.wrote(name, "begin")
    return ids


def stopped(made: Pool, ids: dict[str, str]) -> dict[str, str]:
    """Return the borrowers that were asked to save."""
    return {
        id_: name
        for id_, name in ids.items()
        if any(each.what == "saved" for each in made.lines(name))
    }


def last_save(lent: Pool, name: str, again: Line) -> int:
    """Return the count of the last save before a run: a job may be asked to save twice."""
    saves = [x.count for x in lent.lines(name) if x.what == "saved" and x.t_s < again.t_s]
    return saves[-1]


def test_an_owner_gets_its_guarantee_back_and_the_borrower_goes_on_where_it_was(
    lent: Pool,
) -> None:
    ids = all_lent(lent)
    lent.up()

    owner = lent.own("owner", run_s=2.0)
    lent.wrote("owner", "end")
    ((borrower, name),) = stopped(lent, ids).items()
    again = lent.wrote(name, "begin", times=2)

    saved = lent.wrote(name, "saved")
    assert again.count == saved.count > 0
    assert lent.wrote("owner", "begin").t_s - saved.t_s < 60.0  # Slurm alone: a day
    assert again.t_s - lent.wrote("owner", "end").t_s < 100.0  # Slurm alone: two minutes
    stop = ended(lent, "preempt", borrower, DecisionState.DONE)
    assert "asked to save; it is requeued in 2 s" in stop.receipts[0].text  # told before
    start = ended(lent, "start", owner, DecisionState.DONE)
    assert start.decision.after == (stop.decision.id,)
    assert "its tenant holds 0 of 8 guaranteed GPUs" in start.decision.because
    # Above its guarantee nobody is stopped for an account's next job.
    for each in ("first", "beyond"):
        lent.own(each, run_s=600.0)
    lent.wrote("first", "begin")
    assert not lent.lines("beyond")


def test_a_steward_that_is_killed_at_each_step_calls_back_once_all_the_same(lent: Pool) -> None:
    ids = all_lent(lent, save_s=15)
    lent.up()
    owner = lent.own("owner", run_s=2.0)
    (asked,) = until(lambda: stopped(lent, ids).values(), why="a save")

    lent.kill()  # it was asked, and is not requeued
    lent.up()
    until(lambda: "PENDING" in lent.bed.state_of(_id(ids, asked)), why="its requeue")
    lent.kill()  # it is requeued, and that may not be in the journal
    lent.up()
    lent.wrote("owner", "end")
    lent.kill()  # the owner has run, and nobody has resumed the borrower
    lent.up()
    again = lent.wrote(asked, "begin", times=2)

    assert again.count == last_save(lent, asked, again)
    assert len(stopped(lent, ids)) == 1
    lines = [each.what for name in ids.values() for each in lent.lines(name)]
    assert lines.count("begin") == 5
    assert "twice" not in lines
    assert [each.what for each in lent.lines("owner")] == ["begin", "end"]
    done = ended(lent, "preempt", _id(ids, asked), DecisionState.DONE)
    assert len([each for each in lent.stories() if each.decision.action.type == "preempt"]) == 1
    assert done.receipts[-1].result == "done"
    assert lent.bed.state_of(owner) == "COMPLETED"


def test_a_controller_that_dies_while_a_borrower_saves_only_delays_the_call_back(
    lent: Pool,
) -> None:
    ids = all_lent(lent, save_s=10)
    lent.up()
    lent.own("owner", run_s=2.0)
    (asked,) = until(lambda: stopped(lent, ids).values(), why="a save")

    lent.saved_state()
    lent.bed.kill_controller()
    lent.bed.start_controller()
    lent.wrote("owner", "end")
    again = lent.wrote(asked, "begin", times=2)

    assert again.count == last_save(lent, asked, again)
    assert [each.what for each in lent.lines("owner")] == ["begin", "end"]
    assert len(stopped(lent, ids)) == 1


def test_what_a_person_undoes_by_hand_stays_undone(lent: Pool) -> None:
    ids = all_lent(lent)
    lent.up()
    lent.own("owner", run_s=2.0)
    (asked,) = until(lambda: stopped(lent, ids).values(), why="a save")
    borrower = _id(ids, asked)
    until(lambda: lent.bed.state_of(borrower) == "PENDING", why="its requeue")

    lent.bed.run("scontrol", "hold", borrower)  # before steward resumes it
    lent.wrote("owner", "end")
    other = lent.borrow("later")  # room again, and somebody else may have it
    lent.wrote("later", "begin")

    assert lent.bed.state_of(borrower) == "PENDING"
    until(lambda: f"job:{borrower}" in lent.events("job.held"), why="its hold in the journal")
    assert len([each for each in lent.lines(asked) if each.what == "begin"]) == 1
    lent.bed.run("scancel", other)
    lent.bed.run("scontrol", "release", borrower)  # and the person lets it go
    again = lent.wrote(asked, "begin", times=2)
    assert again.count == last_save(lent, asked, again)


def test_a_save_that_never_comes_does_not_keep_the_owner_waiting(lent: Pool) -> None:
    (lent.folder / "borrow.sh").write_text(DEAF)
    for node in range(4):
        lent.borrow(f"b{node}")
        lent.wrote(f"b{node}", "begin")
    lent.up()

    lent.own("owner", run_s=2.0)

    lent.wrote("owner", "end")
    until(lambda: len([1 for node in range(4) for _ in lent.lines(f"b{node}")]) == 5, why="a run")
    (stop,) = [each for each in lent.stories() if each.decision.action.type == "preempt"]
    assert stop.state is DecisionState.DONE


def test_a_node_that_is_lost_while_its_job_saves_does_not_cost_the_owner_its_guarantee(
    lent: Pool,
) -> None:
    ids = all_lent(lent, save_s=20)
    lent.up()
    lent.own("owner", run_s=2.0)
    (asked,) = until(lambda: stopped(lent, ids).values(), why="a save")
    borrower = _id(ids, asked)
    node = lent.bed.run("squeue", "-h", "-j", borrower, "-o", "%N")

    lent.lose(node, asked)
    until(lambda: lent.bed.state_of(borrower) == "PENDING", why="its requeue by Slurm")
    lent.wrote("owner", "end")  # on another node, whose borrower had to make room
    others = {id_: name for id_, name in stopped(lent, ids).items() if id_ != borrower}
    lent.bring_back(node)

    assert len(others) == 1
    for name in (asked, *others.values()):
        again = lent.wrote(name, "begin", times=2)
        assert again.count == last_save(lent, name, again)
    assert ended(lent, "preempt", borrower, DecisionState.DONE)


def test_jobs_that_cannot_save_are_not_called_back(lent: Pool) -> None:
    silent = [lent.borrow(f"b{node}", save_s=0) for node in range(4)]
    for node in range(4):
        lent.wrote(f"b{node}", "begin")
    lent.up()
    lent.own("owner", run_s=2.0)
    lent.bed.run("scancel", silent[0])  # a person makes room

    lent.wrote("owner", "end")
    assert all(lent.story("preempt", each) is None for each in silent)


def _id(ids: dict[str, str], name: str) -> str:
    return next(id_ for id_, each in ids.items() if each == name)
