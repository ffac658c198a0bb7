"""Slurm is changed by exact commands, and its answers become errors that say what to do."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_slurm import FakeSlurm, as_asked
from patience import LONG_S
from steward.clients.slurm.commands import SlurmCommands
from steward.clients.slurm.control import QueueTop, RequestBudget, SlurmControl
from steward.clients.slurm.job_mark import MOST_BYTES, MOST_NICE, Borrowed, JobMark, LastDecision
from steward.clients.slurm.program import SEPARATOR, Answer, SlurmError
from steward.clients.slurm.queue_entry import entry_from_line
from steward.clients.slurm.refusals import refusal
from steward.clients.slurm.rights import Level, probe_rights
from steward.clients.slurm.submission import Submission, submit_once
from steward.clock import ManualClock
from steward.errors import PermanentError, StewardError, TemporaryError

TOKEN = "d-1a2b"  # noqa: S105 - not a secret


def control(folder: Path, *, timeout_s: float = LONG_S) -> SlurmControl:
    fake = FakeSlurm(folder)
    fake.controller()
    return SlurmControl(folder=f"{folder}:/bin:/usr/bin", timeout_s=timeout_s)


def slurm_says(folder: Path, program: str, script: str) -> None:
    path = folder / program
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


# -- recorded ------------------------------------------------------------------------------------


def test_every_recorded_job_is_read_from_squeues_columns(tmp_path: Path) -> None:
    slurm = control(tmp_path)

    jobs = slurm.jobs([str(id_) for id_ in range(17, 25)])

    assert {id_: job.state for id_, job in jobs.items()} == {
        "17": "RUNNING",
        "18": "PENDING",
        "19": "PENDING",
        "20": "RUNNING",
        "21": "PENDING",
        "22": "FAILED",
        "23": "PENDING",
        "24": "RUNNING",
    }
    assert {id_: job.held_by for id_, job in jobs.items() if job.held_by} == {
        "18": "user",
        "19": "user",
        "23": "requeue",
    }
    assert (jobs["17"].nodes, jobs["17"].mark.save_s) == (("n1", "n2"), 90.0)
    assert jobs["17"].mark.rest == 'night "run" a=b'
    assert (jobs["21"].restarts, jobs["21"].nice, jobs["21"].user) == (1, 7, "games")
    assert (jobs["24"].batch, jobs["18"].requeue) == (False, False)


def test_a_task_of_an_array_is_addressed_alone(tmp_path: Path) -> None:
    jobs = control(tmp_path).jobs(["19", "20"])

    assert [jobs[id_].address for id_ in ("19", "20")] == ["19_[0-1,3]", "19_2"]


def test_a_job_that_slurm_has_forgotten_is_not_among_the_answers(tmp_path: Path) -> None:
    slurm = control(tmp_path)
    slurm_says(
        tmp_path, "squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"
    )

    assert slurm.jobs(["99"]) == {}


# -- answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("err", "kind", "problem"),
    [
        ("slurm_update error: Invalid user id", PermanentError, "Invalid user id"),
        ("Access/permission denied for job 7", PermanentError, "Access/permission denied"),
        (
            "scancel: error: Kill job error on job id 1: Access/permission denied",
            PermanentError,
            "Kill job error on job id 1: Access/permission denied",
        ),
        ("Unexpected message received for job 4", TemporaryError, "Unexpected message received"),
        (
            "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
            TemporaryError,
            "Batch job submission failed: Socket timed out on send/recv operation",
        ),
        ("Job has already finished for job 2", PermanentError, "Job has already finished"),
        ("", PermanentError, "it failed with 1"),
    ],
)
def test_slurms_words_say_whether_to_try_again(
    err: str, kind: type[StewardError], problem: str
) -> None:
    fault = refusal("scontrol", Answer(code=1, out="", err=err))

    assert type(fault) is kind
    assert fault.problem == problem


def test_a_command_without_an_answer_may_be_tried_again(tmp_path: Path) -> None:
    slurm = control(tmp_path, timeout_s=0.1)
    slurm_says(tmp_path, "scancel", "exec sleep 60")

    with pytest.raises(TemporaryError, match=r"no answer within 0\.1 s"):
        slurm.change(("scancel", "7"))


def test_nothing_is_sent_to_a_controller_that_is_down(tmp_path: Path) -> None:
    slurm = control(tmp_path)
    slurm_says(tmp_path, "scontrol", 'echo "Slurmctld(primary) at x is DOWN"; exit 1')

    with pytest.raises(TemporaryError, match="controller is down"):
        slurm.change(("scontrol", "release", "7"))


def test_a_version_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    slurm = control(tmp_path)
    slurm_says(tmp_path, "scontrol", "echo 'scontrol: fatal: no slurm.conf' >&2; exit 1")

    with pytest.raises(SlurmError, match=r"no slurm\.conf"):
        slurm.version()


# -- limits --------------------------------------------------------------------------------------


def test_requests_stay_below_the_controllers_limit() -> None:
    clock = ManualClock()
    budget = RequestBudget(burst=3, per_s=0.5, patience_s=1.0, clock=clock)
    for _ in range(3):
        budget.take()

    with pytest.raises(TemporaryError) as fault:
        budget.take()

    assert fault.value.retry_after_s == pytest.approx(2.0)
    clock.set(1.5)
    budget.take()  # half a second is worth waiting for
    assert clock.now_s() == pytest.approx(2.0)


def test_without_a_limit_a_burst_does_not_wait() -> None:
    clock = ManualClock()
    budget = RequestBudget.below("idle_on_node_suspend")

    for _ in range(100):
        budget.take()

    assert clock.now_s() == 0.0
    assert budget.per_s > RequestBudget.below("rl_enable").per_s


# -- rights --------------------------------------------------------------------------------------


@pytest.mark.skipif(os.geteuid() != 0, reason="root is an administrator")
def test_root_is_an_administrator(tmp_path: Path) -> None:
    rights = probe_rights(control(tmp_path))

    assert (rights.user, rights.level) == ("root", Level.ADMINISTRATOR)
    assert "drains nodes" in rights.sentence


# -- marks ---------------------------------------------------------------------------------------


@given(
    rest=st.text(alphabet="ab =:,\"'", max_size=20).map(lambda text: " ".join(text.split())),
    save_s=st.none() | st.integers(0, 3600).map(float),
    hold=st.booleans(),
    did=st.none()
    | st.builds(
        LastDecision,
        id=st.sampled_from(["d-1", "d-0a9f.2"]),
        run=st.integers(0, 10**12 - 1),
        t_s=st.integers(0, 10**12 - 1),
        held=st.booleans(),
        nice=st.none() | st.integers(-MOST_NICE, MOST_NICE),
    ),
)
def test_a_mark_is_read_as_it_was_written(
    *, rest: str, save_s: float | None, hold: bool, did: LastDecision | None
) -> None:
    mark = JobMark(rest=rest, save_s=save_s, hold=hold, did=did)

    assert JobMark.read(mark.comment) == mark


@pytest.mark.parametrize("word", ["steward:suspend", "steward:gpus=2-8", "steward:gpus=1-1"])
def test_what_an_owner_allows_is_read_and_kept(word: str) -> None:
    mark = JobMark.read(f"night {word}")

    assert (mark.suspend, mark.gpu_range is not None) == ("suspend" in word, "gpus" in word)
    assert mark.comment == f"night {word}"


@given(comment=st.text(max_size=60))
def test_a_comment_of_others_is_kept(comment: str) -> None:
    kept = JobMark.read(comment).comment

    assert JobMark.read(kept) == JobMark.read(comment)
    assert "steward:" in comment or kept == comment.strip()


# -- submission ------------------------------------------------------------------------------------


def test_a_submission_shows_its_exact_command() -> None:
    what = Submission(
        token=TOKEN, script="train.sh", name="train", options=("-p", "pool"), save_s=60.0
    )

    assert what.command == (
        "sbatch",
        "--parsable",
        "--hold",
        "-p",
        "pool",
        "--job-name=train.d-1a2b",
        "--comment=steward:job=d-1a2b steward:saves=60",
        "train.sh",
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"token": "x y"},
        {"token": TOKEN, "name": "a,b"},
        {"token": TOKEN, "options": ("--comment=x",)},
    ],
)
def test_a_submission_that_could_not_be_found_again_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(StewardError):
        Submission(script="x", **wrong)  # type: ignore[arg-type]


def test_a_job_that_accounting_has_is_not_submitted_again(tmp_path: Path) -> None:
    slurm = control(tmp_path)
    slurm_says(tmp_path, "squeue", "true")
    slurm_says(tmp_path, "sacct", "echo 41")
    slurm_says(tmp_path, "sbatch", f"touch {tmp_path}/submitted; echo 42")

    assert submit_once(slurm, Submission(token=TOKEN, script="x.sh")) == "41"
    assert not (tmp_path / "submitted").exists()


def lists(folder: Path, *rows: tuple[str, str, str, str]) -> None:
    """Let squeue list jobs of this account: number, address, state and reason, with the token."""
    user = SlurmControl().user
    short = "".join(f"{id_}\x1fsteward:job={TOKEN}\x1f\n" for id_, *_ in rows)
    wide = "".join(
        "\x1f".join(
            [id_, address, state, reason, user, "gpu", "1794967252", "N/A", "0", "1", "1", "0", "1",
             "", "train", f"steward:job={TOKEN}", "\n"]
        )
        for id_, address, state, reason in rows
    )  # fmt: skip
    (folder / "short").write_bytes(as_asked(short.encode()))
    (folder / "wide").write_bytes(as_asked(wide.encode()))
    slurm_says(
        folder,
        "squeue",
        f"case $SQUEUE_FORMAT2 in *UserName*) cat {folder}/wide;; *) cat {folder}/short;; esac",
    )


def test_a_job_that_keeps_its_name_is_found_by_its_comment(tmp_path: Path) -> None:
    slurm = control(tmp_path)
    lists(tmp_path, ("41", "41", "PENDING", "JobHeldUser"), ("43", "43", "PENDING", "JobHeldUser"))
    slurm_says(tmp_path, "scancel", f'echo "scancel $*" >> {tmp_path}/calls')
    slurm_says(tmp_path, "sbatch", f"touch {tmp_path}/submitted")
    what = Submission(token=TOKEN, script="x.sh", rename=False, options=("--job-name=train",))

    id_ = submit_once(slurm, what)

    calls = (tmp_path / "calls").read_text().splitlines()
    assert id_ == "41"
    assert [line for line in calls if line != "ping"][:2] == ["scancel 43", "release 41"]
    assert not (tmp_path / "submitted").exists()
    assert not any(each.startswith("--job-name=job") for each in what.command)


def test_tasks_of_one_array_are_one_submission(tmp_path: Path) -> None:
    slurm = control(tmp_path)
    lists(
        tmp_path,
        ("42", "41_0", "RUNNING", "None"),
        ("41", "41_[1-9]", "PENDING", "Resources"),
    )
    slurm_says(tmp_path, "scancel", f"touch {tmp_path}/cancelled")

    assert submit_once(slurm, Submission(token=TOKEN, script="x.sh", rename=False)) == "41"
    assert not (tmp_path / "cancelled").exists()


def test_the_line_that_submitted_a_job_tells_its_token_in_accounting(tmp_path: Path) -> None:
    slurm = control(tmp_path)
    slurm_says(tmp_path, "squeue", "true")
    other, ours = (f"sbatch --comment=x steward:job={each} a.sh" for each in (f"{TOKEN}9", TOKEN))
    slurm_says(tmp_path, "sacct", f"echo '40|{other}'; echo '41_3|{ours}'")

    assert submit_once(slurm, Submission(token=TOKEN, script="x.sh", rename=False)) == "41"


def test_a_job_inherits_nothing_of_how_steward_reads_slurm(tmp_path: Path) -> None:
    slurm = control(tmp_path)
    slurm_says(tmp_path, "sbatch", 'echo "${SLURM_TIME_FORMAT-unset}"')

    assert slurm.change(("sbatch",)) == "unset"


ROW = ["PENDING", "JobHeldUser", "root", "gpu", "1794967252", "N/A", *"01100", ""]


def squeue_row(id_: str, name: str, comment: str) -> str:
    return SEPARATOR.join([id_, id_, *ROW, name, comment, ""])


def test_nobody_writes_rows_about_others_into_their_own_name_or_comment(tmp_path: Path) -> None:
    slurm = control(tmp_path)
    forged = "\x1f".join(["12", "12", *ROW, "train", "steward:hold"])
    rows = [
        squeue_row("12", f"x\n{forged}\n", f"y\u2028steward:saves=1\x85\n{forged}"),
        squeue_row("13", "train|a,b", "steward:saves=5"),
    ]
    (tmp_path / "rows").write_text("\n".join(rows) + "\n")
    slurm_says(tmp_path, "squeue", f"cat {tmp_path}/rows")

    jobs = slurm.jobs(["12", "13"])

    assert [(job.user, job.mark.hold, job.mark.save_s) for job in jobs.values()] == [
        ("root", False, None),  # what has several lines is one comment, and no word of ours
        ("root", False, 5.0),
    ]


def test_what_is_no_address_of_a_job_is_no_row() -> None:
    assert entry_from_line(SEPARATOR.join(["12", "--user=alice", *ROW, "x", "y", ""])) is None
    assert entry_from_line(SEPARATOR.join(["12", "12_[1-3%2]", *ROW, "x", "y", ""])) is not None


def test_no_argument_of_a_command_shows_what_separates_columns(tmp_path: Path) -> None:
    slurm = control(tmp_path)
    for program in ("squeue", "sinfo", "sacct"):
        slurm_says(tmp_path, program, f'printf "%s\\n" "$*" >> {tmp_path}/arguments')

    slurm.jobs(["12"])
    slurm.highest_priority("gpu")
    slurm.array_tasks("12")
    slurm.with_token(TOKEN)
    with pytest.raises(PermanentError):
        slurm.node("n1")
    SlurmCommands(folder=f"{tmp_path}:/bin:/usr/bin").ended(past_s=60.0)

    assert SEPARATOR not in (tmp_path / "arguments").read_text()  # `ps` shows them to everybody


# -- what owners write into comments -------------------------------------------------------------


@pytest.mark.parametrize(
    "forged",
    [
        f"steward:did=d-1@{'9' * 5000}~3",  # more digits than Python reads
        f"steward:did=d-1@1~{'9' * 400}",
        "steward:did=d-1@1~nan",
        "steward:did=d-1@1~-5",
        "steward:did=d-1@1~1e300",
        "steward:did=d-1@\u0661~\u0661",  # digits of another script
        f"steward:did=d-1@1~1+nice{'9' * 5000}",
        f"steward:did=d-1@1~1+nice{MOST_NICE + 1}",
        f"steward:did={'d' * 200}@1~1",
        f"steward:saves={'9' * 5000}",
        "steward:saves=-1",
        "steward:saves=\u0661",
    ],
)
def test_a_word_with_numbers_that_cannot_be_is_none_of_ours(forged: str) -> None:
    mark = JobMark.read(f"night {forged}")

    assert (mark.did, mark.save_s) == (None, None)


@pytest.mark.parametrize("text", ["x" * 70_000, "\u00e9" * 1500, "a b " * 600])
def test_a_note_is_found_again_however_long_the_comment_was(text: str) -> None:
    did = LastDecision(id="d-1", run=900, t_s=1000.0)

    comment = replace(JobMark.read(text), did=did).comment

    assert len(comment.encode()) <= MOST_BYTES  # squeue cuts what is longer
    assert JobMark.read(comment).did == did


def test_a_job_says_no_more_than_an_hour_for_its_save() -> None:
    assert JobMark.read("steward:saves=99999999").save_s == 3600.0
    assert JobMark.read(f"steward:saves={'9' * 320}").save_s is None


def test_the_first_in_line_is_the_highest_of_those_that_steward_has_not_raised(
    tmp_path: Path,
) -> None:
    slurm = control(tmp_path)
    rows = (
        ("1", "100", "Priority", "0", "(null)"),
        ("2", "230", "Priority", "-30", "steward:did=d-1@900~950+nice0"),  # raised
        ("3", "120", "Priority", "0", "steward:did=d-2@900~950+nice0"),  # and lowered again
        ("4", "150", "Resources", "0", "(null)"),
        ("5", "125", "Priority", "3", "steward:did=d-3@900~950+nice9"),  # maybe forged
    )
    texts = ["".join(f"{cell}\x1f" for cell in row) for row in rows]
    waiting = tmp_path / "waiting.txt"
    slurm_says(tmp_path, "squeue", f"cat {waiting}")

    waiting.write_bytes(as_asked("\n".join(texts).encode()))
    highest = slurm.highest_priority("gpu")
    known = slurm.highest_priority("gpu", raised={"5"})
    waiting.write_bytes(as_asked(texts[1].encode()))

    assert highest == QueueTop(first=150, second=125)
    assert known == QueueTop(first=150, second=120)
    assert slurm.highest_priority("gpu") == QueueTop(first=0, second=0)


def test_a_loan_is_read_as_it_was_written() -> None:
    lent = Borrowed(id="d-1", owner="12", t_s=5.5, node="n-1.x", gpus=(0, 3))
    mark = JobMark(rest="mine", inside_bytes=24 * 2**30, lent=lent)

    assert mark.comment == "mine steward:inside=24G steward:lent=d-1@12~5.5+n-1.x/0,3"
    assert JobMark.read(mark.comment) == mark


@pytest.mark.parametrize(
    "word",
    ["inside", "inside=0G", "inside=24", "inside=99999G", "lent=d@1~2", "lent=d@1~2+../0", "lent="],
)
def test_a_word_about_a_loan_that_cannot_be_is_none_of_ours(word: str) -> None:
    mark = JobMark.read(f"steward:{word}")

    assert (mark.inside_bytes, mark.lent, mark.rest) == (None, None, f"steward:{word}")
