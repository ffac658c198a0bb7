"""The life of jobs, with real processes."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from job_bed import SLOT, states
from job_bed import JobControllerBed as Bed
from managed_jobs import attempt, managed, python, spec
from patience import until
from steward.act.jobs.controller import JobController
from steward.act.jobs.job_engine import JobEngine
from steward.act.jobs.stopping import Stopping
from steward.clients.local_jobs import shim
from steward.clients.local_jobs.engine import LocalEngine
from steward.errors import PermanentError, StewardError
from steward.model.identity import DecisionId, GpuId, JobId
from steward.model.managed_job import Attempt, AttemptLook, Dependency, LifeState, ManagedJob
from steward.store.jobs import JobStore


def test_a_job_is_submitted_waits_starts_runs_and_finishes(bed: Bed) -> None:
    id_ = bed.submit(spec("echo", "hello"))
    bed.start(id_)

    job = bed.reaches(id_, LifeState.FINISHED)

    assert states(job) == ["submitted", "waiting", "starting", "running", "finished"]
    assert (job.exit_code, len(job.attempts), job.gpus) == (0, 1, ())
    assert bed.log(id_) == "hello\n"


def test_the_same_decision_starts_a_job_once(bed: Bed) -> None:
    id_ = bed.submit(spec("echo", "hello"))
    bed.start(id_)
    bed.start(id_)
    bed.reaches(id_, LifeState.FINISHED)
    bed.start(id_)

    assert len(bed.job(id_).attempts) == 1
    assert bed.log(id_) == "hello\n"


def test_the_same_token_is_the_same_job(bed: Bed) -> None:
    first, again = (bed.submit(spec("true", token="abc")) for _ in "ab")  # noqa: S106

    assert first == again


def test_a_slot_has_one_owner(bed: Bed) -> None:
    one, two = (bed.submit(spec("sleep", "1000")) for _ in range(2))
    bed.start(one)

    with pytest.raises(PermanentError, match=r"held: n1/cpu0 by job 1"):
        bed.start(two, "d-2")


def test_a_job_that_fails_says_why(bed: Bed) -> None:
    id_ = bed.submit(spec("sh", "-c", "exit 7"))
    bed.start(id_)

    job = bed.reaches(id_, LifeState.FAILED)

    assert (job.exit_code, job.events[-1].why) == (7, "exit status 7")


def test_a_running_job_is_cancelled_even_if_it_ignores_term(bed: Bed) -> None:
    id_ = bed.submit(spec("sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"))
    bed.start(id_)
    bed.reaches(id_, LifeState.RUNNING)

    bed.controller.cancel(id_, t_s=bed.t_s, why="ann cancelled it")
    job = bed.reaches(id_, LifeState.CANCELLED)

    assert job.events[-1].why == "ann cancelled it"


def test_a_job_that_is_being_cancelled_does_not_come_back(bed: Bed) -> None:
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True)"
    id_ = bed.submit(python(code + "; time.sleep(1000)"))
    bed.start(id_)
    until(lambda: bed.log(id_))
    bed.reaches(id_, LifeState.RUNNING)
    bed.controller.cancel(id_, t_s=bed.t_s, why="ann cancelled it")

    with pytest.raises(PermanentError, match="being cancelled"):
        bed.controller.preempt(id_, decision=DecisionId("p-1"), t_s=bed.t_s, why="room", force=True)

    assert bed.reaches(id_, LifeState.CANCELLED).events[-1].why == "ann cancelled it"


def test_what_cannot_be_started_or_stopped_now_is_refused(bed: Bed) -> None:
    id_ = bed.submit(spec("true"))
    two = (GpuId("n1/cpu0"), GpuId("n1/cpu1"))

    with pytest.raises(PermanentError, match="it asks for 1 GPUs, not 2"):
        bed.start(id_, gpus=two)
    with pytest.raises(PermanentError, match="it is waiting, not running"):
        bed.controller.preempt(id_, decision=DecisionId("p-1"), t_s=bed.t_s, why="room")
    with pytest.raises(PermanentError, match="it is waiting, not running"):
        bed.controller.save(id_, request="s-1", t_s=bed.t_s, why="ann asked")
    bed.controller.cancel(id_, t_s=bed.t_s, why="ann cancelled it")
    with pytest.raises(PermanentError, match="it is cancelled, not waiting"):
        bed.start(id_)
    assert bed.controller.cancel(id_, t_s=bed.t_s, why="again").events[-1].why != "again"


@pytest.mark.parametrize(
    ("when", "code", "expected"),
    [
        ("afterok", 0, "waiting"),
        ("afterok", 1, "cancelled"),
        ("afternotok", 1, "waiting"),
        ("afternotok", 0, "cancelled"),
        ("afterany", 1, "waiting"),
    ],
)
def test_dependants_are_freed_or_cancelled(bed: Bed, when: str, code: int, expected: str) -> None:
    first = bed.submit(spec("sh", "-c", f"exit {code}"))
    needs = (Dependency(job=first, when=when),)  # type: ignore[arg-type]
    second = bed.submit(spec("true", dependencies=needs))
    assert bed.job(second).state is LifeState.SUBMITTED

    bed.start(first)
    bed.reaches(first, LifeState.FINISHED, LifeState.FAILED)
    bed.advance()

    assert bed.job(second).state.value == expected


def test_who_depends_on_an_array_waits_for_all_its_tasks(bed: Bed) -> None:
    store = bed.controller.store
    tasks = store.submit([spec("true", index=0), spec("true", index=7)], bed.t_s)
    other = store.submit([spec("true", index=0)], bed.t_s)[0]
    need = (Dependency(job=JobId("1"), when="afterok"),)
    id_ = bed.submit(spec("true", dependencies=need))
    assert [each.id for each in (*tasks, other)] == ["1_0", "1_7", "3_0"]

    bed.start(JobId("1_0"), "d-1")
    bed.reaches(JobId("1_0"), LifeState.FINISHED)
    assert bed.job(id_).state is LifeState.SUBMITTED
    bed.start(JobId("1_7"), "d-2")
    bed.reaches(JobId("1_7"), LifeState.FINISHED)

    bed.reaches(id_, LifeState.WAITING)


def test_an_array_that_waits_for_an_array_costs_a_pass_a_few_queries(bed: Bed) -> None:
    first = bed.controller.store.submit(
        [spec("true", index=each, hold=True) for each in range(30)], 1.0
    )
    need = (Dependency(job=JobId(first[0].spec.array)),)
    late = bed.controller.store.submit(
        [spec("true", index=x, dependencies=need) for x in range(30)], 1.0
    )
    for each in first[1:]:
        ended = each.moved(2.0, LifeState.WAITING, "").moved(3.0, LifeState.STARTING, "")
        bed.controller.store.put(
            ended.moved(4.0, LifeState.RUNNING, "").moved(5.0, LifeState.FINISHED, "")
        )
    bed.advance()
    statements: list[str] = []

    bed.controller.store._database.set_trace_callback(statements.append)
    bed.advance()
    bed.controller.store._database.set_trace_callback(None)

    assert all(bed.controller.store.job(each.id).state is LifeState.SUBMITTED for each in late)
    assert len(statements) < 20  # not one per task, or per pair of tasks


def test_an_array_is_admitted_in_one_transaction(bed: Bed) -> None:
    made = bed.controller.store.submit([spec("true", index=each) for each in range(200)], 1.0)
    statements: list[str] = []

    bed.controller.store._database.set_trace_callback(statements.append)
    bed.advance()
    bed.controller.store._database.set_trace_callback(None)

    assert {bed.job(each.id).state for each in made} == {LifeState.WAITING}
    assert statements.count("COMMIT") == 1


class OneIsRefused(JobStore):
    """A store that cannot write one job."""

    def put(self, job: ManagedJob) -> ManagedJob:
        if job.id == "2":
            raise sqlite3.OperationalError("database or disk is full")
        return super().put(job)


def test_a_job_that_cannot_be_admitted_keeps_no_other_from_it(tmp_path: Path) -> None:
    store = OneIsRefused(tmp_path / "jobs.sqlite3")
    controller = JobController(store, LocalEngine(tmp_path / "jobs"))
    for _ in range(3):
        store.submit([spec("true")], 1.0)

    controller.advance(2.0)

    assert [each.state.value for each in store.open()] == ["waiting", "submitted", "waiting"]
    assert [*controller.faults] == ["2"]
    reopened = JobStore(store.file)
    assert [each.state.value for each in reopened.open()] == ["waiting", "submitted", "waiting"]
    store.close()
    reopened.close()


def test_an_id_that_was_unknown_can_be_depended_on_once_it_is_there(bed: Bed) -> None:
    early = bed.submit(spec("true", dependencies=(Dependency(job=JobId("2")),)))
    assert bed.controller.store.job(early).state is LifeState.CANCELLED

    second = bed.submit(spec("true", hold=True))
    late = bed.submit(spec("true", dependencies=(Dependency(job=second),)))

    assert second == "2"
    assert bed.controller.store.job(late).state is LifeState.SUBMITTED


def test_a_held_job_waits_for_a_person(bed: Bed) -> None:
    id_ = bed.submit(spec("true", hold=True))
    assert bed.job(id_).state is LifeState.HELD
    with pytest.raises(PermanentError, match="held, not waiting"):
        bed.start(id_)

    bed.controller.release(id_, t_s=bed.t_s, why="ann released it")
    bed.advance()
    assert bed.job(id_).state is LifeState.WAITING
    with pytest.raises(StewardError, match="not held"):
        bed.controller.release(id_, t_s=bed.t_s, why="again")


def test_a_steward_that_is_killed_finds_its_job_again(bed: Bed) -> None:
    id_ = bed.submit(spec("sh", "-c", "sleep 0.3; echo once; exit 4"))
    bed.start(id_)
    until((bed.folder / "jobs" / id_ / "attempt-1" / "claim.json").exists)
    bed.restart()

    job = bed.reaches(id_, LifeState.FAILED)

    assert (job.exit_code, len(job.attempts)) == (4, 1)
    assert bed.log(id_) == "once\n"


def test_a_steward_killed_before_the_launch_starts_it_anew_at_once_and_once(bed: Bed) -> None:
    id_ = bed.submit(spec("echo", "once"))
    store = bed.controller.store
    gone = replace(attempt(), began_s=bed.t_s)
    job = store.job(id_).with_attempt(gone).moved(bed.t_s, LifeState.STARTING, "on cpu0")
    store.put(job)
    bed.restart()

    bed.advance()
    assert bed.job(id_).state is LifeState.WAITING
    bed.start(id_, "d-2")
    job = bed.reaches(id_, LifeState.FINISHED)

    assert bed.log(id_) == "once\n"
    assert job.attempts[0].why.startswith("its process did not start")


def test_a_shim_that_comes_after_its_steward_was_killed_and_replaced_runs_nothing(bed: Bed) -> None:
    id_ = bed.submit(spec("echo", "once"))
    late = LateShim(bed.folder / "jobs", grace_s=0.3)
    JobController(bed.controller.store, late).start(
        id_, SLOT, decision=DecisionId("d-1"), t_s=bed.t_s
    )
    bed.advance()
    assert bed.job(id_).state is LifeState.WAITING
    bed.start(id_, "d-2")

    late.come()
    job = bed.reaches(id_, LifeState.FINISHED)

    assert (bed.log(id_), len(job.attempts)) == ("once\n", 2)


def test_a_shim_that_came_just_before_its_steward_was_replaced_is_followed(bed: Bed) -> None:
    id_ = bed.submit(spec("echo", "once"))
    late = LateShim(bed.folder / "jobs", grace_s=0.3)
    JobController(bed.controller.store, late).start(
        id_, SLOT, decision=DecisionId("d-1"), t_s=bed.t_s
    )
    late.come()
    job = bed.reaches(id_, LifeState.FINISHED)

    assert (bed.log(id_), len(job.attempts)) == ("once\n", 1)


def test_a_start_that_was_decided_an_hour_ago_is_not_late(bed: Bed) -> None:
    id_ = bed.submit(spec("echo", "once"))
    bed.start(id_)
    bed.t_s += 3600.0  # the turn compiled for so long

    job = bed.reaches(id_, LifeState.FINISHED)

    assert (bed.log(id_), len(job.attempts)) == ("once\n", 1)


def test_an_attempt_whose_shim_died_before_it_claimed_is_given_up_at_once(bed: Bed) -> None:
    id_ = bed.submit(spec("echo", "once"))
    bed.controller.engine = bed.controller.following.engine = DeadShim(bed.folder / "jobs")
    bed.start(id_)

    job = bed.reaches(id_, LifeState.WAITING)

    assert job.events[-1].why == "its process did not start; nothing was run"
    assert job.events[-1].t_s < 1060.0


class LateShim(LocalEngine):
    """An engine whose shims hang between start and claim, as on a machine that swaps."""

    def launch(self, job: ManagedJob, attempt: Attempt) -> None:
        self.folder_of_it = self._write(job, attempt)

    def come(self) -> None:
        command = [sys.executable, "-I", "-S", shim.__file__, str(self.folder_of_it)]
        subprocess.run(command, check=True)


class DeadShim(LocalEngine):
    """An engine whose shims are killed as soon as they are there."""

    def _shim_command(self, folder: Path) -> list[str]:
        return ["/bin/sh", "-c", "kill -9 $$"]


def test_a_job_has_its_whole_grace_although_the_clock_is_set_back() -> None:
    told: list[tuple[float, bool]] = []

    class Engine:
        grace_s = 30.0

        def stop(self, _: JobId, __: int, *, force: bool = False) -> None:
            told.append((t_s, force))

    stopping = Stopping(cast("JobEngine", Engine()))
    job = managed(spec()).with_attempt(attempt())
    for t_s in (5000.0, 5010.0, 1000.0, 1020.0, 1031.0):
        stopping.stop(job, t_s)

    assert told == [(5000.0, False), (1031.0, True)]


def test_a_clock_that_is_set_back_changes_no_order(bed: Bed) -> None:
    id_ = bed.submit(spec("true"))
    bed.start(id_)
    bed.t_s -= 500.0

    job = bed.reaches(id_, LifeState.FINISHED)

    times = [each.t_s for each in job.events]
    assert times == sorted(times)


@pytest.mark.parametrize(("requeue", "state"), [(True, "waiting"), (False, "failed")])
def test_a_lost_job_is_requeued_only_if_that_was_submitted(
    bed: Bed,
    requeue: bool,  # noqa: FBT001
    state: str,
) -> None:
    import json
    import os
    import signal

    id_ = bed.submit(spec("sleep", "1000", requeue=requeue))
    bed.start(id_)
    bed.reaches(id_, LifeState.RUNNING)
    claim = json.loads((bed.folder / "jobs" / id_ / "attempt-1/claim.json").read_text())

    os.kill(claim["pid"], signal.SIGKILL)
    job = bed.reaches(id_, LifeState.WAITING, LifeState.FAILED)

    assert job.state.value == state
    assert "lost" in states(job)


class OneFails(LocalEngine):
    """An engine with a bug that shows with one job."""

    def look(self, job: JobId, number: int) -> AttemptLook:
        if job == "1":
            raise ZeroDivisionError
        return super().look(job, number)


def test_a_job_that_cannot_be_followed_stops_no_other(tmp_path: Path) -> None:
    store = JobStore(tmp_path / "jobs.sqlite3")
    controller = JobController(store, OneFails(tmp_path / "jobs", grace_s=0.3))
    store.submit([spec("true")], 1.0), store.submit([spec("true")], 1.0)
    controller.advance(2.0)
    for number in ("1", "2"):
        gpus = (GpuId(f"n1/cpu{number}"),)
        controller.start(JobId(number), gpus, decision=DecisionId(number), t_s=3.0)

    def second_is_over() -> bool:
        controller.advance(4.0)
        return store.job("2").state is LifeState.FINISHED

    until(second_is_over)

    assert "ZeroDivisionError" in controller.faults[JobId("1")].problem
    store.close()
