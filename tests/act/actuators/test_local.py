from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from factories import decision
from job_bed import SAVES
from managed_jobs import python, spec
from patience import until
from steward.act.actuators.local import Local
from steward.act.jobs.controller import JobController
from steward.clients.local_jobs.engine import LocalEngine
from steward.errors import PermanentError
from steward.model.actions import (
    Action,
    CallBack,
    CapPower,
    Drain,
    Lend,
    Migrate,
    Preempt,
    Resize,
    Resume,
    Save,
    Start,
    Tell,
)
from steward.model.identity import DecisionId, GpuId, JobId, NodeId
from steward.store.jobs import JobStore

SLOT = (GpuId("n1/cpu0"),)
OTHER = (GpuId("n1/cpu1"),)
BOTH = (*SLOT, *OTHER)


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[JobController]:
    store = JobStore(tmp_path / "jobs.sqlite3")
    made = JobController(store, LocalEngine(tmp_path / "jobs", grace_s=0.2))
    yield made
    for job in store.open():
        made.cancel(job.id, t_s=9.0, why="the test is over")
    times = iter(range(10, 1_000_000))
    until(lambda: (made.advance(float(next(times))), not store.open())[1])
    store.close()


def submitted(controller: JobController, *argv: str) -> JobId:
    id_ = controller.store.submit((spec(*argv),), 1.0)[0].id
    controller.advance(1.0)
    return id_


def test_a_start_is_begun_until_the_process_runs_and_repeating_it_changes_nothing(
    controller: JobController,
) -> None:
    local, id_ = Local(controller), submitted(controller, "sleep", "1000")
    start = decision(id=DecisionId("d-1"), action=Start(job=id_, gpus=SLOT))

    assert local.carry_out(start, 2.0).result == "begun"
    assert local.carry_out(start, 2.0).result == "begun"
    until(lambda: (controller.advance(3.0), local.progress(start, 3.0).result == "done")[1])

    assert len(controller.store.job(id_).attempts) == 1
    assert local.progress(start, 4.0).gpus == SLOT


def test_a_job_that_cannot_save_is_not_preempted(controller: JobController) -> None:
    local, id_ = Local(controller), submitted(controller, "sleep", "1000")
    start = decision(id=DecisionId("d-1"), action=Start(job=id_, gpus=SLOT))
    local.carry_out(start, 2.0)
    until(lambda: (controller.advance(3.0), local.progress(start, 3.0).result == "done")[1])

    with pytest.raises(PermanentError, match="cannot save"):
        local.carry_out(decision(id=DecisionId("d-2"), action=Preempt(job=id_, gpus=SLOT)), 4.0)


def test_a_job_that_is_asked_to_save_saves_and_goes_on(controller: JobController) -> None:
    saver = python(SAVES.replace("STEPS", "100000"))
    local, id_ = Local(controller), controller.store.submit((saver,), 1.0)[0].id
    controller.advance(1.0)
    local.carry_out(decision(id=DecisionId("d-1"), action=Start(job=id_, gpus=SLOT)), 2.0)
    until(lambda: (controller.advance(3.0), controller.store.job(id_).checkpointing.able)[1])

    said = local.carry_out(decision(id=DecisionId("d-2"), action=Save(job=id_)), 4.0)

    assert (said.result, said.text) == ("done", f"job {id_} was asked to save")
    until(lambda: (controller.advance(5.0), controller.store.job(id_).checkpoints)[1])
    assert controller.store.job(id_).state.runs


def test_what_cannot_be_executed_leaves_its_reason_with_the_job(controller: JobController) -> None:
    local, id_ = Local(controller), submitted(controller, "/nowhere/at/all")
    start = decision(id=DecisionId("d-1"), action=Start(job=id_, gpus=SLOT))
    local.carry_out(start, 2.0)

    until(lambda: (controller.advance(3.0), controller.store.job(id_).state.ended)[1])

    assert local.progress(start, 3.0).result != "begun"
    last = controller.store.job(id_).events[-1]
    assert (last.why, "no such file" in last.detail) == ("it could not be started", True)


