"""Disks that are full and clocks that differ, on a real Slurm."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from beds.slurm import SlurmBed, slurm_bed
from factories import decision
from patience import LONG_S, until
from steward.act.actuators.slurm import Slurm
from steward.clients.slurm.control import SlurmControl
from steward.clients.slurm.submission import Submission, submit_once
from steward.clock import WallClock
from steward.errors import StewardError
from steward.model.actions import Action, Migrate, Preempt, Resume
from steward.model.decision import Decision, Receipt
from steward.model.identity import GpuId, JobId

pytestmark = pytest.mark.real

SAVES = "trap 'echo saved' USR2; for each in $(seq 3600); do sleep 1; done"
SAVE_S = 2
ELSEWHERE = (GpuId("n9/gpu0"),)
_numbers = count(1)


@pytest.fixture(scope="module")
def bed() -> Iterator[SlurmBed]:
    """Start a Slurm whose controller keeps its state on a disk of 4 MiB."""
    folder = Path(tempfile.mkdtemp(prefix="steward-faults-"))
    folder.chmod(0o755)
    state = folder / "state"
    state.mkdir()
    options = ["-t", "tmpfs", "-o", "size=4m,mode=755", "tmpfs"]
    if subprocess.run(["mount", *options, str(state)], check=False).returncode:
        pytest.skip("nothing may be mounted here")
    try:
        with slurm_bed(folder, nodes=("n1", "n2")) as running:
            yield running
    finally:
        subprocess.run(["umount", "-l", str(state)], check=True)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def _calm(bed: SlurmBed) -> None:
    bed.calm()


class SkewedClock(WallClock):
    """The clock of a machine that is ahead of the controller's, or behind it."""

    def __init__(self, ahead_s: float) -> None:
        self.ahead_s = ahead_s

    def now_s(self) -> float:
        return super().now_s() + self.ahead_s


class Steward:
    """An engine with a clock of its own, begun anew at each step: nothing is kept in memory."""

    def __init__(self, bed: SlurmBed, folder: Path, *, ahead_s: float = 0.0) -> None:
        self.bed = bed
        self.folder = folder
        self.clock = SkewedClock(ahead_s)

    def decided(self, action: Action) -> Decision:
        return decision(f"d-fault{next(_numbers)}", action=action, t_s=self.clock.now_s())

    def step(self, made: Decision) -> Receipt | None:
        """Carry it on; None while it is begun, or Slurm cannot be asked."""
        conf = self.bed.env["SLURM_CONF"]
        engine = Slurm(conf=conf, timeout_s=LONG_S, settle_s=0.0, clock=self.clock)
        engine.keep_in(self.folder)
        try:
            said = engine.progress(made, self.clock.now_s())
        except StewardError:
            return None
        return None if said.result == "begun" else said

    def carried_out(self, action: Action) -> Receipt:
        made = self.decided(action)
        return until(lambda: self.step(made), why=f"the end of {action.sentence}")


def submit(bed: SlurmBed) -> str:
    how = ("-A", "bio", "--gres=gpu:1", "--requeue", "--open-mode=append", "--time=60")
    id_ = bed.submit(SAVES, *how, f"--comment=steward:saves={SAVE_S}")
    runs_on(bed, id_)
    return id_


def runs_on(bed: SlurmBed, job: str) -> str:
    """Return the node of a job, once its shell has set its trap."""
    until(lambda: bed.state_of(job) == "RUNNING" and bool(node_of(bed, job)), why="a run")
    time.sleep(1.0)
    return node_of(bed, job)


def node_of(bed: SlurmBed, job: str) -> str:
    return bed.run("squeue", "--noheader", f"--jobs={job}", "--format=%N")


def restarts_of(bed: SlurmBed, job: str) -> int:
    text = bed.run("scontrol", "show", "job", job)
    return int(text.partition("Restarts=")[2].split()[0])


# -- a full disk -----------------------------------------------------------------------------------


def fill(filler: Path) -> None:
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return


@pytest.fixture
def filler(bed: SlurmBed) -> Iterator[Path]:
    """Return the file that fills the disk of the controller's state."""
    made = bed.folder / "state" / "filler"
    yield made
    made.unlink(missing_ok=True)


