"""GPUs of a running job are lent to a waiting one of the same user, on a real Slurm, and back."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from beds.slurm import SlurmBed, slurm_bed
from factories import believing, decision, finding, gpu_row, samples
from fake_libcuda import FakeLibcuda
from patience import LONG_S, until
from steward.act.actuators.slurm import Slurm as SlurmEngine
from steward.decide.scheduling.give_back import GiveBack
from steward.decide.scheduling.lend_idle import LendIdle
from steward.model.actions import CallBack, Lend
from steward.model.cluster import GIB
from steward.model.decision import Decision, Receipt
from steward.model.event import Observation
from steward.model.identity import GpuId, JobId
from steward.model.job import JobState
from steward.model.metrics import aliases_from
from steward.model.moment import Moment
from steward.observe.collectors.slurm import Slurm as SlurmCollector
from told import steward

pytestmark = pytest.mark.real

STAY = "for each in $(seq 3600); do sleep 1; done"
OTHER = "news"  # an account that every Debian has
# It can save, and goes on from what it has saved; each line of its log is one thing that it did.
TRAINING = """\
import json, os, pathlib, time
folder = pathlib.Path(os.environ["STEWARD_JOB_FOLDER"])
kept = folder / "step"
step = int(kept.read_text()) if kept.exists() else 0
print("begins at", step, "on", os.environ["CUDA_VISIBLE_DEVICES"], os.environ["MINE"], flush=True)
(folder / "can_save.json").write_text(json.dumps({"can": True}))
last = None
while not (folder / "finish").exists():
    time.sleep(0.1)
    step += 1
    draft = folder / "progress.tmp"
    draft.write_text(json.dumps({"step": step, "written_s": time.time()}))
    draft.rename(folder / "progress.json")
    request = folder / "request.json"
    asked = json.loads(request.read_text())["id"] if request.exists() else None
    if asked != last:
        last = asked
        kept.write_text(str(step))
        answer = folder / "answer.tmp"
        answer.write_text(json.dumps({"id": asked, "result": "saved", "step": step}))
        answer.rename(folder / "answer.json")
        print("saved", flush=True)
