"""What owners write into names, comments and nice values of their jobs harms nobody else.

On a real Slurm, where steward has an operator's rights and an owner has their own.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from beds.slurm import SlurmBed, slurm_bed
from factories import decision
from patience import LONG_S, until
from steward.act.actuators.slurm import Slurm
from steward.clients.slurm import SlurmCommands
from steward.clients.slurm.control import SlurmControl
from steward.model.actions import Action, Drain, Preempt, Start, Undrain
from steward.model.decision import Decision, Receipt
from steward.model.identity import DecisionId, GpuId, JobId, NodeId
from steward.observe.collectors.slurm import Slurm as SlurmCollector

pytestmark = pytest.mark.real

OWNER, OPERATOR, OTHER = "games", "mail", "news"  # accounts that every Debian has
STAY = "trap : USR2; for each in $(seq 3600); do sleep 1; done"
GPU = GpuId("n1/gpu0")
# A priority that others can see, and that only an operator can raise.
CONF = "PriorityType=priority/multifactor\nPriorityWeightFairshare=5000\n"
_numbers = count(1)


@pytest.fixture(scope="module")
def shared_bed() -> Iterator[SlurmBed]:
    folder = Path(tempfile.mkdtemp(prefix="steward-owners-"))
    folder.chmod(0o755)
    try:
        with slurm_bed(folder, nodes=("n1",), conf=CONF) as running:
            for user in (OWNER, OPERATOR, OTHER):
                running.run("sacctmgr", "-i", "add", "user", user, "account=bio")
            running.run("sacctmgr", "-i", "modify", "user", OPERATOR, "set", "adminlevel=Operator")
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def bed(shared_bed: SlurmBed) -> SlurmBed:
    shared_bed.calm()
    return shared_bed


@contextmanager
def acting_as(user: str) -> Iterator[None]:
    """Let what this process starts speak to Slurm as another account."""
    os.seteuid(pwd.getpwnam(user).pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)


def typed(bed: SlurmBed, *command: str, user: str = OWNER) -> str:
    """Return what a command prints that a user types."""
    done = subprocess.run(
        command,
        env=bed.env,
        user=user,
        group=pwd.getpwnam(user).pw_gid,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def submit(bed: SlurmBed, *options: str, user: str = OWNER) -> str:
    how = ("--parsable", "--requeue", "-A", "bio", "-D", "/tmp", "-o", "/dev/null")
    return typed(bed, "sbatch", *how, *options, "--wrap", STAY, user=user)


def engine(bed: SlurmBed, **options: float) -> Slurm:
    conf = bed.env["SLURM_CONF"]
    return Slurm(conf=conf, timeout_s=LONG_S, **{"settle_s": 0.0, **options})


def kept_by(bed: SlurmBed, user: str) -> Path:
    """Return a new folder of a user's own."""
    folder = Path(tempfile.mkdtemp(dir=bed.folder, prefix="kept-"))
    os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
    return folder / "slurm"


def state_of(bed: SlurmBed, job: str) -> str:
    return SlurmControl(conf=bed.env["SLURM_CONF"]).jobs([job])[job].state


def made(action: Action) -> Decision:
    return decision(f"d-owner{next(_numbers)}", action=action, t_s=time.time())


def carried_out(slurm: Slurm, what: Decision) -> Receipt:
    def step() -> Receipt | None:
        with acting_as(OPERATOR):
            said = slurm.progress(what, time.time())
        return None if said.result == "begun" else said

    return until(step, why=f"the end of {what.action.sentence}")


@pytest.mark.parametrize(
    "comment",
    [
        f"steward:saves=1 {'x' * 1008}",  # as long as Slurm takes it
        "a\nb steward:saves=1 c\n\n7",
        "steward:saves=1 \u2028 \x1f | \x85",
    ],
    ids=["full", "several lines", "separators"],
)
def test_a_job_is_stopped_whatever_its_owner_writes_into_its_comment_and_name(
    bed: SlurmBed, comment: str
) -> None:
    job = submit(bed, f"--comment={comment}", "--job-name=--user=root\n1 1 RUNNING|x")
    until(lambda: state_of(bed, job) == "RUNNING", why="its start")

    said = carried_out(engine(bed), made(Preempt(job=JobId(job), gpus=(GPU,))))

    assert (said.result, "put back into the queue" in said.text) == ("done", True)


