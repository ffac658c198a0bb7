"""What goes wrong with jobs: each ends once, with a reason that its owner can read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from job_bed import JobControllerBed as Bed
from job_bed import states
from managed_jobs import attempt, python, spec
from patience import until
from steward.clients.local_jobs import shim
from steward.clients.local_jobs.confinement import Confinement
from steward.clients.local_jobs.engine import LocalEngine
from steward.errors import TemporaryError
from steward.model.identity import DecisionId, JobId
from steward.model.managed_job import LifeState

FULL = r"full|no space left"
as_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root")
SAYS_IT_CAN = """
import json, os, pathlib, sys, time
folder = pathlib.Path(os.environ["STEWARD_JOB_FOLDER"])
(folder / "can_save.json").write_text('{"can": true}')
while not (folder / "request.json").exists():
    time.sleep(0.01)
"""


def engine_of(bed: Bed) -> LocalEngine:
    assert isinstance(bed.controller.engine, LocalEngine)
    return bed.controller.engine


def able(bed: Bed, code: str) -> JobId:
    """Start a job and wait until it says that it can save."""
    id_ = bed.submit(python(code))
    bed.start(id_)
    until(lambda: (bed.advance(), bed.job(id_).checkpointing.able)[1])
    return id_


def preempt(bed: Bed, id_: JobId) -> None:
    bed.controller.preempt(id_, decision=DecisionId("p-1"), t_s=bed.t_s, why="room")


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("/nowhere/train.sh",), 127, "/nowhere/train.sh: no such file"),
        (("/etc/passwd",), 126, "/etc/passwd: permission denied"),
    ],
)
def test_a_script_that_is_missing_or_not_executable_fails_with_that_reason(
    bed: Bed, argv: tuple[str, ...], code: int, words: str
) -> None:
    id_ = bed.submit(spec(*argv))
    bed.start(id_)

    job = bed.reaches(id_, LifeState.FAILED)

    assert (job.exit_code, job.events[-1].why) == (code, "it could not be started")
    assert words in job.events[-1].detail


def test_a_job_that_exits_at_once_ends_once(bed: Bed) -> None:
    id_ = bed.submit(spec("false"))
    bed.start(id_)
    until((bed.folder / "jobs" / id_ / "attempt-1" / "exit.json").exists)  # before anybody looks

    job = bed.reaches(id_, LifeState.FAILED)

    assert states(job) == ["submitted", "waiting", "starting", "running", "failed"]
    assert (job.exit_code, len(job.attempts)) == (1, 1)


def test_a_job_that_runs_into_its_memory_limit_fails_by_itself(bed: Bed) -> None:
    code = "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))\n"
    id_ = bed.submit(python(code + "x = bytearray(1 << 30)"))
    bed.start(id_)

    job = bed.reaches(id_, LifeState.FAILED)

    assert job.events[-1].why == "exit status 1"
    assert "MemoryError" in bed.log(id_)


def test_a_job_that_the_kernel_ended_for_its_memory_says_so(bed: Bed) -> None:
    groups = bed.folder / "groups"  # ordinary files, as the kernel would fill them
    groups.mkdir()
    engine = engine_of(bed)
    engine.confinement = Confinement(root=groups)
    id_ = bed.submit(spec("sh", "-c", "kill -KILL $$"))
    group = groups / engine._group_name(id_, attempt())
    group.mkdir()
    (group / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    bed.start(id_)

    job = bed.reaches(id_, LifeState.FAILED)

    assert (job.events[-1].why, job.exit_code) == ("out of memory", 128 + signal.SIGKILL)


def test_an_answer_that_cannot_be_read_is_no_save_and_the_job_runs_on(bed: Bed) -> None:
    id_ = able(bed, SAYS_IT_CAN + "(folder / 'answer.json').write_text('{torn'); time.sleep(1000)")
    bed.controller.stopping.save_within_s = 1.0

    preempt(bed, id_)
    until((bed.folder / "jobs" / id_ / "work" / "answer.json").exists)
    bed.t_s += 2.0
    job = bed.reaches(id_, LifeState.RUNNING)

    assert job.events[-1].why == "it did not save within 1 s"
    assert (job.checkpoints, job.attempts[-1].stop) == ((), "")


def test_a_job_that_fails_while_it_saves_has_failed_and_is_not_said_to_be_preempted(
    bed: Bed,
) -> None:
    id_ = able(bed, SAYS_IT_CAN + "sys.exit(9)")

    preempt(bed, id_)
    job = bed.reaches(id_, LifeState.FAILED)

    assert (job.exit_code, job.events[-1].why) == (9, "exit status 9")


@pytest.mark.parametrize(("requeue", "state"), [(True, "waiting"), (False, "failed")])
def test_a_job_that_ran_when_the_machine_was_restarted_is_lost_with_that_reason(
    bed: Bed,
    requeue: bool,  # noqa: FBT001
    state: str,
) -> None:
    id_ = bed.submit(spec("sleep", "1000", requeue=requeue))
    bed.start(id_)
    bed.reaches(id_, LifeState.RUNNING)
    file = bed.folder / "jobs" / id_ / "attempt-1" / "claim.json"
    claim = json.loads(file.read_text())
    os.kill(claim["pid"], signal.SIGKILL)  # it takes its job with it, as a restart would
    shim.write_record(str(file), {**claim, "boot": "the one before"})
    bed.restart()

    job = bed.reaches(id_, LifeState.WAITING, LifeState.FAILED)

    assert job.state.value == state
    assert [each.why for each in job.events if each.state is LifeState.LOST] == [
        "the machine was restarted"
    ]


@as_root
def test_a_folder_that_its_user_may_not_enter_is_the_reason_that_is_told(bed: Bed) -> None:
    for each in (bed.folder, *bed.folder.parents):
        if not each.stat().st_mode & 1:
            each.chmod(each.stat().st_mode | 0o711)
    home = bed.folder / "home"
    home.mkdir(mode=0o700)
    id_ = bed.submit(spec("true", folder=str(home), user="nobody", uid=65534, gid=65534))
    bed.start(id_)

    job = bed.reaches(id_, LifeState.FAILED)

    assert job.events[-1].detail == f"folder {home}: permission denied"


DAMAGED = "step-9: rank-00000.json has another hash than its manifest"
RESUMES = (
    SAYS_IT_CAN.partition("while not")[0]
    + f"""