raise SystemExit(7)
"""
_numbers = count(1)


@pytest.fixture(scope="module")
def shared_bed() -> Iterator[SlurmBed]:
    folder = Path(tempfile.mkdtemp(prefix="steward-lending-"))
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
    monkeypatch.setenv("MINE", "kept")
    return shared_bed


@pytest.fixture
def owner(bed: SlurmBed) -> str:
    """Return a job that holds all GPUs of one node, beside one that holds the other node."""
    for node in ("n2", "n1"):
        how = ("-A", "bio", "--gres=gpu:a100:8", "--exclusive", "--time=60", "-w", node)
        id_ = bed.submit(STAY, *how)
        bed.wait_for(lambda id_=id_: bed.state_of(id_) == "RUNNING", why="a full cluster")
    return id_


def submit(bed: SlurmBed, *options: str, script: str = TRAINING) -> str:
    """Submit a job that may run inside another, and return its id."""
    config = bed.folder / "steward.toml"
    config.write_text(
        f"[jobs]\nengine = 'slurm'\n[plugs.slurm]\nconf = '{bed.env['SLURM_CONF']}'\n"
    )
    Path("train.py").write_text(script)
    memory = () if "--gpu-memory" in options else ("--gpu-memory", "8G")
    what = ("-A", "bio", "--gpus", "1", "--inside", "idle", *memory, *options)
    made = steward("jobs", "submit", "--config", config, *what, "--", "python3", "train.py")
    assert made.code == 0, made.err
    return made.out.strip()


def engine(bed: SlurmBed) -> SlurmEngine:
    return SlurmEngine(conf=bed.env["SLURM_CONF"], timeout_s=LONG_S, settle_s=0.0)


def loan(owner: str, borrower: str, *gpus: int) -> Decision:
    action = Lend(
        gpus=tuple(GpuId(f"n1/gpu{each}") for each in gpus),
        owner=JobId(owner),
        borrower=JobId(borrower),
    )
    return decision(f"d-lend{next(_numbers)}", action=action, t_s=time.time())


def back(made: Decision) -> Decision:
    action = made.action
    assert isinstance(action, Lend)
    why = CallBack(loan=made.id, gpus=action.gpus, owner=action.owner, borrower=action.borrower)
    return decision(f"d-back{next(_numbers)}", action=why, t_s=time.time())


def carried_out(slurm: SlurmEngine, what: Decision) -> Receipt:
    def step() -> Receipt | None:
        said = slurm.progress(what, time.time())
        return None if said.result == "begun" else said

    return until(step, why=f"the end of {what.action.sentence}")


def folder_of(job: str, bed: SlurmBed) -> Path:
    token = bed.run("squeue", "--noheader", f"--jobs={job}", "--format=%k")
    name = token.partition("steward:job=")[2].partition(" ")[0]
    return Path.cwd() / ".steward-root" / name


def log_of(bed: SlurmBed, job: str) -> str:
    return steward("jobs", "logs", "--config", bed.folder / "steward.toml", job).out


def steps(bed: SlurmBed) -> str:
    return bed.run("squeue", "--noheader", "--steps", "--format=%j")


def reason_of(bed: SlurmBed, job: str) -> str:
    return bed.run("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%r")


def test_a_job_runs_on_lent_gpus_saves_when_called_back_and_goes_on_by_itself(
    bed: SlurmBed, owner: str
) -> None:
    borrower = submit(bed)
    slurm, made = engine(bed), loan(owner, borrower, 3)

    lent = carried_out(slurm, made)
    until(lambda: "steward:saves=60" in comment(bed, borrower), why="that it can save")
    returned = carried_out(engine(bed), back(made))  # of a steward that was restarted meanwhile
    log = log_of(bed, borrower)
    bed.run("scancel", owner)
    until(lambda: bed.state_of(borrower) == "RUNNING", why="its start by Slurm")
    (folder_of(borrower, bed) / "finish").touch()
    until(lambda: bed.state_of(borrower) == "FAILED", why="its end")

    assert (lent.result, lent.gpus) == ("done", ("n1/gpu3",))
    assert returned.result == "done"
    assert log.startswith("begins at 0 on 3 kept\nsaved\n")
    again = log_of(bed, borrower).splitlines()[-1]
    assert again.startswith("begins at ")
    assert not again.startswith("begins at 0 ")
    assert "ExitCode=7:0" in bed.run("scontrol", "show", "job", borrower)


def comment(bed: SlurmBed, job: str) -> str:
    return bed.run("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%k")


def test_a_job_that_ends_inside_another_does_not_run_again_and_slurm_has_its_exit_status(
    bed: SlurmBed, owner: str
) -> None:
    borrower = submit(bed)
    lent = carried_out(engine(bed), loan(owner, borrower, 0))
    (folder_of(borrower, bed) / "finish").touch()
    until(lambda: "steward-lent" not in steps(bed), why="the end of its step")
    until(lambda: "Held" not in reason_of(bed, borrower), why="its release")
    bed.run("scancel", owner)
    until(lambda: bed.state_of(borrower) == "FAILED", why="its end")

    assert lent.result == "done"
    assert log_of(bed, borrower).count("begins at") == 1
    assert "ExitCode=7:0" in bed.run("scontrol", "show", "job", borrower)


def test_a_borrower_goes_back_into_the_queue_when_its_lender_is_over(
    bed: SlurmBed, owner: str
) -> None:
    borrower = submit(bed)
    carried_out(engine(bed), loan(owner, borrower, 0))
    until(lambda: "begins at" in log_of(bed, borrower), why="its first line")

    bed.run("scancel", owner)

    until(lambda: bed.state_of(borrower) == "RUNNING", why="its start by Slurm")
    (folder_of(borrower, bed) / "finish").touch()
    until(lambda: bed.state_of(borrower) == "FAILED", why="its end")
    assert log_of(bed, borrower).count("begins at") == 2


def test_a_step_that_does_not_save_in_time_is_ended(bed: SlurmBed, owner: str) -> None:
    deaf = TRAINING.replace("if asked != last:", "if False:")
    borrower = submit(bed, "--saves", "2", script=deaf)
    made = loan(owner, borrower, 0)
    carried_out(engine(bed), made)
    until(lambda: "begins at" in log_of(bed, borrower), why="its first line")

    asked = engine(bed).carry_out(call := back(made), time.time())
    returned = carried_out(engine(bed), call)

    assert (asked.result, returned.result) == ("begun", "done")
    assert "steward-lent" not in steps(bed)
    assert "Held" not in reason_of(bed, borrower)
    assert bed.state_of(owner) == "RUNNING"


def test_a_killed_steward_begins_a_loan_once(bed: SlurmBed, owner: str) -> None:
    borrower = submit(bed)
    made = loan(owner, borrower, 1)

    first = engine(bed).carry_out(made, time.time())
    held = reason_of(bed, borrower)
    for _ in range(3):  # each a process that knows nothing of the others
        engine(bed).carry_out(made, time.time())
    carried_out(engine(bed), made)

    assert (first.result, held) == ("begun", "JobHeldUser")
    assert steps(bed).count("steward-lent") == 1
    assert log_of(bed, borrower).count("begins at") <= 1


def look(collector: SlurmCollector, moment: Moment) -> None:
    """Poll Slurm, as soon as it may be: a look takes a tenth of the time at most."""

    def seen() -> Observation | None:
        found = collector.collect(time.time())
        return found if found.health else None

    found = until(seen, why="a look")
    names = aliases_from(collector.vocabulary)
    canonical = {each: names[each][0].name for each in found.frame.columns if each in names}
    moment.fold(replace(found, frame=found.frame.rename(canonical)))


def test_the_view_shows_the_loan_until_its_owner_stirs_and_the_policy_calls_it_back(
    bed: SlurmBed, owner: str
) -> None:
    borrower = submit(bed)
    collector = SlurmCollector(conf=bed.env["SLURM_CONF"], every_s=0.0, up_is_healthy=True)
    moment, slurm = Moment(quiet_share=0.05, stale_after_s=1e6), engine(bed)
    made = loan(owner, borrower, 5)
    receipt = carried_out(slurm, made)
    look(collector, moment)
    moment.apply(made, receipt)

    def decided(busy: float) -> tuple[Decision, ...]:
        look(collector, moment)
        t_s = time.time()
        rows = {
            "n1/gpu5": gpu_row(0.9),
            f"n1/gpu5@{owner}": {"share.busy_share": busy},
            f"n1/gpu5@{borrower}": {"share.busy_share": 0.9 - busy},
        }
        moment.fold(Observation(frame=samples(t_s, rows)))
        return GiveBack().decide(moment.view(t_s))

    idle = decided(0.0)
    seen = moment.view(time.time())
    job = seen.details[JobId(borrower)]
    steps = float(seen.jobs.step_count[seen.jobs.ids == borrower][0])
    (stirred,) = decided(0.5)
    returned = carried_out(slurm, stirred)
    look(collector, moment)
    after = moment.view(time.time())

    assert idle == ()
    assert steps > 0.0  # from the folder of the job
    assert (job.state, job.gpus) == (JobState.RUNNING, ("n1/gpu5",))
    assert [each.borrower for each in seen.loans] == [borrower]
    assert "uses its GPUs again" in stirred.because
    assert returned.result == "done"
    assert after.loans == ()
    assert after.details[JobId(borrower)].state is JobState.QUEUED
    assert not after.details[JobId(borrower)].held


def with_memory(seen: Observation) -> Observation:
    """Return what Slurm shows with what a driver adds: how much memory GPUs have."""
    assert seen.cluster is not None
    nodes = tuple(
        replace(
            node,
            gpus=tuple(
                replace(gpu, model=replace(gpu.model, memory_bytes=80 * GIB)) for gpu in node.gpus
            ),
        )
        for node in seen.cluster.nodes
    )
    return replace(seen, cluster=replace(seen.cluster, nodes=nodes))


def test_the_policy_lends_idle_gpus_to_the_job_of_the_same_user_that_fits(
    bed: SlurmBed, owner: str
) -> None:
    theirs = bed.run(
        *("setpriv", f"--reuid={OTHER}", "--clear-groups", "sbatch", "--parsable", "-A", "bio"),
        *("--gres=gpu:a100:1", "--comment=steward:inside=8G", "-D", "/tmp", "--wrap", STAY),
    )
    unwilling = bed.submit(STAY, "-A", "bio", "--gres=gpu:a100:1")
    large = submit(bed, "--gpu-memory", "79G")
    borrower = submit(bed)
    collector = SlurmCollector(conf=bed.env["SLURM_CONF"], every_s=0.0, up_is_healthy=True)
    moment = Moment(quiet_share=0.05, stale_after_s=1e6)
    t_s = time.time()
    moment.fold(with_memory(collector.collect(t_s)))
    rows = {f"n1/gpu{each}": gpu_row(0.0, used_gib=2.0) for each in range(8)}
    moment.fold(Observation(frame=samples(t_s, rows)))
    view = believing(moment.view(t_s), idle_s=dict.fromkeys(rows, 400.0))
    idle = finding(owner, "n1/gpu6")

    (made,) = LendIdle().decide(view.with_findings((replace(idle, t_s=t_s),)))
    unmet = made.action.unmet(view)
    lent = carried_out(engine(bed), made)

    assert {JobId(each) for each in (theirs, unwilling, large)} <= set(view.details)
    assert isinstance(made.action, Lend)
    assert (made.action.owner, made.action.borrower, made.action.way) == (owner, borrower, "beside")
    assert (unmet, lent.result, lent.gpus) == ("", "done", ("n1/gpu6",))
    until(lambda: log_of(bed, borrower) == "begins at 0 on 6 kept\n", why="its first line")


def test_a_person_who_cancels_a_borrower_ends_its_step(bed: SlurmBed, owner: str) -> None:
    borrower = submit(bed)
    collector = SlurmCollector(conf=bed.env["SLURM_CONF"], every_s=0.0, up_is_healthy=True)
    moment, slurm = Moment(quiet_share=0.05, stale_after_s=1e6), engine(bed)
    made = loan(owner, borrower, 5)
    look(collector, moment)
    moment.apply(made, carried_out(slurm, made))
    look(collector, moment)

    bed.run("scancel", borrower)
    look(collector, moment)
    (call,) = GiveBack().decide(moment.view(time.time()))
    returned = carried_out(slurm, call)

    assert "was cancelled" in call.because
    assert returned.result == "done"
    assert "steward-lent" not in steps(bed)


def test_a_job_that_a_person_releases_while_it_is_lent_never_runs_twice_at_once(
    bed: SlurmBed, owner: str
) -> None:
    borrower = submit(bed)
    made = loan(owner, borrower, 4)
    carried_out(engine(bed), made)
    until(lambda: "begins at" in log_of(bed, borrower), why="its first line")
    shown = steward("jobs", "show", "--config", bed.folder / "steward.toml", borrower, "--json")
    config = bed.folder / "steward.toml"
    refused = steward("jobs", "release", "--config", config, borrower)

    bed.run("scontrol", "release", borrower)  # past all that steward says
    bed.run("scancel", str(int(owner) - 1))
    until(lambda: log_of(bed, borrower).count("begins at") == 2, why="its start by Slurm")

    assert "steward-lent" not in steps(bed)
    assert (shown.json["state"], refused.code != 0) == ("running", True)
    assert f"in job {owner}" in refused.err
    assert carried_out(engine(bed), back(made)).result == "done"
    assert bed.state_of(borrower) == "RUNNING"


@pytest.mark.parametrize(
    ("way", "words"), [("suspended", "may be suspended"), ("saved", "gives its GPUs")]
)
def test_ways_that_are_not_safe_are_refused_with_the_reason(
    bed: SlurmBed, owner: str, way: str, words: str
) -> None:
    borrower = submit(bed)
    action = Lend(gpus=(GpuId("n1/gpu0"),), owner=JobId(owner), borrower=JobId(borrower), way=way)

    said = engine(bed).carry_out(decision("d-way", action=action, t_s=time.time()), time.time())

    assert said.result == "failed"
    assert words in said.text
    assert "Held" not in reason_of(bed, borrower)


def test_nothing_of_another_user_is_lent_not_even_by_root(bed: SlurmBed, owner: str) -> None:
    theirs = bed.run(
        *("setpriv", f"--reuid={OTHER}", "--clear-groups", "sbatch", "--parsable", "-A", "bio"),
        *("--gres=gpu:a100:1", "--comment=steward:inside=8G", "-D", "/tmp", "--wrap", STAY),
    )

    said = engine(bed).carry_out(loan(owner, theirs, 0), time.time())

    assert said.result == "failed"
    assert f"job {theirs} is {OTHER}'s and steward runs as root" in said.text
    assert "steward:lent" not in comment(bed, theirs)


# -- holders that the driver suspends --------------------------------------------------------------

HOLDS = """\
import ctypes, itertools, pathlib, sys, time
ctypes.CDLL(sys.argv[1])
for number in itertools.count():
    pathlib.Path(sys.argv[2]).write_text(str(number))
    time.sleep(0.05)
    while pathlib.Path(sys.argv[2] + ".wake").exists():
        pass
