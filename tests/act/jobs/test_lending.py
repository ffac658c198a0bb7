"""Loans over real processes on CPU slots: lent, called back, and every way that can end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from job_bed import SAVES, SLOT, JobControllerBed, states
from managed_jobs import python, spec
from patience import until
from steward.clients.local_jobs.engine import LocalEngine
from steward.errors import PermanentError, TemporaryError
from steward.model.actions import CallBack, Lend
from steward.model.identity import DecisionId, GpuId, JobId
from steward.model.job import JobShape
from steward.model.job_loan import JobLoan
from steward.model.managed_job import JobSpec, LifeState

IDLE = "import time; time.sleep(1000)"
STUBBORN = """
import json, os, pathlib, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
folder = pathlib.Path(os.environ["STEWARD_JOB_FOLDER"])
(folder / "can_save.json").write_text(json.dumps({"can": True, "seconds": 0.1}))
print("ready", flush=True)
time.sleep(1000)
"""


class FullDisk(LocalEngine):
    """An engine that can stop nothing."""

    def stop(self, job: JobId, number: int, *, force: bool = False) -> None:
        raise TemporaryError("no space left on device", where=f"job {job}")


def saver(steps: int = 100_000) -> JobSpec:
    return python(SAVES.replace("STEPS", str(steps)), requeue=True)


class LoanBed(JobControllerBed):
    """An owner that runs on a slot, and loans of that slot."""

    def owner(self, made: JobSpec | None = None) -> JobId:
        id_ = self.submit(made or python(IDLE))
        self.start(id_, "d-owner")
        self.reaches(id_, LifeState.RUNNING)
        return id_

    def saving_owner(self) -> JobId:
        id_ = self.owner(saver())
        until(lambda: (self.advance(), self.job(id_).checkpointing.able)[1])
        return id_

    def lend(self, owner: JobId, borrower: JobId, **given: object) -> JobLoan:
        action = Lend(gpus=SLOT, owner=owner, borrower=borrower, **given)  # type: ignore[arg-type]
        return self.controller.lending.lend(action, decision=DecisionId("d-lend"), t_s=self.t_s)

    def call_back(self, loan: JobLoan) -> JobLoan:
        action = CallBack(loan=loan.id, gpus=loan.gpus, owner=loan.owner, borrower=loan.borrower)
        id_ = DecisionId("d-back")
        return self.controller.lending.call_back(action, decision=id_, t_s=self.t_s, why="test")

    def loan(self) -> JobLoan:
        found = self.controller.store.loans.find(DecisionId("d-lend"))
        assert found is not None
        return found

    def becomes(self, *phases: str) -> JobLoan:
        until(lambda: (self.advance(), self.loan().phase in phases)[1], why=str(phases))
        return self.loan()

    def lent(self, owner: JobId, made: JobSpec | None = None, **given: object) -> JobLoan:
        self.lend(owner, self.submit(made or saver()), **given)
        loan = self.becomes("lent")
        until(lambda: (self.advance(), self.job(loan.borrower).checkpointing.able)[1])
        return loan


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[LoanBed]:
    made = LoanBed(tmp_path)
    yield made
    for job in made.controller.store.open():
        made.controller.cancel(job.id, t_s=made.t_s, why="the test is over")
    until(lambda: (made.advance(), not made.controller.store.open())[1])
    made.controller.store.close()


def test_a_slot_is_lent_beside_its_owner_and_given_back_with_all_that_was_done_saved(
    bed: LoanBed,
) -> None:
    owner = bed.owner()

    loan = bed.lent(owner)
    assert bed.job(loan.borrower).gpus == bed.job(owner).gpus == SLOT
    bed.call_back(loan)
    over = bed.becomes("over")

    assert bed.job(owner).state is LifeState.RUNNING
    assert bed.job(loan.borrower).state is LifeState.PREEMPTED
    assert bed.job(loan.borrower).checkpoints
    assert over.took_s is not None
    assert over.took_s < over.promised_s
    (measured,) = bed.controller.store.loans.measured(loan.borrower, "call-back")
    assert (measured.seconds, measured.promised_s) == (over.took_s, over.promised_s)


def test_a_shared_slot_is_seen_as_such_and_both_work(bed: LoanBed) -> None:
    owner = bed.owner(saver())
    loan = bed.lent(owner, way="shared")

    seen = loan.seen
    bed.call_back(loan)
    over = bed.becomes("over")

    assert seen is not None
    assert (seen.shared, seen.owner) == (True, owner)
    assert "beside its owner, which works on" in loan.notes[0].text
    assert bed.job(owner).state is LifeState.RUNNING
    assert bed.job(over.borrower).state is LifeState.PREEMPTED


def test_an_owner_that_saves_and_stops_keeps_its_place_and_goes_on_from_its_save(
    bed: LoanBed,
) -> None:
    owner = bed.saving_owner()

    loan = bed.lent(owner, way="saved")
    assert bed.job(owner).state is LifeState.LENT
    assert bed.job(owner).gpus == SLOT
    bed.call_back(loan)
    bed.becomes("over")

    assert states(bed.job(owner))[-3:] == ["lent", "starting", "resumed"]
    assert len(bed.job(owner).attempts) == 2


def test_the_same_decisions_again_change_nothing(bed: LoanBed) -> None:
    owner = bed.owner()
    loan = bed.lent(owner)

    assert bed.lend(owner, loan.borrower).id == loan.id
    bed.call_back(loan)
    asked = bed.loan()
    assert bed.call_back(loan) == asked
    bed.becomes("over")

    assert len(bed.job(loan.borrower).attempts) == 1
    assert bed.call_back(loan).is_over


@pytest.mark.parametrize(
    ("made", "way", "problem"),
    [
        (spec("sleep", "1000"), "beside", "neither save its work nor be ended"),
        (None, "saved", "cannot save its work"),
        (None, "suspended", "nothing can suspend"),
    ],
)
def test_what_cannot_be_lent_is_refused_with_the_reason(
    bed: LoanBed, made: JobSpec | None, way: str, problem: str
) -> None:
    owner = bed.owner()

    with pytest.raises(PermanentError, match=problem):
        bed.lend(owner, bed.submit(made or saver()), way=way)

    assert bed.controller.store.loans.open() == ()


def test_foreign_gpus_jobs_in_loans_and_owners_that_wait_are_refused(bed: LoanBed) -> None:
    owner = bed.owner()
    loan = bed.lent(owner)
    third = bed.submit(saver())
    lending = bed.controller.lending

    def lend(owner: str, gpu: GpuId) -> None:
        action = Lend(gpus=(gpu,), owner=JobId(owner), borrower=third)
        lending.lend(action, decision=DecisionId("d-other"), t_s=bed.t_s)

    with pytest.raises(PermanentError, match="another loan"):
        lend(owner, SLOT[0])
    with pytest.raises(PermanentError, match="not run by this steward"):
        lend("pid-1", SLOT[0])
    with pytest.raises(PermanentError, match="waiting, not running"):
        lend(bed.submit(saver()), SLOT[0])
    bed.call_back(loan)
    bed.becomes("over")
    with pytest.raises(PermanentError, match="does not hold"):
        lend(owner, GpuId("n1/cpu7"))


def test_a_borrower_that_ends_by_itself_ends_the_loan(bed: LoanBed) -> None:
    owner = bed.owner()
    borrower = bed.submit(saver(5))
    bed.lend(owner, borrower)

    over = bed.becomes("over")

    assert bed.job(borrower).state is LifeState.FINISHED
    assert bed.job(owner).state is LifeState.RUNNING
    assert over.took_s is None
    assert over.free_s is not None


def test_an_owner_that_ends_leaves_its_gpus_to_the_borrower(bed: LoanBed) -> None:
    owner = bed.owner()
    loan = bed.lent(owner)

    bed.controller.cancel(owner, t_s=bed.t_s, why="test")
    bed.becomes("over")

    assert bed.job(loan.borrower).state is LifeState.RUNNING
    assert bed.job(loan.borrower).gpus == SLOT


def test_an_owner_that_has_saved_can_be_cancelled_while_it_is_lent(bed: LoanBed) -> None:
    owner = bed.saving_owner()
    loan = bed.lent(owner, way="saved")

    bed.controller.cancel(owner, t_s=bed.t_s, why="test")
    bed.becomes("over")

    assert bed.job(owner).state is LifeState.CANCELLED
    assert bed.job(loan.borrower).gpus == SLOT


def test_a_borrower_that_never_saves_is_ended_if_that_was_allowed(bed: LoanBed) -> None:
    owner = bed.owner()
    loan = bed.lent(owner, python(STUBBORN, requeue=True))
    until(lambda: "ready" in bed.log(loan.borrower))

    bed.call_back(loan)
    bed.t_s += loan.promised_s
    over = bed.becomes("over")

    assert bed.job(loan.borrower).state is LifeState.PREEMPTED
    assert bed.job(loan.borrower).attempts[0].signal == 9
    assert any("is ended" in each.text for each in over.notes)


def test_a_borrower_that_may_not_be_ended_is_asked_again_and_the_owner_loses_nothing(
    bed: LoanBed,
) -> None:
    owner = bed.owner()
    borrower = bed.submit(python(STUBBORN, requeue=True))
    bed.lend(owner, borrower)
    loan = bed.becomes("lent")
    until(lambda: "ready" in bed.log(borrower))
    loans = bed.controller.store.loans
    loans.put(loan.noted(bed.t_s, "as if it had been refused", may_end=False))

    bed.call_back(loan)
    for _ in range(3):
        bed.t_s += 400.0
        bed.advance()
        bed.advance()

    assert bed.loan().phase == "returning"
    assert bed.loan().asked_times >= 2
    assert bed.job(borrower).state.runs
    assert bed.job(owner).state is LifeState.RUNNING


def test_a_loan_has_an_end_and_its_owner_can_ask_for_it(bed: LoanBed) -> None:
    owner = bed.owner()
    loan = bed.lent(owner, for_s=50.0)
    assert loan.seen is not None
    assert loan.seen.wanted == ""

    bed.t_s += 60.0
    until(lambda: (bed.advance(), bed.loan().wanted)[1])
    assert "the time" in bed.loan().wanted

    bed.controller.lending.want(owner, t_s=bed.t_s, why="ann asked for it")
    assert bed.loan().wanted == "ann asked for it"


@pytest.mark.parametrize("way", ["beside", "saved"])
def test_a_gpu_that_is_lost_while_it_is_lent_ends_the_loan_and_nothing_runs_twice(
    bed: LoanBed, way: str
) -> None:
    owner = bed.saving_owner()
    loan = bed.lent(owner, way=way)

    bed.controller.lending.is_lost = lambda _: True
    bed.t_s += 2.0
    over = bed.becomes("over")
    bed.reaches(loan.borrower, LifeState.PREEMPTED)

    assert "was lost while it was lent" in over.notes[-1].text
    assert len(bed.job(loan.borrower).attempts) == 1
    if way == "saved":
        assert bed.job(owner).state is LifeState.PREEMPTED
        assert bed.job(owner).gpus == ()


@pytest.mark.parametrize("way", ["beside", "saved"])
def test_a_steward_that_is_killed_at_any_step_goes_on_with_the_loan(bed: LoanBed, way: str) -> None:
    owner = bed.saving_owner()
    borrower = bed.submit(saver())
    bed.lend(owner, borrower, way=way)

    def until_then(*phases: str) -> None:
        def there() -> bool:
            if all(each.state is not LifeState.STARTING for each in bed.controller.store.open()):
                bed.restart()  # a shim of a steward that was killed is revoked if it is not there
            bed.advance()
            return bed.loan().phase in phases

        until(there, why=str(phases))

    until_then("lent")
    until(lambda: (bed.advance(), bed.job(borrower).checkpointing.able)[1])
    bed.call_back(bed.loan())
    until_then("over")

    assert bed.loan().failed == ""
    assert len(bed.job(borrower).attempts) == 1
    assert len(bed.job(owner).attempts) == (2 if way == "saved" else 1)
    assert bed.job(borrower).state is LifeState.PREEMPTED
    assert bed.job(owner).state.runs


def test_a_call_back_before_the_borrower_runs_is_carried_out(bed: LoanBed) -> None:
    owner = bed.saving_owner()
    loan = bed.lend(owner, bed.submit(saver()), way="saved")

    bed.call_back(loan)
    over = bed.becomes("over")

    assert over.failed == "it was called back before it began"
    bed.reaches(owner, LifeState.RESUMED, LifeState.RUNNING)
    assert bed.job(loan.borrower).state in (LifeState.WAITING, LifeState.PREEMPTED)


def test_an_owner_that_cannot_save_after_all_goes_on_and_nothing_is_lent(bed: LoanBed) -> None:
    owner = bed.owner(python(STUBBORN))
    until(lambda: "ready" in bed.log(owner))
    loan = bed.lend(owner, bed.submit(saver()), way="saved")

    bed.advance()
    bed.t_s += 400.0
    over = bed.becomes("over")

    assert "did not stop" in over.failed
    assert bed.job(owner).state is LifeState.RUNNING
    assert bed.job(loan.borrower).state is LifeState.WAITING


# -- where two parts meet --------------------------------------------------------------------------


def test_an_owner_that_was_resized_gets_back_what_it_had(bed: LoanBed) -> None:
    two = (*SLOT, GpuId("n1/cpu1"))
    asks = JobShape(gpus=2, min_gpus=1, max_gpus=2)
    owner = bed.submit(replace(saver(), shape=asks))
    bed.start(owner, "d-owner", two)
    until(lambda: (bed.advance(), bed.job(owner).checkpointing.able)[1])
    bed.controller.move(owner, SLOT, decision=DecisionId("d-less"), t_s=bed.t_s, why="test")
    bed.reaches(owner, LifeState.RESIZED)

    loan = bed.lent(owner, way="saved")
    bed.call_back(loan)
    bed.becomes("over")

    assert bed.job(owner).state is LifeState.RESUMED
    assert bed.job(owner).gpus == SLOT


def test_a_lost_gpu_whose_borrower_cannot_be_ended_at_once_leaves_nobody_behind(
    bed: LoanBed,
) -> None:
    owner = bed.saving_owner()
    loan = bed.lent(owner, way="saved")
    engine = bed.controller.engine
    bed.controller.engine = FullDisk(bed.folder / "jobs", grace_s=0.3)
    bed.controller.lending.is_lost = lambda _: True

    bed.t_s += 2.0
    bed.advance()
    assert bed.loan().phase == "lent"
    bed.controller.engine = engine
    bed.t_s += 2.0
    bed.becomes("over")

    assert bed.job(owner).state is LifeState.PREEMPTED
    bed.reaches(loan.borrower, LifeState.PREEMPTED)


def test_why_a_borrower_did_not_start_is_told_without_what_only_its_user_may_see(
    bed: LoanBed,
) -> None:
    borrower = bed.submit(replace(spec("/nowhere/secret"), requeue=True))

    bed.lend(bed.owner(), borrower)
    loan = bed.becomes("over")

    assert "secret" not in str([loan.failed, *(each.text for each in loan.notes)])
    assert "secret" in (bed.job(borrower).attempts[-1].why)


def test_a_loan_that_fails_in_steward_itself_stops_no_other(bed: LoanBed) -> None:
    loan = bed.lent(bed.owner())
    bed.controller.lending.is_lost = lambda _: bool(1 // 0)

    bed.t_s += 2.0
    bed.advance()

    assert "ZeroDivisionError" in bed.controller.lending.faults[loan.id].problem
    bed.controller.lending.is_lost = lambda _: False
    bed.advance()
    assert not bed.controller.lending.faults


def test_who_is_being_stopped_lends_nothing_and_who_runs_borrows_nothing(bed: LoanBed) -> None:
    owner = bed.saving_owner()
    wide = replace(saver(), shape=JobShape(gpus=2))
    with pytest.raises(PermanentError, match="asks for 2 GPUs, not 1"):
        bed.lend(owner, bed.submit(wide))
    borrower = bed.submit(saver())
    bed.controller.hold(borrower, t_s=bed.t_s, why="test")
    with pytest.raises(PermanentError, match="it is held"):
        bed.lend(owner, borrower)

    bed.controller.cancel(owner, t_s=bed.t_s, why="test")
    with pytest.raises(PermanentError, match=r"being stopped|not running"):
        bed.lend(owner, bed.submit(saver()))
