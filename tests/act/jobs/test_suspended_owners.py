"""Owners that the driver suspends for a loan, with a libcuda that stops real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fake_libcuda import FakeLibcuda
from job_bed import SAVES
from managed_jobs import python
from patience import until
from steward.act.jobs.controller import JobController
from steward.clients.local_jobs import cuda_driver
from steward.clients.local_jobs.engine import LocalEngine
from steward.clients.local_jobs.suspension import Suspension
from steward.errors import PermanentError
from steward.model.actions import CallBack, Lend
from steward.model.identity import DecisionId, GpuId, JobId
from steward.model.job_loan import JobLoan
from steward.model.managed_job import JobSpec, LifeState
from steward.store.jobs import JobStore

pytestmark = pytest.mark.real  # builds a library: a C compiler is installed there

GPU = GpuId("n1/gpu0")
GIB = 2**30
COUNTS = """
import os, pathlib, time
file = pathlib.Path(os.environ["STEWARD_JOB_FOLDER"]) / "count"
for number in range(100_000):
    file.write_text(str(number))
    time.sleep(0.01)
"""
WAKES = """
import os, pathlib, time
wake = pathlib.Path(os.environ["STEWARD_JOB_FOLDER"]) / "wake"
print("ready", flush=True)
while not wake.exists():
    time.sleep(0.05)
while True:
    pass
"""


class GpuBed:
    """A controller whose slot is a GPU to it, with a driver that can suspend."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cuda = FakeLibcuda(folder / "cuda")
        self.t_s = 1000.0
        self.before: list[Suspension] = []
        self.host_bytes = 64 * GIB
        self.open()

    def open(self) -> None:
        self.engine = LocalEngine(self.folder / "jobs", grace_s=0.3, uuids={GPU: "GPU-1"})
        self.jobs = JobController(JobStore(self.folder / "jobs.sqlite3"), self.engine)
        self.suspension = Suspension(
            self.engine, self.memory, str(self.cuda.path), host_bytes=lambda: self.host_bytes
        )
        self.jobs.lending.suspender = self.suspension
        self.before.append(self.suspension)

    def memory(self, _: GpuId) -> dict[int, int]:
        """Return what an NVML would: the first process of whoever holds the GPU."""
        found = {}
        for job in self.jobs.store.open():
            if job.gpus and job.attempt is not None:
                pids = self.suspension.usage.pids(job.id, job.attempt.number)
                found |= dict.fromkeys(sorted(pids)[:1], 3 * GIB)
        return found

    def restart(self) -> None:
        self.jobs.store.close()
        self.open()

    def advance(self) -> None:
        self.t_s += 0.05
        self.jobs.advance(self.t_s)

    def submit(self, made: JobSpec) -> JobId:
        id_ = self.jobs.store.submit((made,), self.t_s)[0].id
        self.advance()
        return id_

    def owner(self, code: str = COUNTS, **given: object) -> JobId:
        id_ = self.submit(python(code, **given))
        self.jobs.start(id_, (GPU,), decision=DecisionId("d-own"), t_s=self.t_s)
        until(lambda: (self.advance(), self.jobs.store.job(id_).state.runs)[1])
        until(lambda: self.memory(GPU))
        return id_

    def lend(self, owner: JobId) -> JobLoan:
        borrower = self.submit(python(SAVES.replace("STEPS", "100000"), requeue=True))
        action = Lend(gpus=(GPU,), owner=owner, borrower=borrower, way="suspended")
        return self.jobs.lending.lend(action, decision=DecisionId("d-lend"), t_s=self.t_s)

    def call_back(self) -> None:
        loan = self.loan()
        action = CallBack(loan=loan.id, gpus=loan.gpus, owner=loan.owner, borrower=loan.borrower)
        id_ = DecisionId("d-back")
        self.jobs.lending.call_back(action, decision=id_, t_s=self.t_s, why="test")

    def loan(self) -> JobLoan:
        found = self.jobs.store.loans.find(DecisionId("d-lend"))
        assert found is not None
        return found

    def becomes(self, *phases: str) -> JobLoan:
        until(lambda: (self.advance(), self.loan().phase in phases)[1], why=str(phases))
        return self.loan()

    def state(self, id_: JobId) -> LifeState:
        return self.jobs.store.job(id_).state

    def count(self, id_: JobId) -> str:
        file = self.engine.work_folder(id_) / "count"
        return file.read_text() if file.exists() else ""


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[GpuBed]:
    made = GpuBed(tmp_path)
    yield made
    for job in made.jobs.store.open():
        made.jobs.cancel(job.id, t_s=made.t_s, why="the test is over")
    until(lambda: (made.advance(), not made.jobs.store.open())[1])
    for each in made.before:
        each.close(within_s=60.0)
    made.jobs.store.close()


