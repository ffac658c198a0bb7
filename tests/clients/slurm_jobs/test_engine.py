"""Jobs of Slurm in the words of every engine, from what a real Slurm printed."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from fake_slurm import FakeSlurm, as_asked
from steward.clients.slurm.control import SlurmControl
from steward.clients.slurm.job_mark import JobMark
from steward.clients.slurm.program import SEPARATOR
from steward.clients.slurm_jobs.engine import SlurmJobs
from steward.clients.slurm_jobs.job_life import exit_status, life_of, story_of
from steward.clients.slurm_jobs.listed_job import listed_from_sacct, listed_from_squeue
from steward.clients.slurm_jobs.records import short_record
from steward.errors import StewardError

DATA = Path(__file__).parents[2] / "data" / "slurm-22.05"
LISTED = [
    job
    for line in as_asked((DATA / "squeue-listed.txt").read_bytes()).decode().splitlines()
    if (job := listed_from_squeue(line)) is not None
]
ACCOUNTED = [
    job
    for line in as_asked((DATA / "sacct-listed.txt").read_bytes()).decode().splitlines()
    if (job := listed_from_sacct(line, SEPARATOR)) is not None
]
JOBS = {job.id: job for job in LISTED}
USER = SlurmControl().user


class Bench:
    """A Slurm that lists what was recorded, and notes what it is told to do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fake = FakeSlurm(folder)
        self.fake.controller()
        self.fake.prints("squeue", (DATA / "squeue-listed.txt").read_bytes())
        self.fake.prints("sacct", (DATA / "sacct-listed.txt").read_bytes())
        self.fake.command("scancel", f'echo "scancel $*" >> {folder}/calls')
        slurm = SlurmControl(folder=f"{folder}:/bin:/usr/bin")
        self.jobs = SlurmJobs(slurm, save_within_s=0.2)

    def lists(self, id_: str) -> None:
        """List one job alone, as `squeue --jobs` does."""
        text = as_asked((DATA / "squeue-listed.txt").read_bytes()).decode()
        lines = text.splitlines(keepends=True)
        pairs = [(line, listed_from_squeue(line.rstrip("\n"))) for line in lines]
        found = [line for line, job in pairs if job is not None and id_ in (job.id, job.number)]
        (self.folder / "squeue.txt").write_text("".join(found))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


# -- reading -------------------------------------------------------------------------------------


def test_every_recorded_job_has_its_place_in_the_life_cycle() -> None:
    found = {id_: life_of(job)[0].value for id_, job in JOBS.items()}

    assert found == {
        "15": "held",
        "16": "running",
        "17": "submitted",
        "18_0": "running",
        "18_1": "cancelled",
        "18_2": "running",
        "18_[3-5%2]": "waiting",
        "21": "preempted",
        "22": "failed",
        "23": "running",
    }
    assert (JOBS["16"].gpus, JOBS["23"].nodes) == (2, ("n1", "n2", "n3"))
    assert exit_status(JOBS["22"]) == 137
    assert exit_status(JOBS["16"]) is None


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("BadConstraints", "it never starts"),
        ("QOSMaxGRESPerUser", "a limit of its account or QOS: QOSMaxGRESPerUser"),
        ("AssocGrpCpuLimit", "a limit of its account or QOS: AssocGrpCpuLimit"),
        ("MaxJobsPerAccount", "a limit of its account or QOS: MaxJobsPerAccount"),
        ("PartitionTimeLimit", "more time than its partition allows"),
        ("ReqNodeNotAvail, UnavailableNodes:n[1-2]", "down, drained or reserved"),
        ("SomethingNew", "SomethingNew"),
    ],
)
def test_why_a_job_waits_is_told_in_words(reason: str, words: str) -> None:
    waiting = replace(JOBS["15"], reason=reason)

    assert words in life_of(waiting)[1]


def test_accounting_knows_the_token_of_what_was_submitted() -> None:
    tokens = {job.id: job.mark.token for job in ACCOUNTED}

    assert tokens["16"] == JOBS["16"].mark.token
    assert {job.id: exit_status(job) for job in ACCOUNTED}["11_3"] == 3


def test_what_is_no_job_is_not_listed() -> None:
    assert listed_from_squeue("squeue: error: nothing") is None
    assert listed_from_sacct("12|12|x", "|") is None


