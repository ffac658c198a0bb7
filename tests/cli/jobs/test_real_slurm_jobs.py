"""`steward jobs --engine slurm` on a real Slurm, as people use it."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from beds.slurm import SlurmBed, slurm_bed
from patience import LONG_S, until
from steward.clients.slurm.control import SlurmControl
from steward.clients.slurm_jobs.engine import SlurmJobs
from steward.clients.slurm_jobs.sbatch_options import draft_of
from steward.errors import StewardError, TemporaryError
from told import Answer, steward

pytestmark = pytest.mark.real

OWNER, OTHER = "games", "news"  # accounts that every Debian has
TRAINING = Path(__file__).parents[2] / "training" / "random_walk.py"
SOURCE = Path(__file__).parents[3] / "src"


@pytest.fixture(scope="module")
def shared_bed() -> Iterator[SlurmBed]:
    folder = Path(tempfile.mkdtemp(prefix="steward-slurm-jobs-"))
    folder.chmod(0o755)
    try:
        with slurm_bed(folder) as running:
            for user in (OWNER, OTHER):
                running.run("sacctmgr", "-i", "add", "user", user, "account=bio")
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def bed(shared_bed: SlurmBed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlurmBed:
    shared_bed.calm()
    monkeypatch.chdir(tmp_path)
    return shared_bed


def jobs(bed: SlurmBed, *args: object) -> Answer:
    """Run a command on this Slurm, which the configuration chooses."""
    config = bed.folder / "steward.toml"
    if not config.exists():
        config.write_text(
            f"[jobs]\nengine = 'slurm'\n[plugs.slurm]\nconf = '{bed.env['SLURM_CONF']}'\n"
        )
    what, *rest = args
    return steward("jobs", what, "--config", config, *rest)


def submit(bed: SlurmBed, *args: object) -> str:
    made = jobs(bed, "submit", "-A", "bio", *args)
    assert made.code == 0, made.err
    return made.out.strip()


def shown(bed: SlurmBed, job: str) -> dict[str, Any]:
    answer = jobs(bed, "show", job, "--json")
    assert answer.code == 0, answer.err
    found: dict[str, Any] = answer.json
    return found


def wait_state(bed: SlurmBed, job: str, *states: str) -> dict[str, Any]:
    def there() -> dict[str, Any] | None:
        found = shown(bed, job)
        return found if found["state"] in states else None

    found = until(there, why=f"{states} of {job}")
    assert found is not None
    return found


@contextmanager
def acting_as(user: str) -> Iterator[None]:
    os.seteuid(pwd.getpwnam(user).pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)


# -- submitting ------------------------------------------------------------------------------------


def test_an_unchanged_script_runs_as_with_sbatch(bed: SlurmBed, tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text(
        "#!/bin/bash\n#SBATCH --job-name=night --output=%x-%j.log --wait\n"
        'echo "$SLURM_JOB_NAME got $# arguments, the last: ${@: -1}"\n'
        'echo "time format: ${SLURM_TIME_FORMAT:-none}"\n'
        'scontrol show job "$SLURM_JOB_ID" | grep -o "Requeue=1"\nexit 7\n'
    )

    made = jobs(bed, "submit", "-A", "bio", script, "one", "two words")
    id_ = made.out.strip()
    log = jobs(bed, "logs", id_)
    found = shown(bed, id_)

    assert made.code == 7  # the script asks to wait, and so its status is that of the command
    assert log.out == "night got 2 arguments, the last: two words\ntime format: none\nRequeue=1\n"
    assert (tmp_path / f"night-{id_}.log").read_text() == log.out
    assert (found["name"], found["state"], found["exit_code"]) == ("night", "failed", 7)
    assert found["command"] == ["train.sh", "one", "two", "words"]
    assert [each["state"] for each in found["events"]] == ["submitted", "running", "failed"]
    assert id_ in [each["id"] for each in jobs(bed, "list", "--all", "--json").json]


def test_an_array_ends_with_the_greatest_status_of_its_tasks(bed: SlurmBed) -> None:
    command = (
        "--array=0-3%2",
        "--",
        "bash",
        "-c",
        "echo task $STEWARD_ARRAY_TASK_ID; exit $SLURM_ARRAY_TASK_ID",
    )

    id_ = submit(bed, *command)
    code = jobs(bed, "wait", id_).code

    assert code == 3
    assert [each["id"] for each in shown(bed, id_)["tasks"]] == [f"{id_}_{n}" for n in range(4)]
    assert jobs(bed, "logs", f"{id_}_2").out == "task 2\n"
    assert "name one of its tasks" in jobs(bed, "logs", id_).err


def test_a_held_job_is_released_and_another_waits_for_it(bed: SlurmBed) -> None:
    first = submit(bed, "--hold", "--gpus=2", "--", "sleep", "600")
    second = submit(bed, f"--dependency=afterany:{first}", "--", "true")

    held, waiting = shown(bed, first), wait_state(bed, second, "submitted")
    released = jobs(bed, "release", first)
    running = wait_state(bed, first, "running")
    again = jobs(bed, "release", first)
    cancelled = jobs(bed, "cancel", first)

    assert (held["state"], held["asks_for"]) == ("held", 2)
    assert waiting["why"] == "it waits for other jobs"
    assert (released.code, cancelled.code) == (0, 0), released.err + cancelled.err
    assert [gpu.partition("/gpu")[0] for gpu in running["gpus"]] == running["nodes"] * 2
    assert (again.code, "not held" in again.err) == (2, True)
    assert jobs(bed, "wait", second).code == 0
    # TERM, or the KILL that follows on this bed after a second
    assert wait_state(bed, first, "cancelled")["exit_code"] in (128 + 15, 128 + 9)


def test_the_printed_filter_tells_who_submits_gpu_jobs_by_sbatch(bed: SlurmBed) -> None:
    made = steward("slurm", "setup", "--slurm-version", "22.05", "--json").json
    line = made["optional_lines"][0]["line"]
    conf = bed.folder / "with-filter.conf"
    conf.write_text((bed.folder / "slurm.conf").read_text() + f"{line}\n")
    (bed.folder / "cli_filter.lua").write_text(made["cli_filter"])

    def said(*options: str) -> str:
        command = ["sbatch", "-A", "bio", "-o", "/dev/null", *options, "--wrap", "true"]
        env = {**bed.env, "SLURM_CONF": str(conf)}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        return done.stderr

    assert "steward jobs submit --engine slurm" in said("--gres=gpu:1")
    assert "steward jobs submit --engine slurm" in said("--gpus-per-node=1")
    assert said() == said("--gpus=1", "--comment=steward:saves=60") == ""


# -- saving ----------------------------------------------------------------------------------------


TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1")
NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")


@pytest.mark.parametrize(
    "start",
    [
        pytest.param((), id="python"),
        pytest.param(("srun", "--overlap"), id="srun"),
        # What a container is to signals: its processes are in a namespace of their own.
        pytest.param(NAMESPACES, id="container"),
        pytest.param(
            (*TORCHRUN, "--no-python"),
            id="torchrun",  # USR2 would end it
            marks=pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed"),
        ),
    ],
)
def test_a_training_is_saved_preempted_and_goes_on_where_it_was(
    bed: SlurmBed, tmp_path: Path, start: tuple[str, ...]
) -> None:
    steps = 400
    training = (sys.executable, str(TRAINING), str(steps), "1", "8")
    plain = {**os.environ, "PYTHONPATH": str(SOURCE)}
    whole = subprocess.run(training, env=plain, capture_output=True, text=True, check=True)
    shell = " ".join([*start, *training, "0.05"])
    script = tmp_path / "train.sh"
    script.write_text(f"#!/bin/bash\n#SBATCH --time=20\nexport PYTHONPATH={SOURCE}\n{shell}\n")

    id_ = submit(bed, script)
    until(lambda: shown(bed, id_)["can_save"], why="a training that can save")
    saved = jobs(bed, "save", id_)
    marked = until(
        lambda: "steward:saves=60" in bed.run("squeue", "-h", "-j", id_, "-o", "%k"), why="a mark"
    )
    stopped = jobs(bed, "preempt", id_)
    resumed = jobs(bed, "resume", id_)
    again = wait_state(bed, id_, "resumed", "finished")
    code = jobs(bed, "wait", id_).code

    assert "saved at step" in saved.out, saved.err
    assert marked
    assert (stopped.code, "preempted (saved at step" in stopped.out) == (0, True), stopped.err
    assert resumed.code == 0, resumed.err
    assert again["checkpoints"]
    assert code == 0
    log = jobs(bed, "logs", id_).out
    assert whole.stdout.strip() in log.split()  # bit for bit what it learns undisturbed
    states = [each["state"] for each in shown(bed, id_)["events"]]
    assert states == ["submitted", "running", "preempted", "resumed", "finished"]


def test_a_training_that_finds_no_room_to_save_goes_on_and_is_stopped_when_there_is(
    bed: SlurmBed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "small"
    place.mkdir()
    options = ["-t", "tmpfs", "-o", "size=512k", "tmpfs"]
    if subprocess.run(["mount", *options, str(place)], check=False).returncode:
        pytest.skip("nothing may be mounted here")
    try:
        monkeypatch.chdir(place)
        script = place / "train.sh"
        training = f"{sys.executable} {TRAINING} 9000 1 8"
        script.write_text(
            f"#!/bin/bash\n#SBATCH --time=20\nexport PYTHONPATH={SOURCE}\n{training} 0.1\n"
        )
        id_ = submit(bed, script)
        until(lambda: shown(bed, id_)["can_save"], why="a training that can save")
        fill(place / "full")
        hurried = SlurmJobs(
            SlurmControl(conf=bed.env["SLURM_CONF"], timeout_s=LONG_S), save_within_s=5.0
        )
        with pytest.raises(StewardError, match="did not save within 5 s, and goes on"):
            hurried.change("preempt", id_, {})
        state = bed.state_of(id_)
        (place / "full").unlink()
        stopped = jobs(bed, "preempt", id_)
        resumed = jobs(bed, "resume", id_)
        again = wait_state(bed, id_, "resumed")
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)

    assert state == "RUNNING"
    assert (stopped.code, resumed.code) == (0, 0), stopped.err
    assert again["checkpoints"]


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 512)
        except OSError:
            return


@pytest.mark.parametrize("how", [(), ("--as-is",)], ids=["wrapped", "as it is"])
def test_the_log_of_a_requeued_job_keeps_its_beginning(
    bed: SlurmBed, tmp_path: Path, how: tuple[str, ...]
) -> None:
    script = tmp_path / "long.sh"
    script.write_text(
        '#!/bin/bash\n#SBATCH --requeue\necho "run ${SLURM_RESTART_COUNT:-0}"\nsleep 600\n'
    )
    id_ = submit(bed, *how, script)
    until(lambda: jobs(bed, "logs", id_).out == "run 0\n", why="its first run")

    forced = jobs(bed, "preempt", "--force", id_)
    resumed = jobs(bed, "resume", id_)
    until(lambda: "run 1" in jobs(bed, "logs", id_).out, why="its second run")

    assert (forced.code, resumed.code) == (0, 0), forced.err + resumed.err
    lines = jobs(bed, "logs", id_).out.splitlines()
    assert [line for line in lines if line.startswith("run ")] == ["run 0", "run 1"]
    jobs(bed, "cancel", id_)


def test_a_job_that_ends_in_the_moment_in_which_it_is_requeued_runs_once(
    bed: SlurmBed, tmp_path: Path
) -> None:
    script = "echo begin >> ran; echo $PPID > shell; until [ -e go ]; do sleep 0.1; done"
    id_ = submit(bed, "--", "bash", "-c", script)
    shell = int(until(lambda: (tmp_path / "shell").exists() and (tmp_path / "shell").read_text()))
    step = int(Path(f"/proc/{shell}/stat").read_text().rpartition(") ")[2].split()[1])

    os.kill(step, signal.SIGSTOP)  # it cannot tell the controller that the script has ended
    try:
        (tmp_path / "go").touch()
        until(lambda: is_over(shell), why="the end of its script")
        bed.run("scontrol", "requeue", "Incomplete", id_)
    finally:
        os.kill(step, signal.SIGCONT)
    until(lambda: bed.state_of(id_) == "PENDING", why="its requeue: Slurm has not known of the end")
    bed.run("scontrol", "update", f"JobId={id_}", "StartTime=now+5")  # not in two minutes
    wait_state(bed, id_, "finished")

    assert (tmp_path / "ran").read_text() == "begin\n"
    assert "had ended with status 0 when it was requeued" in jobs(bed, "logs", id_).out


def is_over(pid: int) -> bool:
    """Return whether a process is gone, or only waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "Z"
    except FileNotFoundError:
        return True