def test_an_owner_is_suspended_for_a_loan_and_goes_on_where_it_was(bed: GpuBed) -> None:
    owner = bed.owner()
    until(lambda: bed.count(owner))

    bed.lend(owner)
    loan = bed.becomes("lent")
    stood = bed.count(owner)
    assert bed.state(owner) is LifeState.SUSPENDED
    assert bed.cuda.calls() == ["lock", "checkpoint"]
    bed.call_back()
    bed.becomes("over")

    assert bed.cuda.calls() == ["lock", "checkpoint", "restore", "unlock"]
    assert bed.state(owner) is LifeState.RESUMED
    until(lambda: int(bed.count(owner) or 0) > int(stood or 0))
    assert len(bed.jobs.store.job(owner).attempts) == 1
    for kind in ("suspend", "resume"):
        (known,) = bed.jobs.store.loans.measured(owner, kind)
        assert known.size_bytes == 3 * GIB
    assert loan.pid


def test_what_the_driver_refuses_leaves_the_owner_running_and_is_not_tried_again(
    bed: GpuBed,
) -> None:
    owner = bed.owner()
    bed.cuda.set("fail-checkpoint", 801)

    bed.lend(owner)
    over = bed.becomes("over")

    assert "UVM" in over.failed
    assert bed.cuda.calls() == ["lock", "checkpoint", "unlock"]
    assert bed.state(owner) is LifeState.RUNNING
    before = bed.count(owner)
    until(lambda: bed.count(owner) != before)


@pytest.mark.parametrize(("code", "words"), [(-1, "signal 11"), (600, "not over in time")])
def test_a_fault_in_the_driver_costs_the_loan_and_nothing_else(
    bed: GpuBed, code: int, words: str
) -> None:
    owner = bed.owner()
    bed.cuda.set("fail-checkpoint", code)

    bed.lend(owner)
    over = bed.becomes("over")
    until(lambda: bed.suspension.state(over.pid) == "running")

    assert words in over.failed
    assert bed.state(owner) is LifeState.RUNNING


def test_what_cannot_be_suspended_is_refused_before_anything_is_touched(bed: GpuBed) -> None:
    owner = bed.owner()
    job = bed.jobs.store.job(owner)

    assert bed.suspension.refusal(job) == ""
    bed.host_bytes = 4 * GIB
    assert "3.3 GiB of host memory are needed and 2.0 GiB" in bed.suspension.refusal(job)
    bed.host_bytes = 64 * GIB
    bed.suspension.memory = lambda _: {}
    assert "0 of its processes are on its GPU" in bed.suspension.refusal(job)
    bed.suspension._probe = None
    bed.cuda.set("version", 12040)
    assert "too old: it is for CUDA 12.4" in bed.suspension.refusal(job)
    bed.suspension._probe, bed.suspension.library = None, "/nowhere/libcuda.so.1"
    assert "no CUDA driver library" in bed.suspension.refusal(job)
    with pytest.raises(PermanentError, match="no CUDA driver library"):
        bed.lend(owner)
    with pytest.raises(PermanentError, match="not one of its own"):
        bed.suspension.begin("suspend", owner, 1, 1)
    assert bed.cuda.calls() == []


def test_several_gpus_slots_and_jobs_that_do_not_run_are_refused(bed: GpuBed) -> None:
    waiting = bed.jobs.store.job(bed.submit(python(COUNTS)))
    bed.engine.uuids = {GPU: "GPU-1", GpuId("n1/gpu1"): "GPU-2"}
    job = bed.jobs.store.job(bed.owner())
    attempt = job.attempts[0]

    def on(*gpus: str) -> str:
        ids = tuple(GpuId(gpu) for gpu in gpus)
        return bed.suspension.refusal(job.with_attempt(replace(attempt, gpus=ids)))

    assert "waiting, not running" in bed.suspension.refusal(waiting)
    assert "2 GPUs" in on("n1/gpu0", "n1/gpu1")
    assert "CPU slots" in on("n1/cpu0")