def test_a_number_that_was_given_again_is_another_job() -> None:
    line = next(job for job in ACCOUNTED if job.id == "21")  # its run before the requeue
    job = JOBS["21"]

    requeued = [state.value for _, state, _ in story_of(job, [line])]
    older = replace(line, state="COMPLETED")
    other = [state.value for _, state, _ in story_of(job, [older])]

    assert requeued == ["submitted", "running", "preempted"]
    assert other == ["submitted", "preempted"]


# -- showing -------------------------------------------------------------------------------------


def test_the_list_has_open_jobs_and_with_all_also_those_of_accounting(bench: Bench) -> None:
    everything = bench.jobs.listed(ended=True, limit=100)
    newest = bench.jobs.listed(ended=True, limit=1)

    ids = [each["id"] for each in everything]
    assert {"15", "18_[3-5%2]", "10", "11_3"} <= {*ids}
    assert len(ids) == len({*ids})
    assert [each["id"] for each in newest] == ["21"]  # submitted again by its requeue


def test_a_running_job_shows_its_gpus_and_its_log(bench: Bench) -> None:
    bench.lists("16")
    bench.fake.command(
        "scontrol",
        f"[ $1 != ping ] || echo 'Slurmctld is UP'; [ $1 = ping ] || cat {DATA}/scontrol-job.txt",
    )

    found = bench.jobs.show("16")

    assert found["gpus"] == ["n1/gpu0", "n1/gpu1"]
    assert found["log"] == "/work/ada/slurm-16.out"
    assert found["command"] == ["sleep"]
    assert found["job_folder"] == "/work/ada/.steward-root/746f87eb43f99bbe"
    assert json.dumps(found)


def test_an_array_is_over_when_all_its_tasks_are(bench: Bench) -> None:
    bench.lists("18")

    found = bench.jobs.show("18")

    assert (found["state"], found["exit_code"]) == ("mixed", None)
    assert bench.jobs.status("18") is None


def test_tasks_that_slurm_has_forgotten_come_from_accounting(bench: Bench) -> None:
    bench.fake.prints("squeue", b"")

    assert bench.jobs.status("11") == 3


def test_a_task_that_accounting_still_calls_as_its_array_is_listed_once(bench: Bench) -> None:
    bench.lists("18")
    line = (DATA / "sacct-listed.txt").read_text().splitlines()[-1].split("\x1f")
    bench.fake.prints("sacct", "\x1f".join(["20", "18", *line[2:]]).encode())  # raw 20 is 18_1

    ids = [each["id"] for each in bench.jobs.show("18")["tasks"]]

    assert ids == ["18_0", "18_1", "18_2", "18_[3-5%2]"]


def test_an_old_array_with_the_number_of_a_newer_job_is_left_out(bench: Bench) -> None:
    bench.fake.prints("squeue", b"")
    lines = (DATA / "sacct-listed.txt").read_text().splitlines()
    newer = next(line for line in lines if line.startswith("22\x1f")).split("\x1f")
    reused = "\x1f".join(["11", "11", *newer[2:]])
    bench.fake.prints("sacct", "\n".join([*lines, reused]).encode())

    found = bench.jobs.show("11")

    assert ("tasks" in found, found["name"]) == (False, "sig")


def test_a_job_that_nobody_knows_is_an_error(bench: Bench) -> None:
    bench.fake.command(
        "squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"
    )

    with pytest.raises(StewardError, match="Slurm has no such job"):
        bench.jobs.show("4711")


def test_a_job_that_waits_says_why(bench: Bench) -> None:
    bench.lists("17")

    found = bench.jobs.why("17")

    assert found["summary"] == "submitted: it waits for other jobs"
    assert "depends on afterok:16(unfulfilled)" in found["limits"]


# -- changing ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "id_", "body", "commands"),
    [
        ("cancel", "16", {}, ["scancel 16"]),
        ("hold", "17", {}, ["scontrol uhold 17"]),
        ("release", "15", {}, ["scontrol release 15"]),
        ("preempt", "16", {"force": True}, ["scontrol requeue Incomplete 16"]),
        ("resume", "21", {}, ["scontrol update JobId=21 StartTime=now"]),
        ("move", "23", {"to": 2}, ["scontrol update JobId=23 NodeList=n1,n2"]),
        ("move", "23", {"to": ["n1", "n3"]}, ["scontrol update JobId=23 NodeList=n1,n3"]),
        ("extend", "16", {"time": "+1:00:00"}, ["scontrol update JobId=16 TimeLimit=+01:00:00"]),
        ("extend", "17", {"time": "90s"}, ["scontrol update JobId=17 TimeLimit=00:01:30"]),
        ("extend", "17", {"time": "UNLIMITED"}, ["scontrol update JobId=17 TimeLimit=UNLIMITED"]),
        ("cancel", "18", {}, ["scancel 18_0", "scancel 18_2", "scancel '18_[3-5]'"]),
    ],
)
def test_a_change_is_a_command_of_slurms(
    bench: Bench, what: str, id_: str, body: dict[str, object], commands: list[str]
) -> None:
    bench.lists(id_)

    assert [shlex.join(each) for each in bench.jobs.commands(what, id_, body)] == commands