def test_a_job_that_cannot_save_is_left_alone_unless_forced(bed: SlurmBed) -> None:
    id_ = submit(bed, "--", "sleep", "600")
    wait_state(bed, id_, "running")

    refused = jobs(bed, "preempt", id_)
    still = shown(bed, id_)
    planned = jobs(bed, "preempt", "--force", "--dry-run", id_)
    forced = jobs(bed, "preempt", "--force", id_)

    assert (refused.code, "has not said that it can save" in refused.err) == (2, True)
    assert still["state"] == "running"
    assert planned.out == f"scontrol requeue Incomplete {id_}\n"
    assert forced.code == 0, forced.err
    wait_state(bed, id_, "preempted", "resumed")


def test_signals_reach_a_script_as_they_would_without_steward(bed: SlurmBed) -> None:
    handlers = "trap 'echo got USR1' USR1; trap 'echo ends; exit 5' TERM; echo ready"
    stay = "while :; do sleep 0.1; done"
    id_ = submit(bed, "--", "bash", "-c", f"{handlers}; {stay}")
    until(lambda: "ready" in jobs(bed, "logs", id_).out, why="its output")

    bed.run("scancel", "--batch", "--signal=USR2", id_)  # without a trap it would end the script
    bed.run("scancel", "--batch", "--signal=USR1", id_)
    until(lambda: "got USR1" in jobs(bed, "logs", id_).out, why="the signal")
    bed.run("scancel", "--full", "--signal=USR1", id_)
    until(lambda: jobs(bed, "logs", id_).out.count("got USR1") == 2, why="the second signal")
    bed.run("scancel", id_)
    wait_state(bed, id_, "cancelled")

    lines = [line for line in jobs(bed, "logs", id_).out.splitlines() if line in _SAID]
    assert lines == ["ready", "got USR1", "got USR1", "ends"]


