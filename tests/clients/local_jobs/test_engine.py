"""Real processes behind real shims."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from managed_jobs import attempt, managed, python, spec, text_of
from patience import until
from steward.clients.local_jobs import shim
from steward.clients.local_jobs.accounts import groups_of
from steward.clients.local_jobs.confinement import Confinement
from steward.clients.local_jobs.engine import LocalEngine
from steward.errors import TemporaryError
from steward.model.identity import JobId
from steward.model.managed_job import AttemptLook, JobSpec

JOB = JobId("1")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LocalEngine]:
    made = LocalEngine(tmp_path / "jobs", grace_s=0.3)
    yield made
    for number in range(1, 4):
        if made.look(JOB, number).phase == "running":
            made.stop(JOB, number, force=True)
            until(lambda n=number: made.look(JOB, n).phase != "running")  # type: ignore[misc]


def ended(engine: LocalEngine, made: JobSpec, number: int = 1) -> AttemptLook:
    engine.launch(managed(made), attempt(number))
    until(lambda: engine.look(JOB, number).phase == "ended")
    return engine.look(JOB, number)


def running(engine: LocalEngine, made: JobSpec, sign: str) -> None:
    engine.launch(managed(made), attempt())
    until(lambda: sign in text_of(log(engine)))


def log(engine: LocalEngine) -> Path:
    return engine.work_folder(JOB) / "output.log"


def pids(engine: LocalEngine) -> list[int]:
    return engine._marked(JOB, 1)


@pytest.mark.parametrize(("code", "said"), [("0", 0), ("7", 7)])
def test_the_exit_status_is_the_jobs(engine: LocalEngine, code: str, said: int) -> None:
    look = ended(engine, spec("sh", "-c", f"exit {code}"))

    assert (look.exit_code, look.signal) == (said, None)
    assert look.cpu_s is not None
    assert look.peak_memory_bytes


def test_a_signal_that_ends_a_job_is_told(engine: LocalEngine) -> None:
    look = ended(engine, spec("sh", "-c", "kill -SEGV $$"))

    assert (look.exit_code, look.signal) == (None, signal.SIGSEGV)


@pytest.mark.parametrize(
    ("argv", "folder", "code", "words"),
    [
        (("/nowhere/at/all",), "/tmp", 127, "no such file"),
        (("/etc/passwd",), "/tmp", 126, "permission denied"),
        (("true",), "/nowhere", 127, "folder /nowhere: no such file"),
    ],
)
def test_what_cannot_be_started_ends_with_the_reason(
    engine: LocalEngine, argv: tuple[str, ...], folder: str, code: int, words: str
) -> None:
    look = ended(engine, spec(*argv, folder=folder))

    assert look.exit_code == code
    assert look.why == "it could not be started"
    assert words in look.detail


def test_a_script_runs_with_its_arguments_and_its_environment(engine: LocalEngine) -> None:
    script = '#!/bin/sh\necho "$1 $COLOUR $STEWARD_SLOTS $STEWARD_JOB_ID"; echo bad >&2\n'

    ended(engine, spec("one", script=script, environment=(("COLOUR", "red"),)))

    assert text_of(log(engine)) == "one red cpu0 1\nbad\n"


def test_a_log_that_reaches_its_limit_drops_output_and_the_job_goes_on(engine: LocalEngine) -> None:
    engine.log_max_bytes = 1000

    look = ended(engine, python("for _ in range(20000): print('x' * 99)"))

    assert look.exit_code == 0
    assert log(engine).stat().st_size < 1100
    assert "further output is dropped" in text_of(log(engine))


def test_what_forks_away_is_ended_with_the_job(engine: LocalEngine) -> None:
    code = "setsid sh -c 'trap \"\" TERM; sleep 1000 & wait' & sleep 0.2"
    ended(engine, spec("sh", "-c", code))

    assert not pids(engine)
    record = json.loads((engine.folder / "1/attempt-1/exit.json").read_text())
    assert record["left_over"] >= 1


def test_a_job_that_ignores_term_is_killed(engine: LocalEngine) -> None:
    running(engine, spec("sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.1; done"), "up")

    engine.stop(JOB, 1)
    assert engine.look(JOB, 1).phase == "running"
    engine.stop(JOB, 1, force=True)
    until(lambda: engine.look(JOB, 1).phase == "ended")

    assert engine.look(JOB, 1).signal == signal.SIGKILL


def test_the_time_limit_holds_for_a_job_that_ignores_it_and_its_children(
    engine: LocalEngine,
) -> None:
    code = "trap '' TERM; sh -c 'trap \"\" TERM; sleep 1000' & while :; do sleep 0.1; done"
    look = ended(engine, spec("sh", "-c", code, time_limit_s=3.0))

    assert look.why == "time limit reached"
    assert look.signal == signal.SIGKILL
    assert not pids(engine)


def test_a_warning_comes_before_the_time_limit(engine: LocalEngine) -> None:
    code = "trap 'echo warned; exit 3' USR1; while :; do sleep 0.05; done"
    made = spec("sh", "-c", code, time_limit_s=60.0, warn_signal="SIGUSR1", warn_before_s=55.0)

    assert ended(engine, made).exit_code == 3
    assert "warned" in text_of(log(engine))


def test_a_late_shim_runs_nothing_after_its_attempt_was_revoked(
    engine: LocalEngine, tmp_path: Path
) -> None:
    made = managed(spec("sh", "-c", "echo ran"))
    (engine.folder / "1/attempt-1").mkdir(parents=True)
    work = engine._make_work(made)
    record = engine._launch_record(made, attempt(), work)
    shim.write_record(str(engine.folder / "1/attempt-1/launch.json"), record)

    assert engine.look(JOB, 1).phase == "abandoned"
    assert engine.revoke(JOB, 1)
    late = [sys.executable, "-I", "-S", shim.__file__, str(engine.folder / "1/attempt-1")]
    subprocess.run(late, check=True)

    assert engine.look(JOB, 1).phase == "revoked"
    assert not log(engine).exists()


def test_a_claimed_attempt_cannot_be_revoked(engine: LocalEngine) -> None:
    running(engine, spec("sh", "-c", "echo up; sleep 1000"), "up")

    assert not engine.revoke(JOB, 1)
    assert engine.look(JOB, 1).phase == "running"


def test_two_shims_on_one_attempt_run_it_once(engine: LocalEngine) -> None:
    made = managed(spec("sh", "-c", "echo ran"))
    for _ in range(3):
        engine.launch(made, attempt())
    until(lambda: engine.look(JOB, 1).phase == "ended")
    until(lambda: engine.look(JOB, 1).phase == "ended" and not engine._shims)

    assert text_of(log(engine)) == "ran\n"


def test_a_killed_shim_is_lost_and_takes_its_job_with_it(engine: LocalEngine) -> None:
    running(engine, spec("sh", "-c", "setsid sleep 1000 & echo up; sleep 1000"), "up")
    claim = json.loads((engine.folder / "1/attempt-1/claim.json").read_text())

    os.kill(claim["pid"], signal.SIGKILL)
    until(lambda: engine.look(JOB, 1).phase == "lost")

    assert engine.look(JOB, 1).why == "its shim was killed"
    assert not pids(engine)


@pytest.mark.skipif(Confinement.find().root is None, reason="needs control groups")
def test_two_stewards_with_the_same_job_number_do_not_end_each_others_job(
    engine: LocalEngine, tmp_path: Path
) -> None:
    engine.confinement = Confinement.find()
    other = LocalEngine(tmp_path / "other", grace_s=0.3, confinement=engine.confinement)
    running(engine, spec("sh", "-c", "echo up; sleep 1000"), "up")

    ended(other, spec("true"))

    assert engine.look(JOB, 1).phase == "running"
    groups = {each.name for each in (engine.confinement.root or tmp_path).iterdir()}
    assert engine._group_name(JOB, attempt()) in groups
    assert other._group_name(JOB, attempt()) not in groups


def test_a_claim_of_another_boot_is_lost(engine: LocalEngine) -> None:
    folder = engine.folder / "1/attempt-1"
    folder.mkdir(parents=True)
    record = {"result": "claimed", **shim.identity(os.getpid()), "boot": "another"}
    shim.claim(str(folder), record)

    look = engine.look(JOB, 1)

    assert (look.phase, look.why) == ("lost", "the machine was restarted")


def test_a_job_outlives_whoever_launched_it(engine: LocalEngine, tmp_path: Path) -> None:
    code = f"""