import pathlib
if os.environ["STEWARD_RESTART_COUNT"] == "0":
    time.sleep(1000)
(folder / "progress.tmp").write_text(json.dumps({{"step": 5, "fell_back": [{DAMAGED!r}]}}))
(folder / "progress.tmp").rename(folder / "progress.json")
"""
)


def test_a_damaged_checkpoint_that_a_job_fell_back_from_is_noted_once(bed: Bed) -> None:
    id_ = able(bed, RESUMES)
    bed.controller.preempt(id_, decision=DecisionId("p-1"), t_s=bed.t_s, why="room", force=True)
    bed.reaches(id_, LifeState.PREEMPTED)
    bed.start(id_, "d-2")

    job = bed.reaches(id_, LifeState.FINISHED)

    assert [(each.attempt, each.detail) for each in job.notes] == [(2, DAMAGED)]
    assert "damaged checkpoint" in job.notes[0].why
    bed.restart()
    assert bed.job(id_).notes == job.notes


def test_a_job_whose_output_was_dropped_says_how_much_and_why(bed: Bed) -> None:
    engine_of(bed).log_max_bytes = 1000
    id_ = bed.submit(spec("sh", "-c", "head -c 5000 /dev/zero; exit 0"))
    bed.start(id_)

    job = bed.reaches(id_, LifeState.FINISHED)

    assert [each.why for each in job.notes] == [
        "4000 bytes of its output were dropped: the log has reached its size limit"
    ]


@pytest.mark.real
def test_a_job_that_writes_ten_gigabytes_of_output_ends_with_a_log_of_its_limit(bed: Bed) -> None:
    engine_of(bed).log_max_bytes = 1 << 20
    id_ = bed.submit(spec("sh", "-c", "head -c 10000000000 /dev/zero; echo end >&2; exit 4"))
    bed.start(id_)
    while not (bed.folder / "jobs" / id_ / "attempt-1" / "exit.json").exists():
        time.sleep(0.1)  # a minute on a busy machine; the timeout of all tests ends it

    job = bed.reaches(id_, LifeState.FAILED)

    log = bed.folder / "jobs" / id_ / "work" / "output.log"
    assert (job.exit_code, len(job.attempts)) == (4, 1)
    assert job.notes[0].why.startswith(f"{10_000_000_004 - (1 << 20)} bytes of its output")
    assert log.stat().st_size < (1 << 20) + 1000


# -- a full disk -----------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    options = ["-t", "tmpfs", "-o", "size=2m", "tmpfs"]
    if subprocess.run(["mount", *options, str(place)], check=False).returncode:
        pytest.skip("nothing may be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def small_bed(small_disk: Path) -> Iterator[Bed]:
    made = Bed(small_disk)
    yield made
    (small_disk / "full").unlink(missing_ok=True)
    for job in made.controller.store.open():
        made.controller.cancel(job.id, t_s=made.t_s, why="the test is over")
        made.reaches(job.id, LifeState.CANCELLED)
    made.controller.store.close()


def fill(folder: Path) -> None:
    with (folder / "full").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return


@pytest.mark.real
@as_root
def test_a_job_that_fills_the_disk_ends_and_its_end_is_known_when_there_is_room_again(
    small_bed: Bed,
) -> None:
    bed = small_bed
    code = f"""