_SAID = ("ready", "got USR1", "ends")


def test_a_job_gives_up_a_node_and_is_not_moved(bed: SlurmBed) -> None:
    id_ = submit(bed, "-N", "3", "--", "sleep", "600")
    nodes = wait_state(bed, id_, "running")["nodes"]

    smaller = jobs(bed, "move", id_, "--to", "2")
    elsewhere = jobs(bed, "move", id_, "--to", "n9")

    assert smaller.code == 0, smaller.err
    assert shown(bed, id_)["nodes"] == nodes[:2]
    assert (elsewhere.code, "Slurm moves no running job" in elsewhere.err) == (2, True)


def test_a_running_job_is_shortened_by_its_owner_and_lengthened_by_an_operator(
    bed: SlurmBed,
) -> None:
    command = ["sbatch", "--parsable", "-A", "bio", "-t", "60", "-D", "/tmp", "-o", "/dev/null"]
    made = subprocess.run(
        [*command, "--wrap", "sleep 600"],
        env=bed.env,
        user=OWNER,
        group=pwd.getpwnam(OWNER).pw_gid,
        capture_output=True,
        text=True,
        check=True,
    )
    id_ = made.stdout.strip()
    wait_state(bed, id_, "running")

    with acting_as(OWNER):
        shorter = jobs(bed, "extend", id_, "--time", "30")
        refused = jobs(bed, "extend", id_, "--time", "+30")
    shown_limit = bed.run("squeue", "--noheader", f"--jobs={id_}", "--format=%l")
    longer = jobs(bed, "extend", id_, "--time", "+1:00:00")

    assert (shorter.code, refused.code, longer.code) == (0, 2, 0), shorter.err + longer.err
    assert shown_limit == "30:00"
    assert (
        f"an operator of Slurm may let a running job run longer: scontrol update JobId={id_}"
        in (refused.err.replace("\n       ", " "))
    )
    assert bed.run("squeue", "--noheader", f"--jobs={id_}", "--format=%l") == "1:30:00"