def test_a_loan_and_its_call_back_are_begun_then_done_with_promise_and_time(
    controller: JobController,
) -> None:
    local, owner = Local(controller), submitted(controller, "sleep", "1000")
    local.carry_out(decision(id=DecisionId("d-1"), action=Start(job=owner, gpus=SLOT)), 2.0)
    until(lambda: (controller.advance(3.0), controller.store.job(owner).state.runs)[1])
    saver = python(SAVES.replace("STEPS", "100000"), requeue=True)
    borrower = controller.store.submit((saver,), 3.0)[0].id
    controller.advance(3.0)
    lend = decision(id=DecisionId("d-2"), action=Lend(gpus=SLOT, owner=owner, borrower=borrower))
    back = decision(
        id=DecisionId("d-3"),
        action=CallBack(loan=lend.id, gpus=SLOT, owner=owner, borrower=borrower),
    )

    assert local.carry_out(lend, 4.0).result == "begun"
    until(lambda: (controller.advance(5.0), local.progress(lend, 5.0).result == "done")[1])
    until(lambda: (controller.advance(5.0), controller.store.job(borrower).checkpointing.able)[1])
    assert "given back within" in local.progress(lend, 5.0).text
    assert local.carry_out(back, 6.0).result == "begun"
    until(lambda: (controller.advance(7.0), local.progress(back, 7.0).result == "done")[1])

    assert "promised were" in local.progress(back, 7.0).text
    assert local.carry_out(lend, 8.0).result == "done"  # it was


def test_a_loan_whose_borrower_cannot_be_executed_ends_and_its_owner_goes_on(
    controller: JobController,
) -> None:
    local, owner = Local(controller), submitted(controller, "sleep", "1000")
    local.carry_out(decision(id=DecisionId("d-1"), action=Start(job=owner, gpus=SLOT)), 2.0)
    until(lambda: (controller.advance(3.0), controller.store.job(owner).state.runs)[1])
    broken = controller.store.submit((spec("/nowhere/at/all", requeue=True),), 3.0)[0].id
    controller.advance(3.0)
    lend = decision(id=DecisionId("d-2"), action=Lend(gpus=SLOT, owner=owner, borrower=broken))
    local.carry_out(lend, 4.0)

    until(lambda: (controller.advance(5.0), not controller.store.loans.open())[1])

    assert controller.store.job(broken).state.ended
    assert controller.store.job(owner).state.runs
    assert local.progress(lend, 5.0).result != "begun"


@pytest.mark.parametrize(
    ("action", "command"),
    [
        (Resume(job=JobId("7"), gpus=SLOT), "steward jobs resume 7"),
        (Preempt(job=JobId("7"), gpus=SLOT), "steward jobs preempt 7"),
        (Save(job=JobId("7")), "steward jobs save 7"),
        (Migrate(job=JobId("7"), source=SLOT, target=OTHER), "steward jobs move 7 --to n1/cpu1"),
        (Resize(job=JobId("7"), now=SLOT, then=BOTH), "steward jobs move 7 --to n1/cpu0,n1/cpu1"),
        (Start(job=JobId("7"), gpus=SLOT), "steward decisions approve d-1"),
        (
            CapPower(job=JobId("7"), gpus=SLOT, before_watts=400.0, watts=300.0),
            "steward decisions approve d-1",
        ),
        (Tell(to="ada", about="job:7", text="rest"), ""),
    ],
)
def test_each_action_has_what_a_person_would_type(action: Action, command: str) -> None:
    found = Local().by_hand(decision("d-1", action=action), 2.0)

    assert found.possible
    assert found.commands == ((command,) if command else ())


def test_what_this_machine_cannot_do_has_no_command() -> None:
    found = Local().by_hand(decision("d-1", action=Drain(node=NodeId("n1"), gpus=())), 2.0)

    assert (found.possible, found.commands) == (False, ())
    assert "cannot drain" in found.text