file = open({str(bed.folder / "full")!r}, "wb", buffering=0)
try:
    while True:
        file.write(b"x" * 4096)
except OSError as fault:
    print("disk:", fault.strerror, flush=True)
    raise SystemExit(5)
"""
    id_ = bed.submit(python(code))
    bed.start(id_)
    claim = bed.folder / "jobs" / id_ / "attempt-1" / "claim.json"
    until((bed.folder / "full").exists)
    until(lambda: not shim.below(json.loads(claim.read_text())["pid"]))
    for _ in range(3):
        bed.advance()  # nothing can be written: the job is not lost, and nothing is raised
    assert bed.job(id_).state in (LifeState.STARTING, LifeState.RUNNING)

    (bed.folder / "full").unlink()
    job = bed.reaches(id_, LifeState.FAILED)

    assert (job.exit_code, len(job.attempts)) == (5, 1)


@pytest.mark.real
@as_root
def test_a_start_on_a_full_disk_starts_nothing_and_goes_on_when_there_is_room(
    small_bed: Bed,
) -> None:
    bed = small_bed
    id_ = bed.submit(spec("echo", "once"))
    fill(bed.folder)

    with pytest.raises(TemporaryError, match=FULL):
        bed.start(id_)
    assert bed.job(id_).state is LifeState.WAITING  # in memory as on disk
    (bed.folder / "full").unlink()
    bed.start(id_)
    bed.reaches(id_, LifeState.FINISHED)

    assert bed.log(id_) == "once\n"


@pytest.mark.real
@as_root
def test_a_save_for_which_the_disk_is_full_is_asked_for_again(small_bed: Bed) -> None:
    bed = small_bed
    code = SAYS_IT_CAN + "time.sleep(1000)"
    id_ = able(bed, code)
    fill(bed.folder)

    with pytest.raises(TemporaryError, match=FULL):
        preempt(bed, id_)
    assert bed.job(id_).state is LifeState.RUNNING
    (bed.folder / "full").unlink()
    preempt(bed, id_)
    bed.advance()

    assert (bed.folder / "jobs" / id_ / "work" / "request.json").exists()