@pytest.mark.parametrize(
    ("what", "id_", "body", "problem"),
    [
        ("cancel", "22", {}, "it is over"),
        ("hold", "16", {}, "does not wait"),
        ("release", "16", {}, "not held"),
        ("save", "16", {}, "has not said that it can save"),
        ("save", "17", {}, "not running"),
        ("preempt", "16", {}, "has not said that it can save"),
        ("preempt", "17", {}, "not running"),
        ("resume", "16", {}, "does not wait"),
        ("resume", "15", {}, "held by its owner"),
        ("move", "23", {"to": 3}, "no smaller number"),
        ("move", "23", {"to": ["n2"]}, "batch script runs on n1"),
        ("move", "23", {"to": ["gpu1"]}, "does not run on gpu1"),
        ("move", "17", {"to": 1}, "not running"),
        ("extend", "16", {"time": "5"}, "would end it now"),
        ("extend", "16", {"time": "+UNLIMITED"}, "is no time"),
        ("extend", "16", {"time": "long"}, "'long' is no time"),
        ("extend", "22", {"time": "5"}, "it is over"),
    ],
)
def test_what_slurm_cannot_do_is_refused_with_the_reason(
    bench: Bench, what: str, id_: str, body: dict[str, object], problem: str
) -> None:
    bench.lists(id_)

    with pytest.raises(StewardError, match=problem):
        bench.jobs.change(what, id_, body)
    assert bench.fake.calls() == []


def saving(bench: Bench, folder: Path, answer: dict[str, object], *, user: str = USER) -> None:
    """Let job 16 of a user run in this folder, and answer a signal to its shell."""
    files = folder / f".steward-{user}" / JOBS["16"].mark.token
    files.mkdir(parents=True)
    (files / "can_save.json").write_text('{"can": true}')
    (files / "next.json").write_text(json.dumps(answer))
    lines = (DATA / "squeue-listed.txt").read_bytes().splitlines(keepends=True)
    line = next(each for each in lines if each.startswith(b"16 "))
    cells = line.split(b"\x1f")
    cells[-3], cells[4] = str(folder).encode(), user.encode()
    bench.fake.prints("squeue", b"\x1f".join(cells))
    bench.fake.command(
        "scancel",
        f'echo "scancel $*" >> {bench.folder}/calls; mv {files}/next.json {files}/answer.json',
    )


def test_a_job_is_saved_before_it_is_requeued(bench: Bench, tmp_path: Path) -> None:
    saving(bench, tmp_path / "ada", {"id": "usr2-1", "result": "saved", "step": 12})

    (done,) = bench.jobs.change("preempt", "16", {})

    assert (done["state"], "saved at step 12" in done["why"]) == ("preempted", True)
    assert bench.fake.calls() == ["scancel --batch --signal=USR2 16", "requeue Incomplete 16"]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"id": "usr2-1", "result": "failed", "why": "disk full"}, "could not save: disk full"),
        ({}, "did not save within"),
    ],
)
def test_a_job_whose_save_fails_is_not_requeued(
    bench: Bench, tmp_path: Path, answer: dict[str, object], problem: str
) -> None:
    saving(bench, tmp_path / "ada", answer)

    with pytest.raises(StewardError, match=problem):
        bench.jobs.change("preempt", "16", {})
    assert bench.fake.calls() == ["scancel --batch --signal=USR2 16"]


def test_a_refusal_of_slurms_names_the_owner(bench: Bench, tmp_path: Path) -> None:
    bench.lists("16")
    text = (bench.folder / "squeue.txt").read_bytes().replace(b"root ", b"ada  ", 1)
    bench.fake.prints("squeue", text)
    bench.fake.command("scancel", "echo 'scancel: error: Access/permission denied' >&2; exit 210")

    with pytest.raises(StewardError, match="denied") as refused:
        bench.jobs.change("cancel", "16", {})
    assert "only ada and operators" in refused.value.hint