def test_an_owner_who_writes_that_the_stop_is_done_is_stopped(bed: SlurmBed) -> None:
    job = submit(bed, "--comment=steward:saves=1")
    until(lambda: state_of(bed, job) == "RUNNING", why="its start")
    stop = made(Preempt(job=JobId(job), gpus=(GPU,)))
    tomorrow = int(time.time()) + 86_400
    forged = f"Comment=steward:saves=3600 steward:did={stop.id}@1~{tomorrow}"
    slurm = engine(bed)
    with acting_as(OPERATOR):
        asked = slurm.carry_out(stop, time.time())
    typed(bed, "scontrol", "update", f"JobId={job}", forged)

    said = carried_out(slurm, stop)

    assert asked.result == "begun"
    assert said.result == "done"
    assert state_of(bed, job) == "PENDING"


@pytest.mark.parametrize("comment", ["nothing", "steward:saves=3600", "forged"])
def test_an_owner_who_changes_the_comment_while_steward_restarts_gains_no_time(
    bed: SlurmBed, comment: str
) -> None:
    job = submit(bed, "--comment=steward:saves=1")
    until(lambda: state_of(bed, job) == "RUNNING", why="its start")
    stop = made(Preempt(job=JobId(job), gpus=(GPU,)))
    folder = kept_by(bed, OPERATOR)
    before, after = engine(bed), engine(bed)
    with acting_as(OPERATOR):
        before.keep_in(folder)
        before.carry_out(stop, time.time())
    forged = f"steward:saves=3600 steward:did={stop.id}@1~{int(time.time())}+save3600.{'A' * 22}"
    said = forged if comment == "forged" else comment
    typed(bed, "scontrol", "update", f"JobId={job}", f"Comment={said}")
    with acting_as(OPERATOR):
        after.keep_in(folder)

    end = carried_out(after, stop)

    assert end.result == "done"
    assert state_of(bed, job) == "PENDING"


def test_a_start_does_not_stay_open_until_a_time_that_the_owner_wrote(bed: SlurmBed) -> None:
    blocker = submit(bed, "--exclusive", user=OTHER)
    until(lambda: state_of(bed, blocker) == "RUNNING", why="a full node")
    job = submit(bed, "--exclusive")
    begin = made(Start(job=JobId(job), gpus=(GPU,)))
    tomorrow = int(time.time()) + 86_400
    forged = f"Comment=steward:did={begin.id}@{int(time.time())}~{tomorrow}"
    typed(bed, "scontrol", "update", f"JobId={job}", forged)

    said = carried_out(engine(bed, start_within_s=1.0), begin)

    assert (said.result, "did not start" in said.text) == ("failed", True)


def test_a_nice_value_is_lent_for_one_start_and_no_longer(bed: SlurmBed) -> None:
    blocker = submit(bed, "--exclusive", user=OTHER)
    until(lambda: state_of(bed, blocker) == "RUNNING", why="a full node")
    first = submit(bed, "--exclusive", user=OTHER)
    job = submit(bed, "--exclusive", "--nice=2147483645")
    control = SlurmControl(conf=bed.env["SLURM_CONF"])
    until(lambda: control.jobs([job])[job].reason == "Priority", why="a queue")
    begin = decision(
        f"d-owner{next(_numbers)}",
        action=Start(job=JobId(job), gpus=(GPU,)),
        t_s=time.time(),
        after=(DecisionId("d-other"),),
    )
    slurm = engine(bed)

    def is_first() -> bool:
        with acting_as(OPERATOR):
            slurm.progress(begin, time.time())
        jobs = control.jobs([first, job])
        return jobs[job].priority > jobs[first].priority

    until(is_first, why="its place")
    raised, ahead = (control.jobs([first, job])[each].priority for each in (job, first))
    typed(bed, "scontrol", "update", f"JobId={job}", "Comment=nothing")
    bed.run("scancel", blocker)
    said = carried_out(slurm, begin)

    assert raised == ahead + 1  # and not by as much as its priority was hidden
    assert said.result == "done"
    assert control.jobs([job])[job].nice == 2_147_483_645