# -- faults ----------------------------------------------------------------------------------------


def test_wrong_input_is_refused_in_words(bed: SlurmBed) -> None:
    answers = [
        jobs(bed, "submit", "-A", "bio", "-p", "nowhere", "--", "true"),
        jobs(bed, "submit", "--slots", "2", "--max-slowdown", "5%", "--", "true"),
        jobs(bed, "show", "99999999"),
        jobs(bed, "cancel", "99999999"),
    ]

    assert [each.code for each in answers] == [2] * 4
    assert "partition" in answers[0].err
    assert "Slurm counts CPUs" in answers[1].err
    assert "power limits" in answers[1].err
    assert all("Slurm has no such job" in each.err for each in answers[2:])


@pytest.mark.parametrize("asked", [("--gpus", "1000"), ("--gpus", "-1")])
def test_what_no_node_can_ever_run_is_refused_as_by_sbatch(
    bed: SlurmBed, asked: tuple[str, str]
) -> None:
    answer = jobs(bed, "submit", "-A", "bio", *asked, "--", "true")

    assert (answer.code, answer.out) == (2, "")
    assert "Requested node configuration is not available" in answer.err
    assert "sinfo" in answer.err
    until(lambda: not bed.run("squeue", "--noheader"), why="its end")


def test_a_job_waits_for_nodes_that_are_only_drained(bed: SlurmBed) -> None:
    every = f"NodeName={','.join(bed.nodes)}"
    bed.run("scontrol", "update", every, "State=DRAIN", "Reason=a test")
    try:
        id_ = submit(bed, "--gpus", "1", "--", "true")
        waits = shown(bed, id_)["state"]
    finally:
        bed.run("scontrol", "update", every, "State=RESUME")

    assert waits == "waiting"
    assert jobs(bed, "wait", id_).code == 0