def test_an_owner_who_may_not_lengthen_a_running_job_learns_what_an_operator_types(
    bench: Bench,
) -> None:
    user = SlurmControl().user
    bench.lists("16")
    text = (bench.folder / "squeue.txt").read_bytes().replace(b"root ", f"{user} ".encode(), 1)
    bench.fake.prints("squeue", text)
    bench.fake.command(
        "scontrol",
        "[ $1 = ping ] && echo 'Slurmctld(primary) at bed is UP' && exit\n"
        "echo 'Access/permission denied for job 16' >&2; exit 1",
    )

    with pytest.raises(StewardError, match="denied") as refused:
        bench.jobs.change("extend", "16", {"time": "+60"})
    assert "scontrol update JobId=16 TimeLimit=+01:00:00" in refused.value.hint


# -- logs ----------------------------------------------------------------------------------------


def test_the_log_of_a_forgotten_job_is_where_its_shell_noted_it(
    bench: Bench, tmp_path: Path
) -> None:
    saving(bench, tmp_path / "ada", {})
    files = tmp_path / "ada" / f".steward-{USER}" / JOBS["16"].mark.token
    (files / "output").write_text(f"{tmp_path}/log.txt\n")
    (tmp_path / "log.txt").write_text("hello\n")

    log = bench.jobs.log("16")

    assert (log.read().text, log.read().text) == ("hello\n", "")


def test_a_log_that_is_not_the_owners_is_read_by_nobody_else(bench: Bench, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of whoever types\n")
    (tmp_path / "log.txt").symlink_to(secret)
    saving(bench, tmp_path / "ada", {}, user="games")
    shown = f"echo '   StdOut={tmp_path}/log.txt'"
    bench.fake.command(
        "scontrol", f"[ $1 != ping ] || echo 'Slurmctld is UP'; [ $1 = ping ] || {shown}"
    )

    with pytest.raises(StewardError, match="does not belong to games"):
        bench.jobs.log("16").read()


def test_a_log_that_is_a_pipe_is_not_waited_for(bench: Bench, tmp_path: Path) -> None:
    saving(bench, tmp_path / "ada", {})
    files = tmp_path / "ada" / f".steward-{USER}" / JOBS["16"].mark.token
    (files / "output").write_text(f"{tmp_path}/pipe\n")
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(StewardError, match="cannot be read"):
        bench.jobs.log("16").read()


@pytest.mark.parametrize("what", ["link", "pipe", "endless", "deep", "somebody else's folder"])
def test_files_that_a_job_cannot_have_written_say_nothing(
    bench: Bench, tmp_path: Path, what: str
) -> None:
    folder = tmp_path / "ada"
    saving(bench, folder, {}, user="games" if what == "somebody else's folder" else USER)
    (files,) = folder.glob(".steward-*/*")
    able = files / "can_save.json"
    (files / "next.json").write_text('{"can": true}')
    if what != "somebody else's folder":
        able.unlink()
    match what:
        case "link":
            able.symlink_to(files / "next.json")
        case "pipe":
            os.mkfifo(able)
        case "endless":
            able.symlink_to("/dev/zero")
        case "deep":
            able.write_text("[" * 200_000)

    found = bench.jobs.show("16")

    assert found["can_save"] is None


@pytest.mark.parametrize("token", ["../../bob/.steward-bob/x", "/etc", "..", "a/b", "x" * 300])
def test_a_token_that_is_no_name_of_a_folder_is_none(token: str) -> None:
    mark = JobMark.read(f"steward:job={token}")

    assert (mark.token, mark.rest) == ("", f"steward:job={token}")


def test_a_name_moves_no_cursor(bench: Bench) -> None:
    hostile = replace(JOBS["16"], name="train\x1b[2J\r\nroot")

    assert short_record(hostile)["name"] == "train?[2J??root"


@pytest.mark.parametrize("what", ["show", "cancel"])
def test_a_step_of_somebody_else_is_not_looked_into(
    bench: Bench, tmp_path: Path, what: str
) -> None:
    saving(bench, tmp_path / "ada", {}, user="games")
    (top,) = (tmp_path / "ada").glob(".steward-*")
    (top / "step-16.1").mkdir()
    (top / "step-16.1" / "cancelled").symlink_to(tmp_path / "made by whoever cancels")

    with pytest.raises(StewardError, match="belongs to games"):
        bench.jobs.show("16.1") if what == "show" else bench.jobs.change("cancel", "16.1", {})

    assert not (tmp_path / "made by whoever cancels").exists()