import os, sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from managed_jobs import attempt, managed, spec
from steward.clients.local_jobs.confinement import Confinement
from steward.clients.local_jobs.engine import LocalEngine
engine = LocalEngine(Path({str(engine.folder)!r}), grace_s=0.3)
engine.launch(managed(spec("sh", "-c", "sleep 0.5; echo done; exit 5")), attempt())
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", code], check=False)

    until(lambda: engine.look(JOB, 1).phase == "ended")

    assert engine.look(JOB, 1).exit_code == 5


def test_a_job_ignores_no_signal_that_steward_was_started_with(
    engine: LocalEngine, tmp_path: Path
) -> None:
    before = signal.signal(signal.SIGQUIT, signal.SIG_IGN)  # as `steward up &` in a script has it
    try:
        ended(engine, spec("grep", "SigIgn", "/proc/self/status"))
    finally:
        signal.signal(signal.SIGQUIT, before)

    ignored = int(text_of(log(engine)).split()[1], 16)
    assert [n for n in signal.valid_signals() if n < 32 and ignored >> (n - 1) & 1] == []


def test_a_job_whose_shim_was_stopped_can_be_ended(engine: LocalEngine) -> None:
    running(engine, spec("sh", "-c", "echo on; exec sleep 1000"), "on")
    claim = json.loads((engine.folder / JOB / "attempt-1" / "claim.json").read_text())
    os.kill(claim["pid"], signal.SIGSTOP)

    engine.stop(JOB, 1)

    until(lambda: engine.look(JOB, 1).phase == "ended")
    assert engine.look(JOB, 1).signal == signal.SIGTERM


def test_an_attempt_that_cannot_be_revoked_on_a_full_disk_is_tried_again(
    tmp_path: Path,
) -> None:
    (tmp_path / "jobs").write_text("a file where the folder should be: nothing can be written")

    with pytest.raises(TemporaryError, match="cannot be revoked: not a directory"):
        LocalEngine(tmp_path / "jobs").revoke(JOB, 1)


def test_groups_are_found_where_the_directory_service_lists_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # sssd answers which groups an account has, and by default not which groups there are.
    monkeypatch.setattr("grp.getgrall", list)
    for entry in pwd.getpwall():
        assert groups_of(entry.pw_uid, entry.pw_gid) == sorted(
            {entry.pw_gid, *os.getgrouplist(pwd.getpwuid(entry.pw_uid).pw_name, entry.pw_gid)}
        )
