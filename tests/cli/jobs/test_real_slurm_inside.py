"""`steward jobs submit --inside` on a real Slurm: a step beside what an allocation runs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from beds.slurm import SlurmBed, slurm_bed
from patience import until
from told import Answer, steward

pytestmark = pytest.mark.real

OTHER = "news"  # an account that every Debian has
STAY = "for each in $(seq 3600); do sleep 1; done"


@pytest.fixture(scope="module")
def shared_bed() -> Iterator[SlurmBed]:
    folder = Path(tempfile.mkdtemp(prefix="steward-inside-"))
    folder.chmod(0o755)
    try:
        with slurm_bed(folder, nodes=("n1", "n2")) as running:
            running.run("sacctmgr", "-i", "add", "user", OTHER, "account=bio")
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def bed(shared_bed: SlurmBed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlurmBed:
    shared_bed.calm()
    monkeypatch.chdir(tmp_path)
    return shared_bed


@pytest.fixture
def allocation(bed: SlurmBed) -> str:
    """Return a job with two GPUs that runs and uses none of them."""
    id_ = bed.submit(STAY, "-A", "bio", "--gres=gpu:a100:2", "--time=60", "-w", "n1")
    bed.wait_for(lambda: bed.state_of(id_) == "RUNNING", why="an allocation")
    return id_


def jobs(bed: SlurmBed, *args: object) -> Answer:
    config = bed.folder / "steward.toml"
    config.write_text(
        f"[jobs]\nengine = 'slurm'\n[plugs.slurm]\nconf = '{bed.env['SLURM_CONF']}'\n"
    )
    what, *rest = args
    return steward("jobs", what, "--config", config, *rest)


def inside(bed: SlurmBed, allocation: str, *args: object) -> str:
    made = jobs(bed, "submit", "--inside", allocation, *args)
    assert made.code == 0, made.err
    return made.out.strip()


def test_a_step_sees_its_gpu_of_the_allocation_and_keeps_its_exit_status(
    bed: SlurmBed, allocation: str
) -> None:
    script = "echo devices $CUDA_VISIBLE_DEVICES of $SLURM_JOB_ID; exit 5"

    id_ = inside(bed, allocation, "--gpus", "1", "--", "sh", "-c", script)

    assert id_.startswith(f"{allocation}.")
    assert jobs(bed, "wait", id_).code == 5
    assert jobs(bed, "logs", id_).out == f"devices 0 of {allocation}\n"
    shown = jobs(bed, "show", id_, "--json").json
    assert (shown["id"], shown["state"], shown["exit_code"]) == (id_, "failed", 5)
    assert bed.state_of(allocation) == "RUNNING"


def test_a_step_that_ends_well_or_by_a_signal_is_told_apart(bed: SlurmBed, allocation: str) -> None:
    fine = inside(bed, allocation, "--", "true")
    killed = inside(bed, allocation, "--", "sh", "-c", "kill -SEGV $$")

    assert (jobs(bed, "wait", fine).code, jobs(bed, "wait", killed).code) == (0, 139)
    assert jobs(bed, "show", fine, "--json").json["state"] == "finished"


def test_a_running_step_is_listed_and_cancelled_without_its_allocation(
    bed: SlurmBed, allocation: str
) -> None:
    id_ = inside(bed, allocation, "--", "sh", "-c", STAY)

    listed = {job["id"]: job["state"] for job in jobs(bed, "list", "--json").json}
    refused = jobs(bed, "preempt", id_)
    cancelled = jobs(bed, "cancel", id_)

    assert listed == {id_: "running", allocation: "running"}
    assert refused.code != 0
    assert "can be cancelled, and nothing else" in refused.err
    assert cancelled.code == 0, cancelled.err
    assert jobs(bed, "wait", id_).code >= 128
    assert jobs(bed, "show", id_, "--json").json["state"] == "cancelled"
    assert bed.state_of(allocation) == "RUNNING"


def test_a_step_whose_srun_was_killed_is_cancelled_and_its_end_is_in_accounting(
    bed: SlurmBed, allocation: str
) -> None:
    id_ = inside(bed, allocation, "--token", "doomed-1", "--", "sh", "-c", STAY)
    launchers = [
        int(entry.name)
        for entry in Path("/proc").glob("[0-9]*")
        if b"--job-name=steward-doomed-1" in _command_line(entry)
    ]
    for pid in launchers:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    jobs(bed, "cancel", id_)

    assert launchers
    until(lambda: jobs(bed, "show", id_, "--json").json["state"] == "cancelled", why="its end")
    assert jobs(bed, "wait", id_).code >= 128


def _command_line(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""


def test_the_same_token_is_the_same_step(bed: SlurmBed, allocation: str, tmp_path: Path) -> None:
    command = ("--token", "once-1", "--", "sh", "-c", f"echo >> {tmp_path}/runs")

    ids = {inside(bed, allocation, *command) for _ in range(2)}

    assert len(ids) == 1
    assert jobs(bed, "wait", ids.pop()).code == 0
    assert (tmp_path / "runs").read_text() == "\n"


def test_somebody_elses_allocation_is_refused_before_slurm_is_asked(bed: SlurmBed) -> None:
    submitted = ["sbatch", "--parsable", "-A", "bio", "-o", "/dev/null", "--wrap", STAY]
    made = subprocess.run(
        ["runuser", "-u", OTHER, "--", *submitted],
        env=bed.env,
        cwd="/tmp",
        capture_output=True,
        text=True,
        check=True,
    )
    id_ = made.stdout.strip()
    bed.wait_for(lambda: bed.state_of(id_) == "RUNNING", why="the other's job")

    refused = jobs(bed, "submit", "--inside", id_, "--", "true")

    assert refused.code != 0
    assert f"it belongs to {OTHER}" in refused.err


def test_what_waits_has_ended_or_is_too_small_is_refused_with_the_reason(
    bed: SlurmBed, allocation: str
) -> None:
    held = bed.submit(STAY, "--hold")
    soon = bed.submit(STAY, "--time=1", "-w", "n2")
    bed.wait_for(lambda: bed.state_of(soon) == "RUNNING", why="a job without much time")

    def reason(*args: object) -> str:
        answer = jobs(bed, "submit", *args, "--", "true")
        assert answer.code != 0
        return answer.err

    assert "held, not running" in reason("--inside", held)
    assert "its time limit ends it in" in reason("--inside", soon)
    assert "it holds 2 GPUs, and 3 are wanted" in reason("--inside", allocation, "--gpus", "3")
    assert "the allocation has settled that" in reason("--inside", allocation, "-p", "gpu")


def test_a_dry_run_prints_the_srun_and_runs_nothing(bed: SlurmBed, allocation: str) -> None:
    answer = jobs(bed, "submit", "--inside", allocation, "--gpus", "1", "--dry-run", "--", "true")

    assert answer.out.startswith(f"srun --jobid={allocation} --overlap")
    assert bed.run("squeue", "--steps", "--noheader", "--format=%i").split() == [
        f"{allocation}.batch"
    ]
