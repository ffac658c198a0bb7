"""A real Slurm with four nodes of eight fake GPUs is read as it is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from beds.slurm import SlurmBed, slurm_bed
from patience import LONG_S
from steward.clients.slurm import SlurmCommands, SlurmJob
from steward.errors import StewardError
from steward.model.cluster import Health
from steward.model.event import Observation
from steward.model.job import Job, JobState
from steward.observe.collectors.slurm import Slurm
from steward.observe.slurm_history import DAY_S, SlurmHistory

pytestmark = pytest.mark.real

STAY = "sleep 3600"  # until it is cancelled, however slow the machine is


@pytest.fixture(scope="module")
def shared_bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmBed]:
    with slurm_bed(tmp_path_factory.mktemp("slurm")) as running:
        yield running


@pytest.fixture
def bed(shared_bed: SlurmBed) -> SlurmBed:
    """Return the bed with nothing on it, whatever ran there before."""
    shared_bed.calm()
    return shared_bed


def watched(bed: SlurmBed, *, timeout_s: float = LONG_S) -> Slurm:
    return Slurm(conf=bed.env["SLURM_CONF"], every_s=0.0, timeout_s=timeout_s, lookback_s=3600.0)


def look(slurm: Slurm) -> Observation:
    """Poll at once, however recent the last poll was."""
    slurm._due_s = 0.0
    return slurm.collect(time.time())


def job_in(seen: Observation, id_: str) -> Job:
    return next(job for job in seen.jobs if job.id == id_)


def ended(bed: SlurmBed, *jobs: str) -> None:
    over = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"}
    bed.wait_for(lambda: all(bed.state_of(job) in over for job in jobs), why="ends")


def test_two_jobs_on_one_node_hold_the_gpus_that_they_see_themselves(bed: SlurmBed) -> None:
    output = bed.folder / "output"
    script = f"echo $SLURM_JOB_ID $CUDA_VISIBLE_DEVICES >> {output}; {STAY}"
    ids = [bed.submit(script, "-A", "bio", "-w", "n1", f"--gres=gpu:{n}") for n in (3, 2)]
    bed.wait_for(lambda: output.exists() and output.read_text().count("\n") == 2, why="two jobs")

    seen = look(watched(bed))

    for line in output.read_text().splitlines():
        id_, devices = line.split()
        assert job_in(seen, id_).gpus == tuple(f"n1/gpu{each}" for each in devices.split(","))
    assert {job_in(seen, id_).tenant for id_ in ids} == {"bio"}
    bed.run("scancel", *ids)
    ended(bed, *ids)


def test_exit_codes_and_signals_are_reported(bed: SlurmBed) -> None:
    slurm = watched(bed)
    look(slurm)
    failed = bed.submit("exit 3", "-A", "vision", "--gres=gpu:1")
    killed = bed.submit("kill -SEGV $$", "-A", "vision")
    fine = bed.submit("true", "-A", "vision")
    ended(bed, failed, killed, fine)

    seen = look(slurm)

    states = {id_: job_in(seen, id_).state for id_ in (failed, killed, fine)}
    assert states == {
        failed: JobState.FAILED,
        killed: JobState.FAILED,
        fine: JobState.COMPLETED,
    }
    result = {event.subject: event.text for event in seen.events}
    assert "exit code 3" in result[f"job:{failed}"]
    assert "signal 11" in result[f"job:{killed}"]


def test_accounting_has_jobs_that_the_controller_has_dropped(bed: SlurmBed) -> None:
    id_ = bed.submit("exit 7", "-A", "bio")
    commands = SlurmCommands(conf=bed.env["SLURM_CONF"], timeout_s=LONG_S)

    def accounted() -> dict[str, SlurmJob]:
        return {job.id: job for job in commands.ended(past_s=600)}

    bed.wait_for(lambda: id_ in accounted() and accounted()[id_].end_s is not None, why="sacct")

    jobs = accounted()
    assert (jobs[id_].states, jobs[id_].exit_code, jobs[id_].account) == (("FAILED",), 7, "bio")


def test_limits_and_shares_of_accounts_become_tenants(bed: SlurmBed) -> None:
    bed.run("sacctmgr", "-i", "add", "account", "nlp", "parent=vision", "fairshare=3")
    bed.run("sacctmgr", "-i", "add", "qos", "own", "set", "GrpTRES=gres/gpu=4")
    bed.run("sacctmgr", "-i", "modify", "account", "nlp", "set", "QOS=+own")
    change = ("set", "fairshare=30", "GrpTRES=cpu=64,gres/gpu=16")
    bed.run("sacctmgr", "-i", "modify", "account", "bio", *change)
    bed.run("sacctmgr", "-i", "add", "account", "speech", "parent=vision")
    bed.run("sacctmgr", "-i", "add", "user", "root", "account=speech")
    bed.run("sacctmgr", "-i", "modify", "account", "vision", "set", "GrpTRES=gres/gpu=8")
    below = bed.submit(STAY, "-A", "speech", "--gres=gpu:3")

    seen = look(
        Slurm(
            conf=bed.env["SLURM_CONF"],
            every_s=0.0,
            timeout_s=LONG_S,
            guarantees_from_limits=True,
            up_is_healthy=True,
        )
    )
    bed.run("sacctmgr", "-i", "modify", "account", "bio", "set", "GrpTRES=cpu=-1,gres/gpu=-1")
    bed.run("sacctmgr", "-i", "modify", "account", "vision", "set", "GrpTRES=gres/gpu=-1")
    bed.run("scancel", below)

    assert seen.tenants is not None
    found = {each.id: each.guaranteed_gpus for each in seen.tenants}
    weights = {each.id: each.weight for each in seen.tenants}
    assert found == {"root": 0, "bio": 16, "nlp": 4, "speech": 3, "vision": 1}  # 8 below vision
    assert weights == {"root": 1, "bio": 30, "vision": 1, "nlp": 0.75, "speech": 0.25}
    assert {*seen.health.values()} == {Health.GOOD}


def test_history_has_each_job_of_accounting_once_with_all_its_runs(bed: SlurmBed) -> None:
    before_s = time.time()
    runs = bed.folder / "runs"
    again = bed.submit(f"echo >> {runs}; sleep 2", "-A", "bio", "--requeue")
    bed.wait_for(runs.exists, why="its first run")
    bed.run("scontrol", "requeue", again)
    bed.wait_for(lambda: bed.state_of(again) == "PENDING", why="its requeue")
    bed.run("scontrol", "update", f"JobId={again}", "StartTime=now+5")
    once = bed.submit("true", "-A", "vision")
    bed.wait_for(lambda: bed.state_of(again) == "COMPLETED", why="its second run")
    ended(bed, once)
    commands = SlurmCommands(conf=bed.env["SLURM_CONF"], timeout_s=LONG_S)

    def ends() -> list[str]:
        runs = commands.ended(past_s=600, every_run=True)
        return sorted(job.id for job in runs if job.end_s is not None and job.id in (again, once))

    bed.wait_for(lambda: ends() == sorted([again, again, once]), why="both runs in sacct")
    history = SlurmHistory(commands, lookback_s=time.time() - before_s + 2 * DAY_S)

    polls = [history.next(time.time(), {}) for _ in range(4)]  # sacct's own now is the real one

    found = {each.id: each for jobs in polls for each in jobs}
    assert sum(len(jobs) for jobs in polls) == len(found)
    assert [run.states[0] for run in found[again].runs] == ["REQUEUED", "COMPLETED"]
    assert len(found[once].runs) == 1
    assert history.is_read


def test_a_node_that_is_drained_has_a_reason_and_comes_back(bed: SlurmBed) -> None:
    slurm = watched(bed)
    look(slurm)
    bed.run("scontrol", "update", "nodename=n4", "state=drain", "reason=bad ECC")

    drained = look(slurm)
    bed.run("scontrol", "update", "nodename=n4", "state=resume")
    resumed = look(slurm)

    assert [(event.kind, event.text) for event in drained.events] == [("node.drained", "bad ECC")]
    assert [event.kind for event in resumed.events] == ["node.resumed"]


def test_reserved_nodes_are_closed_and_jobs_that_would_overlap_wait(bed: SlurmBed) -> None:
    everything = ("create", "reservation", "ReservationName=upgrade", "Nodes=ALL", "Users=root")
    when = ("StartTime=now+60minutes", "Duration=60", "Flags=MAINT,IGNORE_JOBS")
    class_ = ("create", "reservation", "ReservationName=course", "Nodes=n2", "Accounts=vision")
    bed.run("scontrol", *everything, *when)
    bed.run("scontrol", *class_, "StartTime=now", "Duration=30")
    try:
        held = ("--hold", "--comment=steward:hold", "-A", "bio", "--gres=gpu:1")
        long, short = (bed.submit("true", *held, f"--time={minutes}") for minutes in (90, 30))
        inside = bed.submit(STAY, "-A", "vision", "--reservation=course", "--time=20")

        seen = look(watched(bed))
    finally:
        bed.run("scancel", "--user=root")
        bed.wait_for(lambda: not bed.run("squeue", "--noheader"), why="an empty queue")
        for name in ("course", "upgrade"):  # not while a job runs in it
            bed.run("scontrol", "delete", f"ReservationName={name}")

    assert {name for name, closed in seen.draining.items() if closed} == {"n2"}
    assert [(each.kind, each.subject) for each in seen.events] == [("node.reserved", "n2")]
    assert (job_in(seen, long).held, job_in(seen, short).held) == (True, False)
    assert not job_in(seen, inside).state.ended


def test_a_preempted_job_goes_back_into_the_queue(bed: SlurmBed) -> None:
    everything = ("-N", "4", "--gres=gpu:8", "--exclusive")
    low = bed.submit(STAY, "-A", "bio", "-p", "pool", "--requeue", *everything)
    bed.wait_for(lambda: bed.state_of(low) == "RUNNING", why="the first job")
    slurm = watched(bed)
    first = look(slurm)
    high = bed.submit(STAY, "-A", "vision", "-p", "gpu", *everything)
    bed.wait_for(lambda: bed.state_of(high) == "RUNNING", why="the second job")

    seen = look(slurm)

    assert {span.entity for span in first.spans if span.name == low} >= {"n1/*", "n4@" + low}
    assert job_in(seen, low).state is JobState.QUEUED
    assert job_in(seen, low).past.stops == 1
    assert ("job.requeued", f"job:{low}") in [(each.kind, each.subject) for each in seen.events]
    assert {span.to_s is None for span in seen.spans if span.name == low} == {False}
    bed.run("scancel", low, high)
    ended(bed, low, high)


def test_a_controller_that_is_away_is_a_fault_and_nothing_is_forgotten(tmp_path: Path) -> None:
    """On a bed of its own: after such a restart, nodes take time to register again."""
    with slurm_bed(tmp_path) as bed:
        pids = [daemon.pid for daemon in bed.daemons.values()]
        id_ = bed.submit(STAY, "-A", "bio", "--gres=gpu:1")
        bed.wait_for(lambda: bed.state_of(id_) == "RUNNING", why="a job")
        slurm = watched(bed, timeout_s=20.0)  # it is waited for in full
        look(slurm)
        bed.stop("slurmctld")

        with pytest.raises(StewardError):
            look(slurm)

        bed.start_controller()
        bed.wait_for(lambda: slurm.available().status == "ok", why="the controller")
        look(slurm)
        assert id_ in slurm._book.going_on()

    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)  # the bed leaves nothing behind