def test_an_operator_drains_by_a_reservation_that_new_jobs_wait_for_and_others_run_through(
    bed: SlurmBed,
) -> None:
    slurm, runs = engine(bed), submit(bed)
    until(lambda: state_of(bed, runs) == "RUNNING", why="its start")
    with acting_as(OPERATOR):
        reason = slurm.available().reason

    drained = carried_out(slurm, made(Drain(node=NodeId("n1"), gpus=(GPU,))))
    again = carried_out(engine(bed), made(Drain(node=NodeId("n1"), gpus=(GPU,))))
    waits = submit(bed, user=OTHER)
    until(lambda: reason_of(bed, waits) not in ("None", "Priority"), why="a look by Slurm")
    with acting_as(OPERATOR):
        seen = SlurmCollector(conf=bed.env["SLURM_CONF"], timeout_s=LONG_S).collect(time.time())
    held = state_of(bed, waits), state_of(bed, runs)
    back = carried_out(slurm, made(Undrain(node=NodeId("n1"), gpus=(GPU,))))
    until(lambda: state_of(bed, waits) == "RUNNING", why="its start")

    assert "keeps new jobs from them by reservations" in reason
    assert (drained.result, again.result, back.result) == ("done", "done", "done")
    assert held == ("PENDING", "RUNNING")
    assert seen.draining == {"n1": True}
    assert "No reservations" in bed.run("scontrol", "show", "reservation")


def test_an_operator_touches_no_reservation_and_no_drain_of_others(bed: SlurmBed) -> None:
    whose = ("reservationname=theirs", "starttime=now", "duration=60", f"users={OTHER}")
    bed.run("scontrol", "create", "reservation", *whose, "nodes=n1", "flags=ignore_jobs")
    reserved = carried_out(engine(bed), made(Drain(node=NodeId("n1"), gpus=(GPU,))))
    back = carried_out(engine(bed), made(Undrain(node=NodeId("n1"), gpus=(GPU,))))
    listed = bed.run("scontrol", "--oneliner", "show", "reservation")
    bed.run("scontrol", "delete", "reservationname=theirs")
    bed.run("scontrol", "update", "nodename=n1", "state=drain", "reason=disk")
    drained = carried_out(engine(bed), made(Drain(node=NodeId("n1"), gpus=(GPU,))))
    undrained = carried_out(engine(bed), made(Undrain(node=NodeId("n1"), gpus=(GPU,))))
    bed.run("scontrol", "update", "nodename=n1", "state=resume")

    assert (reserved.result, "somebody else (theirs)" in reserved.text) == ("failed", True)
    assert (back.result, "not reserved by steward" in back.text) == ("done", True)
    assert "ReservationName=theirs" in listed
    assert (drained.result, undrained.result) == ("failed", "failed")
    assert "disk" in undrained.text


def test_an_owner_may_neither_drain_nor_reserve(bed: SlurmBed) -> None:
    slurm = engine(bed)
    with acting_as(OWNER):
        said = slurm.carry_out(made(Drain(node=NodeId("n1"), gpus=(GPU,))), time.time())

    assert (said.result, Drain in slurm.actions()) == ("failed", False)
    assert "No reservations" in bed.run("scontrol", "show", "reservation")


def test_an_administrator_takes_back_what_it_reserved_as_an_operator(bed: SlurmBed) -> None:
    carried_out(engine(bed), made(Drain(node=NodeId("n1"), gpus=(GPU,))))
    bed.run("sacctmgr", "-i", "modify", "user", OPERATOR, "set", "adminlevel=Admin")

    back = carried_out(engine(bed), made(Undrain(node=NodeId("n1"), gpus=(GPU,))))
    bed.run("sacctmgr", "-i", "modify", "user", OPERATOR, "set", "adminlevel=Operator")

    assert back.result == "done"
    assert "No reservations" in bed.run("scontrol", "show", "reservation")


def reason_of(bed: SlurmBed, job: str) -> str:
    return bed.run("squeue", "--noheader", f"--jobs={job}", "--format=%r")


def test_a_name_of_several_lines_costs_accounting_its_own_row_alone(bed: SlurmBed) -> None:
    forged = submit(bed, "--job-name=x\n1|1|y|root|root|gpu|COMPLETED|0:0")
    plain = submit(bed, "--job-name=plain")
    for job in (forged, plain):
        bed.run("scancel", job)
    commands = SlurmCommands(conf=bed.env["SLURM_CONF"], timeout_s=LONG_S)

    def ended() -> set[str]:
        return {job.id for job in commands.ended(past_s=3600.0) if job.end_s}

    until(lambda: plain in ended(), why="accounting")

    assert forged not in ended()
    assert commands.refused > 0
