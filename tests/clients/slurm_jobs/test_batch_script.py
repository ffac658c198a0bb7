"""The shell around a job turns a warning into a request, and is else not to be noticed."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import pytest

from patience import LONG_S, until
from steward.clients.slurm_jobs.batch_script import (
    has_own_trap,
    without_wait,
    wrapped_command,
    wrapped_script,
)
from steward.clients.slurm_jobs.sbatch_options import draft_of
from steward.errors import StewardError

TOKEN = "abcd1234"  # noqa: S105 - not a secret


def own(folder: Path) -> Path:
    return folder / f".steward-{pwd.getpwuid(os.geteuid()).pw_name}"


@contextmanager
def running(
    folder: Path, text: str, *args: str, stdin: IO[str] | None = None, **more: str
) -> Iterator[subprocess.Popen[str]]:
    """Run a batch script as slurmd does, without a Slurm."""
    script = folder / "slurm_script"
    script.write_text(text)
    job = {"SLURM_JOB_ID": "12", "PATH": os.environ["PATH"], **more}
    process = subprocess.Popen(
        ["bash", str(script), *args],
        cwd=folder,
        env=job,
        stdin=stdin,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its watcher and its job, too
        process.communicate()


def test_a_script_runs_with_its_arguments_and_its_exit_status(tmp_path: Path) -> None:
    text = "#!/bin/bash -e\n#SBATCH -p gpu\nprintf '%s|' \"$@\" '$HOME'\nexit 3\n"

    with running(tmp_path, wrapped_script(text, token=TOKEN), "a b", "c") as process:
        out, _ = process.communicate(timeout=LONG_S)

    assert (out, process.returncode) == ("a b|c|$HOME|", 3)


def test_a_script_keeps_its_input_and_its_variables(tmp_path: Path) -> None:
    names = ("name", "token", "script", "each", "own", "code", "id", "child", "comment")
    text = wrapped_command(["bash", "-c", "cat; env"], token=TOKEN)
    (tmp_path / "in").write_text("DATA\n")

    with (
        (tmp_path / "in").open() as given,
        running(tmp_path, text, stdin=given, **dict.fromkeys(names, "mine")) as process,
    ):
        out, _ = process.communicate(timeout=LONG_S)

    assert out.startswith("DATA\n")
    assert {f"{name}=mine" for name in names} <= {*out.splitlines()}


def test_a_script_that_cannot_be_written_whole_does_not_run(tmp_path: Path) -> None:
    text = wrapped_script("#!/bin/bash\necho ran\n", token=TOKEN)
    full = text.replace("keep_script <<", "steward_script=/dev/full/x; keep_script <<")

    with running(tmp_path, full) as process:
        out, _ = process.communicate(timeout=LONG_S)

    assert (out, process.returncode) == ("", 75)


def test_a_command_keeps_its_words(tmp_path: Path) -> None:
    command = ["printf", "%s,", "a b", "it's", '"$x"']

    with running(tmp_path, wrapped_command(command, token=TOKEN)) as process:
        out, _ = process.communicate(timeout=LONG_S)

    assert out == 'a b,it\'s,"$x",'


def test_a_warning_becomes_a_request_and_the_job_goes_on(tmp_path: Path) -> None:
    text = wrapped_command(["bash", "-c", "echo ready; read -r x <stop; exit 4"], token=TOKEN)
    os.mkfifo(tmp_path / "stop")
    request = own(tmp_path) / TOKEN / "request.json"

    with running(tmp_path, text, SLURM_RESTART_COUNT="2") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGUSR2)
        until(request.exists, why="the request")
        (tmp_path / "stop").write_text("now\n")
        code = process.wait(timeout=LONG_S)

    found = json.loads(request.read_text())
    assert (found["do"], found["id"].startswith("usr2-12-2-")) == ("save", True)
    assert code == 4


def test_a_script_with_a_handler_gets_the_warning_itself(tmp_path: Path) -> None:
    handler = "trap 'echo saved; exit 0' USR2; echo ready; while :; do sleep 0.05; done"

    with running(tmp_path, wrapped_command(["bash", "-c", handler], token=TOKEN)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGUSR2)
        out, _ = process.communicate(timeout=LONG_S)

    assert (out, process.returncode) == ("saved\n", 0)


def requeued(folder: Path, *, after_s: int, restarts: int = 1) -> str:
    """Run a job again that was requeued so long after its end, and return what it wrote."""
    note = own(folder) / TOKEN / "ended"
    ended_s = int(note.read_text().split()[1]) if note.exists() else 0
    (folder / "squeue").write_text(f"#!/bin/sh\necho {ended_s + after_s}\n")
    (folder / "squeue").chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    again = wrapped_command(["echo", "ran"], token=TOKEN)
    with running(folder, again, PATH=path, SLURM_RESTART_COUNT=f"{restarts}") as process:
        out, _ = process.communicate(timeout=LONG_S)
    assert process.returncode == 0
    return out


def run_once(folder: Path, *command: str) -> int:
    with running(folder, wrapped_command(command, token=TOKEN)) as process:
        return process.wait(timeout=LONG_S)


def test_a_job_that_had_ended_when_it_was_requeued_does_not_run_again(tmp_path: Path) -> None:
    assert run_once(tmp_path, "true") == 0

    assert requeued(tmp_path, after_s=0) == ""
    assert requeued(tmp_path, after_s=60) == ""


def test_a_job_that_a_person_requeues_after_its_end_runs_again(tmp_path: Path) -> None:
    run_once(tmp_path, "true")

    assert requeued(tmp_path, after_s=61) == "ran\n"


def test_an_end_that_a_requeue_may_have_caused_is_none(tmp_path: Path) -> None:
    run_once(tmp_path, "true")

    assert requeued(tmp_path, after_s=-1) == "ran\n"


def test_only_the_end_of_the_run_before_counts_and_only_with_success(tmp_path: Path) -> None:
    run_once(tmp_path, "true")
    assert requeued(tmp_path, after_s=0, restarts=2) == "ran\n"

    (own(tmp_path) / TOKEN / "ended").unlink()
    assert run_once(tmp_path, "false") == 1
    assert requeued(tmp_path, after_s=0) == "ran\n"


@pytest.mark.parametrize(
    ("number", "send"),
    [(signal.SIGTERM, os.kill), (signal.SIGTERM, os.killpg), (signal.SIGUSR2, os.kill)],
    ids=["TERM to the shell", "TERM to all, as a requeue does", "USR2 to the shell"],
)
def test_a_script_that_ends_because_of_a_signal_runs_again(
    tmp_path: Path, number: signal.Signals, send: Callable[[int, int], None]
) -> None:
    handler = f"trap 'exit 0' {number.name[3:]}; echo ready; while :; do sleep 0.05; done"
    with running(tmp_path, wrapped_command(["bash", "-c", handler], token=TOKEN)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        send(process.pid, number)
        assert process.wait(timeout=LONG_S) == 0

    assert requeued(tmp_path, after_s=0) == "ran\n"


def test_each_task_of_an_array_has_a_folder_of_its_own(tmp_path: Path) -> None:
    text = wrapped_command(["sh", "-c", 'echo "$STEWARD_JOB_ID $STEWARD_JOB_FOLDER"'], token=TOKEN)

    with running(tmp_path, text, SLURM_ARRAY_JOB_ID="11", SLURM_ARRAY_TASK_ID="3") as process:
        out, _ = process.communicate(timeout=LONG_S)

    assert out == f"11_3 {own(tmp_path)}/{TOKEN}/3\n"


def test_where_no_folder_can_be_made_the_job_runs_all_the_same(tmp_path: Path) -> None:
    own(tmp_path).write_text("a file")
    script = '#!/bin/bash\necho "folder: ${STEWARD_JOB_FOLDER-none}"\n'

    with running(tmp_path, wrapped_script(script, token=TOKEN)) as process:
        out, _ = process.communicate(timeout=LONG_S)

    assert out == "folder: none\n"


def test_a_folder_that_is_not_ones_own_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    own(tmp_path).symlink_to(tmp_path / "theirs")
    command = ["sh", "-c", 'echo "folder: ${STEWARD_JOB_FOLDER-none}"']

    with running(tmp_path, wrapped_command(command, token=TOKEN)) as process:
        out, _ = process.communicate(timeout=LONG_S)

    assert out == "folder: none\n"


def test_once_a_job_can_save_everybody_sees_it(tmp_path: Path) -> None:
    for program, script in (
        ("squeue", "echo night run steward:job=x"),
        ("scontrol", f'echo "$@" > {tmp_path}/said.tmp; mv {tmp_path}/said.tmp {tmp_path}/said'),
    ):
        (tmp_path / program).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / program).chmod(0o755)
    job = 'echo \'{"can": true}\' > "$STEWARD_JOB_FOLDER/can_save.json"; sleep 600'
    path = f"{tmp_path}:{os.environ['PATH']}"

    with running(tmp_path, wrapped_command(["sh", "-c", job], token=TOKEN, save_s=20), PATH=path):
        until((tmp_path / "said").exists, why="the mark")

    said = (tmp_path / "said").read_text()
    assert said == "update JobId=12 Comment=night run steward:job=x steward:saves=20\n"


def test_the_lines_of_the_script_win_over_the_defaults() -> None:
    text = wrapped_script("#!/bin/sh\n#SBATCH --no-requeue\n\n#SBATCH -W -p x\ntrue\n", token=TOKEN)

    lines = [line.strip() for line in text.splitlines() if line.startswith("#SBATCH")]
    assert lines == [
        "#SBATCH --requeue",
        "#SBATCH --open-mode=append",
        "#SBATCH --signal=B:USR2@60",
        "#SBATCH --no-requeue",
        "#SBATCH  -p x",
        "#SBATCH --no-requeue",  # and the script itself, as it was
        "#SBATCH -W -p x",
    ]
    assert "--wait" not in without_wait("#!/bin/sh\n#SBATCH --wait\ntrue\n")


# -- options ---------------------------------------------------------------------------------------


def test_options_become_those_of_sbatch() -> None:
    given = {
        "token": TOKEN,
        "gpus": "2",
        "time": "90s",
        "array": "0-9%3",
        "requeue": "",
        "partition": "pool",
        "saves": "30",
    }

    made = draft_of(["train.sh", "x"], given, script="#!/bin/sh\n", more=["--exclusive"])

    assert made.submission(Path("/tmp/y")).command == (
        "sbatch", "--parsable", "--hold", "--gpus=2", "--array=0-9%3", "--partition=pool",
        "--time=0:90", "--requeue", "--exclusive",
        f"--comment=steward:job={TOKEN} steward:saves=30", "/tmp/y/train.sh", "x",
    )  # fmt: skip


def test_the_comment_of_a_script_is_kept() -> None:
    script = "#!/bin/sh\n#SBATCH --comment='my run steward:saves=90' --hold\ntrue\n"

    made = draft_of(["a.sh"], {"token": TOKEN}, script=script)

    comment = made.submission(Path("/tmp")).command[-2]
    assert comment == f"--comment=my run steward:job={TOKEN} steward:saves=90"
    assert made.keep_held
    assert "save_s=90" in made.text


def test_a_script_that_handles_the_warning_stays_as_it_is() -> None:
    script = "#!/bin/bash\npython train.py & pid=$!\ntrap 'kill -USR2 $pid' USR2\nwait\n"

    own = draft_of(["a.sh"], {"token": TOKEN}, script=script)
    chosen = draft_of(["a.sh"], {"token": TOKEN}, script="#!/bin/sh\ntrue\n", as_is=True)

    assert has_own_trap(script)
    assert (own.text, own.wrapped) == (script, False)
    assert (chosen.text, chosen.wrapped) == ("#!/bin/sh\ntrue\n", False)


def test_a_script_that_stays_as_it_is_keeps_its_log_over_a_requeue_unless_it_says_otherwise() -> (
    None
):
    given, plain = {"token": TOKEN}, "#!/bin/sh\ntrue\n"
    empties = "#!/bin/sh\n#SBATCH --open-mode=truncate\ntrue\n"

    kept = draft_of(["a.sh"], given, script=plain, as_is=True)
    own = draft_of(["a.sh"], given, script=empties, as_is=True)
    asked = draft_of(["a.sh"], given, script=plain, as_is=True, more=["--open-mode=truncate"])

    assert kept.options == ("--open-mode=append",)
    assert own.options == ()
    assert asked.options == ("--open-mode=truncate",)


def test_the_shell_notes_where_each_run_writes(tmp_path: Path) -> None:
    script = tmp_path / "slurm_script"
    script.write_text(wrapped_command(["true"], token=TOKEN))

    for node in ("n1", "n2", "n2"):  # as with --output=%N.log
        with (tmp_path / f"{node}.log").open("ab") as log:
            env = {"SLURM_JOB_ID": "12", "PATH": os.environ["PATH"]}
            subprocess.run(["bash", script], cwd=tmp_path, env=env, stdout=log, check=True)

    noted = (own(tmp_path) / TOKEN / "output").read_text().splitlines()
    assert noted == [str(tmp_path / "n1.log"), str(tmp_path / "n2.log")]


@pytest.mark.parametrize(
    ("given", "more", "problem"),
    [
        ({"slots": "2"}, [], "counts CPUs"),
        ({"min-gpus": "1", "max-gpus": "4"}, [], "--max-gpus"),
        ({"saves": "soon"}, [], "is no time"),
        ({"time": "soon"}, [], "is no time"),
        ({}, ["--wrap=x"], "--wrap"),
        ({}, ["exclusive"], "--NAME=VALUE"),
    ],
)
def test_what_slurm_has_no_word_for_is_refused(
    given: dict[str, str], more: list[str], problem: str
) -> None:
    with pytest.raises(StewardError, match=problem):
        draft_of(["true"], {"token": TOKEN, **given}, script="", more=more)


def test_a_job_of_several_parts_is_refused() -> None:
    script = "#!/bin/sh\n#SBATCH -N1\n#SBATCH hetjob\n#SBATCH -N2\ntrue\n"

    with pytest.raises(StewardError, match="heterogeneous"):
        draft_of(["a.sh"], {"token": TOKEN}, script=script)