def test_a_submission_to_a_controller_without_disk_is_refused_and_happens_once_later(
    bed: SlurmBed, filler: Path
) -> None:
    runs = bed.folder / "runs"
    script = bed.folder / "once.sh"
    script.write_text(f"#!/bin/sh\n# {'x' * 100_000}\necho run >> {runs}\n")
    options = ("-A", "bio", "-o", "/dev/null")
    what = Submission(token=f"d-full{os.getpid()}", script=str(script), options=options)

    def control() -> SlurmControl:
        return SlurmControl(conf=bed.env["SLURM_CONF"], timeout_s=LONG_S)

    fill(filler)
    with pytest.raises(StewardError) as fault:
        submit_once(control(), what)
    filler.unlink()

    def submitted() -> str:
        try:
            return submit_once(control(), what)
        except StewardError:
            return ""

    (id_,) = {until(submitted, why="the submission") for _ in range(3)}
    until(lambda: bed.state_of(id_) == "COMPLETED", why="its end")
    assert "I/O error writing script" in str(fault.value)
    assert runs.read_text() == "run\n"


def test_a_stop_while_the_controller_cannot_write_happens_once_also_over_its_restart(
    bed: SlurmBed, filler: Path, tmp_path: Path
) -> None:
    job = submit(bed)
    fill(filler)
    steward = Steward(bed, tmp_path)

    stopped = steward.carried_out(Preempt(job=JobId(job), gpus=(GpuId("n1/gpu0"),)))
    resumed = steward.carried_out(Resume(job=JobId(job), gpus=(GpuId("n1/gpu0"),)))
    filler.unlink()
    bed.stop("slurmctld")
    bed.start_controller()
    until(bed.controller_answers, why="a controller")
    runs_on(bed, job)

    assert (stopped.result, resumed.result) == ("done", "done"), (stopped.text, resumed.text)
    assert restarts_of(bed, job) == 1
    assert (bed.folder / f"job-{job}.out").read_text().count("saved") == 1


# -- clocks that differ ----------------------------------------------------------------------------


@pytest.mark.parametrize("ahead_s", [90.0, 1800.0])
def test_a_steward_whose_clock_is_ahead_stops_moves_and_resumes_a_job_once_each(
    bed: SlurmBed, tmp_path: Path, ahead_s: float
) -> None:
    job, steward = submit(bed), Steward(bed, tmp_path, ahead_s=ahead_s)
    first = node_of(bed, job)
    gpu = GpuId(f"{first}/gpu0")

    stopped = steward.carried_out(Preempt(job=JobId(job), gpus=(gpu,)))
    resumed = steward.carried_out(Resume(job=JobId(job), gpus=(gpu,)))
    assert (stopped.result, resumed.result) == ("done", "done"), (stopped.text, resumed.text)
    second = runs_on(bed, job)
    leaves = Migrate(job=JobId(job), source=(GpuId(f"{second}/gpu0"),), target=ELSEWHERE)
    moved = steward.carried_out(leaves)

    assert moved.result == "done", moved.text
    assert runs_on(bed, job) != second
    assert restarts_of(bed, job) == 2


def test_a_job_whose_time_limit_seems_to_be_over_is_left_alone(
    bed: SlurmBed, tmp_path: Path
) -> None:
    job, steward = submit(bed), Steward(bed, tmp_path, ahead_s=3600.0)

    said = steward.carried_out(Preempt(job=JobId(job), gpus=(GpuId("n1/gpu0"),)))

    assert (said.result, "ended by its time limit" in said.text) == ("failed", True)
    assert (bed.state_of(job), restarts_of(bed, job)) == ("RUNNING", 0)


def test_a_steward_whose_clock_is_behind_leaves_alone_what_is_younger_and_says_so(
    bed: SlurmBed, tmp_path: Path
) -> None:
    job, steward = submit(bed), Steward(bed, tmp_path, ahead_s=-90.0)

    said = steward.carried_out(Preempt(job=JobId(job), gpus=(GpuId("n1/gpu0"),)))

    assert said.result == "failed"
    assert "was submitted after" in said.text
    assert (bed.state_of(job), restarts_of(bed, job)) == ("RUNNING", 0)