@pytest.mark.parametrize("at", ["clearing", "lent", "restoring"])
def test_a_process_that_was_suspended_when_steward_was_killed_is_found_and_restored(
    bed: GpuBed, at: str
) -> None:
    owner = bed.owner()
    if at == "clearing":
        bed.cuda.set("hang", 1)
    bed.lend(owner)
    if at == "clearing":
        until(lambda: "checkpoint" in bed.cuda.calls())
        bed.restart()  # its helper goes on by itself
        bed.cuda.clear("hang")
    bed.becomes("lent")
    bed.restart()
    if at == "restoring":
        bed.cuda.set("fail-restore", 304)
    bed.call_back()
    if at == "restoring":
        until(lambda: (bed.advance(), "restore" in bed.cuda.calls())[1])
        bed.restart()
        bed.cuda.clear("fail-restore")
    bed.becomes("over")

    assert bed.state(owner) is LifeState.RESUMED
    assert bed.suspension.state(bed.loan().pid) == "running"
    assert len(bed.jobs.store.job(owner).attempts) == 1


def test_an_owner_that_the_driver_cannot_resume_goes_back_into_the_queue(bed: GpuBed) -> None:
    owner = bed.owner(requeue=True)
    bed.lend(owner)
    bed.becomes("lent")

    bed.cuda.set("fail-restore", 999)
    bed.call_back()
    over = bed.becomes("over")
    until(lambda: (bed.advance(), bed.state(owner) is LifeState.PREEMPTED)[1])

    assert any("could not be resumed" in each.text for each in over.notes)


def test_a_suspended_owner_that_wakes_up_wants_its_gpu_back(bed: GpuBed) -> None:
    bed.cuda.set("keep-going", 1)  # as a process that has not called the driver yet
    owner = bed.owner(WAKES)
    until(lambda: b"ready" in bed.engine.read_log(owner, 0, 100))
    bed.lend(owner)
    bed.becomes("lent")
    for _ in range(50):
        bed.advance()
    assert bed.loan().wanted == ""

    (bed.engine.work_folder(owner) / "wake").touch()

    until(lambda: (bed.advance(), bed.loan().wanted)[1])
    assert "woke up" in bed.loan().wanted


def test_a_lost_gpu_ends_a_suspended_owner_which_goes_on_from_its_save(bed: GpuBed) -> None:
    owner = bed.owner(requeue=True)
    bed.lend(owner)
    loan = bed.becomes("lent")

    bed.jobs.lending.is_lost = lambda _: True
    bed.t_s += 2.0
    bed.becomes("over")
    both = (owner, loan.borrower)
    until(lambda: (bed.advance(), all(bed.state(x) is LifeState.PREEMPTED for x in both))[1])

    assert bed.cuda.calls() == ["lock", "checkpoint"]
    assert all(len(bed.jobs.store.job(each).attempts) == 1 for each in both)


def files_of(pid: int) -> list[str]:
    return [str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir() if each.is_symlink()]


def test_what_a_killed_steward_began_at_a_process_is_over_before_the_next_begins(
    tmp_path: Path,
) -> None:
    cuda = FakeLibcuda(tmp_path / "cuda")
    cuda.set("hang", 1)
    owner = subprocess.Popen(["sleep", "600"])

    def begin(do: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, cuda_driver.__file__, do, str(owner.pid), str(cuda.path), "9"]
        return subprocess.Popen(command, stdout=subprocess.PIPE)

    try:
        first = begin("suspend")
        until(lambda: cuda.calls() == ["lock", "checkpoint"])
        second = begin("resume")
        until(lambda: f"/proc/{owner.pid}" in files_of(second.pid), why="its wait for the first")
        meanwhile = cuda.calls()
        cuda.clear("hang")
        answers = [json.loads(each.communicate()[0]) for each in (first, second)]
    finally:
        owner.kill()
        owner.wait()

    assert meanwhile == ["lock", "checkpoint"]
    assert [each["state"] for each in answers] == ["suspended", "running"]
    assert cuda.calls() == ["lock", "checkpoint", "restore", "unlock"]


def test_a_process_that_is_gone_is_said_to_be_gone(tmp_path: Path) -> None:
    over = subprocess.Popen(["true"])
    over.wait()

    answer = cuda_driver.main("resume", over.pid, str(FakeLibcuda(tmp_path / "c").path), 1.0)

    assert (answer["ok"], answer["why"]) == (False, f"process {over.pid} is gone")