def test_the_job_of_another_user_is_refused(bed: SlurmBed) -> None:
    id_ = submit(bed, "--", "sleep", "600")
    wait_state(bed, id_, "running")

    with acting_as(OTHER):
        refused = [jobs(bed, what, id_) for what in ("cancel", "save")]
        seen = jobs(bed, "list", "--json").json

    assert [each.code for each in refused] == [2, 2]
    assert "only root and operators of Slurm" in refused[0].err
    assert [each["id"] for each in seen] == [id_]
    assert shown(bed, id_)["state"] == "running"


def test_of_a_submission_over_a_hung_controller_there_is_one_job(bed: SlurmBed) -> None:
    given = {"token": f"hung-{os.getpid()}", "account": "bio", "output": "/dev/null"}
    draft = draft_of(["sleep", "600"], given, script="")
    slurm = SlurmControl(conf=bed.env["SLURM_CONF"], timeout_s=LONG_S)
    folder = Path(tempfile.mkdtemp(dir=bed.folder))
    (folder / draft.file).write_text(draft.text)
    slurm.check_answers()
    controller = bed.daemons["slurmctld"]

    controller.send_signal(signal.SIGSTOP)
    later = threading.Timer(5.0, controller.send_signal, [signal.SIGCONT])
    try:
        with pytest.raises(TemporaryError):  # sbatch has failed, and the job will exist
            slurm.change(draft.submission(folder).command)
        later.start()
        made = SlurmJobs(slurm).submit(draft)
    finally:
        later.cancel()
        controller.send_signal(signal.SIGCONT)

    again = SlurmJobs(slurm).submit(draft)
    kept = [each.id for each in slurm.with_token(given["token"]) if not each.ended]
    assert again["id"] == made["id"]
    assert kept == [made["id"]]
    wait_state(bed, made["id"], "running")