"""


@pytest.fixture
def cuda(bed: SlurmBed, tmp_path: Path) -> FakeLibcuda:
    return FakeLibcuda(tmp_path / "cuda")


@pytest.fixture
def notebook(bed: SlurmBed, cuda: FakeLibcuda, tmp_path: Path) -> str:
    """Return a job that holds one GPU by the driver and may be suspended; the rest is in use."""
    (tmp_path / "holds.py").write_text(HOLDS)
    run = f"python3 {tmp_path}/holds.py {cuda.path} {tmp_path}/count"
    may = ("--comment=steward:suspend", "-w", "n1")
    id_ = bed.submit(run, "-A", "bio", "--gres=gpu:a100:1", "--time=60", *may)
    for node, gpus in (("n1", 7), ("n2", 8)):
        bed.submit(STAY, "-A", "bio", f"--gres=gpu:a100:{gpus}", "--time=60", "-w", node)
    until((tmp_path / "count").exists, why="a holder that counts")
    return id_


def suspending(bed: SlurmBed, cuda: FakeLibcuda) -> SlurmEngine:
    conf = bed.env["SLURM_CONF"]
    return SlurmEngine(conf=conf, timeout_s=LONG_S, settle_s=0.0, cuda_library=str(cuda.path))


def suspends(notebook: str, borrower: str) -> Decision:
    gpu = GpuId("n1/gpu0")
    action = Lend(gpus=(gpu,), owner=JobId(notebook), borrower=JobId(borrower), way="suspended")
    return decision(f"d-lend{next(_numbers)}", action=action, t_s=time.time())


def counts_on(folder: Path) -> bool:
    first = (folder / "count").read_text()
    time.sleep(0.3)
    return (folder / "count").read_text() != first


def test_a_holder_is_suspended_for_a_loan_and_resumed_when_it_is_called_back(
    bed: SlurmBed, cuda: FakeLibcuda, notebook: str, tmp_path: Path
) -> None:
    borrower = submit(bed)
    made = suspends(notebook, borrower)

    lent = carried_out(suspending(bed, cuda), made)
    until(lambda: "steward:saves=60" in comment(bed, borrower), why="that it can save")
    stood_still = not counts_on(tmp_path)
    returned = carried_out(suspending(bed, cuda), back(made))

    assert (lent.result, returned.result) == ("done", "done"), (lent.text, returned.text)
    assert "whose process the driver has suspended" in lent.text
    assert (stood_still, counts_on(tmp_path)) == (True, True)
    assert log_of(bed, borrower).startswith("begins at 0 on 0 kept\nsaved\n")
    assert cuda.calls()[:4] == ["lock", "checkpoint", "restore", "unlock"]
    assert "Held" not in reason_of(bed, borrower)


def test_a_holder_that_the_driver_refuses_goes_on_and_nothing_is_lent(
    bed: SlurmBed, cuda: FakeLibcuda, notebook: str, tmp_path: Path
) -> None:
    cuda.set("fail-checkpoint", 801)
    borrower = submit(bed)

    said = carried_out(suspending(bed, cuda), suspends(notebook, borrower))

    assert said.result == "failed"
    assert "did not suspend its holder" in said.text
    assert "managed memory" in said.text
    assert counts_on(tmp_path)
    until(lambda: "Held" not in reason_of(bed, borrower), why="its release")
    assert log_of(bed, borrower) == ""


def test_a_holder_that_stirs_gets_its_gpu_back_without_any_steward(
    bed: SlurmBed, cuda: FakeLibcuda, notebook: str, tmp_path: Path
) -> None:
    cuda.set("keep-going", 1)  # as a real one: only what calls the driver stands still
    borrower = submit(bed)
    carried_out(suspending(bed, cuda), suspends(notebook, borrower))
    until(lambda: "begins at" in log_of(bed, borrower), why="its first line")

    (tmp_path / "count.wake").touch()

    until(lambda: "unlock" in cuda.calls(), why="a resumed holder")
    (tmp_path / "count.wake").unlink()
    assert "saved" in log_of(bed, borrower)
    until(lambda: "steward-lent" not in steps(bed), why="the end of its step")
    until(lambda: "Held" not in reason_of(bed, borrower), why="its release")
    assert bed.state_of(notebook) == "RUNNING"


def test_a_borrower_that_is_killed_leaves_no_holder_suspended(
    bed: SlurmBed, cuda: FakeLibcuda, notebook: str, tmp_path: Path
) -> None:
    borrower = submit(bed)
    made = suspends(notebook, borrower)
    carried_out(suspending(bed, cuda), made)
    until(lambda: "begins at" in log_of(bed, borrower), why="its first line")
    step = next(each for each in bed.run("squeue", "-h", "-s", "--format=%i %j").splitlines()
                if "steward-lent" in each).split()[0]  # fmt: skip

    bed.run("scancel", "--signal=KILL", step)

    until(lambda: "unlock" in cuda.calls(), why="a resumed holder")
    assert counts_on(tmp_path)
    assert carried_out(suspending(bed, cuda), back(made)).result == "done"


def test_the_policy_sees_who_may_be_suspended(
    bed: SlurmBed, cuda: FakeLibcuda, notebook: str
) -> None:
    collector = SlurmCollector(conf=bed.env["SLURM_CONF"], every_s=0.0, up_is_healthy=True)
    moment = Moment(quiet_share=0.05, stale_after_s=1e6)
    borrower = submit(bed, "--gpu-memory", "79G")
    t_s = time.time()
    moment.fold(with_memory(collector.collect(t_s)))
    rows = {"n1/gpu0": gpu_row(0.0, used_gib=60.0)}
    moment.fold(Observation(frame=samples(t_s, rows)))
    view = believing(moment.view(t_s), idle_s={"n1/gpu0": 400.0}, remaining_s=3600.0)
    idle = replace(finding(notebook, "n1/gpu0"), t_s=t_s)

    (made,) = LendIdle(memory_reserve_share=0.0).decide(view.with_findings((idle,)))

    assert isinstance(made.action, Lend)
    assert (made.action.way, made.action.borrower) == ("suspended", borrower)
    assert made.action.for_s is not None
