"""Decisions are carried out on a real Slurm, with the rights that an account really has."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from beds.slurm import SlurmBed, slurm_bed
from factories import decision
from patience import LONG_S, until
from steward.act.actuators.slurm import Slurm
from steward.clients.slurm import changes
from steward.clients.slurm.control import SlurmControl
from steward.clients.slurm.rights import Level, probe_rights
from steward.clients.slurm.site_setup import site_setup
from steward.clients.slurm.submission import Submission, submit_once
from steward.decide.scheduling.save_before_limit import SaveBeforeLimit
from steward.errors import PermanentError, TemporaryError
from steward.model.actions import (
    Action,
    Drain,
    Migrate,
    Preempt,
    Reprioritise,
    Resize,
    Resume,
    RightSize,
    Save,
    Start,
    Undrain,
)
from steward.model.decision import Decision, Receipt
from steward.model.identity import DecisionId, GpuId, JobId, NodeId
from steward.model.moment import Moment
from steward.observe.collectors.slurm import Slurm as SlurmCollector

pytestmark = pytest.mark.real

OWNER, OPERATOR, OTHER = "games", "mail", "news"  # accounts that every Debian has
STAY = "for each in $(seq 3600); do sleep 1; done"
SAVES = f"trap 'echo saved' USR2; {STAY}"
GPU = GpuId("n1/gpu0")
_numbers = count(1)


@contextmanager
def open_folder() -> Iterator[Path]:
    """Make a folder that other accounts may enter, as they may not pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="steward-slurm-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def shared_bed() -> Iterator[SlurmBed]:
    with open_folder() as folder, slurm_bed(folder) as running:
        (folder / "out").mkdir(mode=0o777)
        (folder / "out").chmod(0o777)
        for user in (OWNER, OPERATOR, OTHER):
            running.run("sacctmgr", "-i", "add", "user", user, "account=bio")
        running.run("sacctmgr", "-i", "modify", "user", OPERATOR, "set", "adminlevel=Operator")
        yield running


@pytest.fixture
def bed(shared_bed: SlurmBed) -> SlurmBed:
    shared_bed.calm()
    return shared_bed


def engine(bed: SlurmBed, **options: bool) -> Slurm:
    return Slurm(conf=bed.env["SLURM_CONF"], timeout_s=LONG_S, settle_s=0.0, **options)


def control(bed: SlurmBed) -> SlurmControl:
    return SlurmControl(conf=bed.env["SLURM_CONF"], timeout_s=LONG_S)


def made(action: Action) -> Decision:
    return decision(f"d-real{next(_numbers)}", action=action, t_s=time.time())


def carried_out(bed: SlurmBed, what: Decision, **options: bool) -> Receipt:
    """Carry a decision out to its end, by a new engine at each step: nothing is kept in memory."""

    last = ""

    def step() -> Receipt | None:
        nonlocal last
        said = engine(bed, **options).progress(what, time.time())
        last = said.text
        return None if said.result == "begun" else said

    return until(step, why=lambda: f"the end of {what.action.sentence}; last: {last}")


def submit(bed: SlurmBed, script: str, *options: str, user: str = "root") -> str:
    out = str(bed.folder / "out" / "%j")
    command = ["sbatch", "--parsable", "-A", "bio", "-D", "/tmp", "-o", out, "--open-mode=append"]
    done = subprocess.run(
        [*command, *options, "--wrap", script],
        env=bed.env,
        user=user,
        group=pwd.getpwnam(user).pw_gid,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def listed(bed: SlurmBed, job: str, column: str = "%T") -> str:
    return bed.run("squeue", "--noheader", "--states=all", f"--jobs={job}", f"--format={column}")


def by_task(bed: SlurmBed, array: str, column: str) -> str:
    return bed.run("squeue", "--noheader", "--array", f"--jobs={array}", f"--format={column}")


def printed(bed: SlurmBed, job: str) -> str:
    path = bed.folder / "out" / job
    return path.read_text() if path.exists() else ""


def wait_state(bed: SlurmBed, job: str, state: str) -> None:
    until(lambda: listed(bed, job) == state, why=f"{state} of {job}")


def runs_on(bed: SlurmBed, job: str) -> str:
    """Return the node that a job runs on, once its shell has set its trap."""
    wait_state(bed, job, "RUNNING")
    until(lambda: bool(listed(bed, job, "%N")), why="its node")
    time.sleep(1.0)
    return listed(bed, job, "%N")


@contextmanager
def acting_as(user: str) -> Iterator[None]:
    """Let what this process starts speak to Slurm as another account."""
    os.seteuid(pwd.getpwnam(user).pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)


# -- jobs ------------------------------------------------------------------------------------------


def test_a_held_job_starts_is_saved_requeued_and_goes_on_in_seconds(bed: SlurmBed) -> None:
    script = f"trap 'echo saved' USR2; echo run ${{SLURM_RESTART_COUNT:-0}}; {STAY}"
    comment = "--comment=night run steward:saves=10 steward:hold"
    job = submit(bed, script, "--hold", "--requeue", "--gres=gpu:1", comment, user=OWNER)
    on = {"job": JobId(job), "gpus": (GPU,)}

    started = carried_out(bed, made(Start(**on)))
    until(lambda: "run 0" in printed(bed, job), why="its output")
    stop = made(Preempt(**on))
    stopped = carried_out(bed, stop)
    again = carried_out(bed, stop)  # as after a crash before the receipt was written
    began_s = time.monotonic()
    resumed = carried_out(bed, made(Resume(**on)))
    took_s = time.monotonic() - began_s

    receipts = (started, stopped, again, resumed)
    assert [each.result for each in receipts] == ["done"] * 4, [each.text for each in receipts]
    until(lambda: "run 1" in printed(bed, job), why="its second run")
    text = printed(bed, job)
    assert text.index("run 0") < text.index("saved") < text.index("run 1")
    assert took_s < 115  # Slurm alone waits 121 s
    assert listed(bed, job, "%k").startswith("night run steward:saves=10 steward:did=")


def test_a_job_near_its_time_limit_is_asked_to_save_once_and_goes_on(bed: SlurmBed) -> None:
    script = f"trap 'echo saved' USR2; echo begin; {STAY}"
    job = submit(bed, script, "--comment=steward:saves=5", "--time=1")
    until(lambda: "begin" in printed(bed, job), why="its start")
    seen = Moment()
    seen.fold(SlurmCollector(conf=bed.env["SLURM_CONF"], timeout_s=LONG_S).collect(time.time()))
    began_s = seen.view(time.time()).details[JobId(job)].start_s
    assert began_s is not None

    early = SaveBeforeLimit(margin_s=10.0).decide(seen.view(began_s + 44.0))
    (save,) = SaveBeforeLimit(margin_s=10.0).decide(seen.view(began_s + 46.0))
    said = carried_out(bed, save)
    again = carried_out(bed, save)
    until(lambda: "saved" in printed(bed, job), why="its save")

    assert early == ()
    assert (said.result, again.result) == ("done", "done")
    assert "in 14 s" in save.because
    assert printed(bed, job).count("saved") == 1
    assert listed(bed, job) == "RUNNING"
    assert f"steward:did={save.id}@" in listed(bed, job, "%k")


def test_a_job_that_steward_stops_and_keeps_held_is_resumed(bed: SlurmBed) -> None:
    job = submit(bed, STAY, "--requeue", user=OWNER)
    wait_state(bed, job, "RUNNING")
    options = {"hold_preempted": True, "requeue_unsaved": True}

    stopped = carried_out(bed, made(Preempt(job=JobId(job), gpus=(GPU,))), **options)
    held = listed(bed, job, "%T %r")
    resumed = carried_out(bed, made(Resume(job=JobId(job), gpus=(GPU,))))

    assert (stopped.result, held) == ("done", "PENDING job requeued in held state")
    assert resumed.result == "done"


def test_requeueing_a_job_that_has_ended_does_nothing(bed: SlurmBed) -> None:
    job = submit(bed, "true", "--requeue", "--comment=steward:saves=1")
    wait_state(bed, job, "COMPLETED")

    control(bed).change(changes.requeue(job, hold=False))  # it may end between look and command
    refused = carried_out(bed, made(Preempt(job=JobId(job), gpus=(GPU,))))

    assert listed(bed, job) == "COMPLETED"
    assert (refused.result, "not running" in refused.text) == ("failed", True)


def test_a_job_that_a_person_holds_is_not_released(bed: SlurmBed) -> None:
    job = submit(bed, STAY, "--hold")

    refused = carried_out(bed, made(Start(job=JobId(job), gpus=(GPU,))))

    assert refused.result == "failed"
    until(lambda: listed(bed, job, "%r") == "JobHeldUser", why="its hold in the list")


def test_of_an_array_only_the_one_task_is_stopped(bed: SlurmBed) -> None:
    array = submit(bed, STAY, "--requeue", "--array=0-2")
    until(lambda: listed(bed, array).split() == ["RUNNING"] * 3, why="three tasks")
    first = bed.run("squeue", "--noheader", f"--jobs={array}_0", "--format=%A")

    stop = made(Preempt(job=JobId(first), gpus=(GPU,)))
    stopped = carried_out(bed, stop, requeue_unsaved=True)

    states = dict(line.split() for line in listed(bed, array, "%K %T").splitlines())
    assert stopped.result == "done"
    assert states == {"0": "PENDING", "1": "RUNNING", "2": "RUNNING"}


def test_of_an_array_that_waits_as_many_tasks_start_as_were_decided(bed: SlurmBed) -> None:
    held = ("--hold", "--comment=steward:hold", "--gres=gpu:1")
    array = submit(bed, STAY, "--array=0-4%2", *held, user=OWNER)
    until(lambda: "JobHeldUser" in listed(bed, array, "%r"), why="its hold in the list")

    said = [carried_out(bed, made(Start(job=JobId(array), gpus=(GPU,)))) for _ in range(3)]

    states = dict(line.split() for line in by_task(bed, array, "%K %T").splitlines())
    assert [each.result for each in said] == ["done", "done", "failed"], said
    assert "as many tasks" in said[2].text
    assert said[0].job not in (said[1].job, array)
    assert states == {"0": "RUNNING", "1": "RUNNING"} | dict.fromkeys("234", "PENDING")


def test_a_start_that_was_cut_off_releases_no_second_task(bed: SlurmBed) -> None:
    held = ("--hold", "--comment=steward:hold", "--gres=gpu:1")
    array = submit(bed, STAY, "--array=0-3", *held, user=OWNER)
    until(lambda: listed(bed, array, "%r") == "JobHeldUser", why="its hold in the list")
    first = made(Start(job=JobId(array), gpus=(GPU,)))
    commands = engine(bed).commands(first, time.time()).commands

    for number in range(len(commands) + 1):  # killed after so many of its commands
        for command in commands[:number]:
            bed.run(*command)
        assert carried_out(bed, first).result == "done"

    states = by_task(bed, array, "%T").split()
    assert sorted(states) == ["PENDING", "PENDING", "PENDING", "RUNNING"]


def test_a_job_gives_up_a_node_in_the_middle(bed: SlurmBed) -> None:
    job = submit(bed, STAY, "-N3", "--gres=gpu:1")
    wait_state(bed, job, "RUNNING")
    nodes = control(bed).jobs([job])[job].nodes
    now = tuple(GpuId(f"{node}/gpu0") for node in nodes)

    smaller = carried_out(bed, made(Resize(job=JobId(job), now=now, then=(now[0], now[2]))))
    larger = carried_out(bed, made(Resize(job=JobId(job), now=now[:1], then=(*now, GPU))))

    assert smaller.result == "done"
    assert control(bed).jobs([job])[job].nodes == (nodes[0], nodes[2])
    assert larger.result == "failed"


def test_a_job_saves_and_goes_on_on_another_node(bed: SlurmBed) -> None:
    """Twice: what it was kept from before stays so, as what its owner excludes."""
    job = submit(bed, SAVES, "--gres=gpu:2", "--requeue", "--comment=steward:saves=2", "-x", "n4")
    visited = []
    for _ in range(2):
        node = runs_on(bed, job)
        visited.append(node)
        source = tuple(GpuId(f"{node}/gpu{each}") for each in (0, 1))
        move = made(Migrate(job=JobId(job), source=source, target=(GpuId("n9/gpu0"),) * 2))
        said = carried_out(bed, move)
        assert (said.result, said.text.startswith(f"job {job} runs on")) == ("done", True), (
            said.text
        )

    visited.append(runs_on(bed, job))
    assert sorted(visited) == ["n1", "n2", "n3"]
    assert printed(bed, job).count("saved") == 2
    within = made(Migrate(job=JobId(job), source=source[:1], target=source[1:]))
    assert carried_out(bed, within).result == "failed"


def test_a_job_saves_and_goes_on_with_another_number_of_gpus(bed: SlurmBed) -> None:
    says = f"echo $CUDA_VISIBLE_DEVICES; {SAVES}"
    job = submit(bed, says, "--gres=gpu:4", "--requeue", "--comment=steward:saves=1")
    gpus = tuple(GpuId(f"{runs_on(bed, job)}/gpu{each}") for each in range(6))

    for before, then in ((gpus[:4], gpus[:2]), (gpus[:2], gpus)):
        said = carried_out(bed, made(Resize(job=JobId(job), now=before, then=then)))
        assert said.result == "done", said.text
        runs_on(bed, job)

    def counts() -> list[int]:
        lines = printed(bed, job).splitlines()
        return [len(each.split(",")) for each in lines if each[:1].isdigit()]

    until(lambda: counts() == [4, 2, 6], why=lambda: f"three sizes; {printed(bed, job)}")
    assert printed(bed, job).count("saved") == 2


def test_a_move_of_a_job_that_cannot_save_or_finds_no_room_leaves_it_able_to_run(
    bed: SlurmBed,
) -> None:
    stays = submit(bed, STAY, "--gres=gpu:1", "--requeue")
    gpu = GpuId(f"{runs_on(bed, stays)}/gpu0")
    move = made(Migrate(job=JobId(stays), source=(gpu,), target=(GpuId("n9/gpu0"),)))

    assert "has not said that it can save" in carried_out(bed, move).text
    assert listed(bed, stays) == "RUNNING"


def test_a_job_that_others_made_room_for_is_next(bed: SlurmBed) -> None:
    everything = ("-N4", "--exclusive")
    blocker = submit(bed, STAY, *everything)
    wait_state(bed, blocker, "RUNNING")
    ids = [submit(bed, STAY, *everything, user=OWNER) for _ in range(3)]
    until(lambda: listed(bed, ids[2], "%r") == "Priority", why="a queue")

    raised = replace(made(Start(job=JobId(ids[2]), gpus=(GPU,))), after=(DecisionId("d-stop"),))
    said = engine(bed).carry_out(raised, time.time())
    bed.run("scancel", blocker)

    assert said.result == "begun"
    wait_state(bed, ids[2], "RUNNING")


def test_a_dry_run_shows_the_commands_and_changes_nothing(bed: SlurmBed) -> None:
    job = submit(bed, STAY, "--hold", "--comment=steward:hold")

    said = carried_out(bed, made(Start(job=JobId(job), gpus=(GPU,))), dry_run=True)

    assert said.result == "failed"
    assert f"scontrol release {job}; scontrol update JobId={job}" in said.text
    assert listed(bed, job, "%r %k") == "JobHeldUser steward:hold"


# -- nodes -----------------------------------------------------------------------------------------


def test_a_foreign_drain_is_left_alone_and_our_own_comes_back(bed: SlurmBed) -> None:
    n3, n4 = ({"node": NodeId(name), "gpus": ()} for name in ("n3", "n4"))
    bed.run("scontrol", "update", "NodeName=n4", "State=DRAIN", "Reason=bad ECC")

    theirs = [carried_out(bed, made(each)) for each in (Drain(**n4), Undrain(**n4))]
    drain = made(Drain(**n3))
    ours = [carried_out(bed, each) for each in (drain, drain)]
    reason = control(bed).node("n3").reason
    back = carried_out(bed, made(Undrain(**n3)))

    assert [each.result for each in theirs] == ["failed", "failed"]
    assert (control(bed).node("n4").reason, control(bed).node("n4").drains) == ("bad ECC", True)
    assert [each.result for each in (*ours, back)] == ["done"] * 3
    assert reason == f"steward {drain.id}: it is idle"
    assert not control(bed).node("n3").drains
    bed.run("scontrol", "update", "NodeName=n4", "State=RESUME")


# -- rights ----------------------------------------------------------------------------------------


def test_an_owner_changes_their_own_jobs_alone(bed: SlurmBed) -> None:
    mine, other = (
        submit(bed, STAY, "--hold", "--comment=steward:hold", user=u) for u in (OWNER, OTHER)
    )

    with acting_as(OWNER):
        rights = probe_rights(control(bed))
        own = carried_out(bed, made(Start(job=JobId(mine), gpus=(GPU,))))
        foreign = carried_out(bed, made(Start(job=JobId(other), gpus=(GPU,))))
        drain = carried_out(bed, made(Drain(node=NodeId("n1"), gpus=())))
        said = engine(bed).available()
        with pytest.raises(PermanentError, match=r"Invalid user id|denied"):  # Slurm says the same
            control(bed).change(changes.release(other))

    assert (rights.user, rights.level) == (OWNER, Level.OWNER)
    assert [own.result, foreign.result, drain.result] == ["done", "failed", "failed"]
    assert (said.status, "changes its own jobs alone" in said.reason) == ("limited", True)


def test_an_operator_changes_all_jobs_and_drains_by_a_reservation_alone(bed: SlurmBed) -> None:
    blocker = submit(bed, STAY, "-N4", "--exclusive")
    job = submit(bed, STAY, "-N4", "--exclusive", user=OTHER)
    until(lambda: listed(bed, job, "%r") == "Resources", why="a queue")
    before = control(bed).jobs([job])[job].priority
    raise_it = Reprioritise(job=JobId(job), before=before, priority=before + 500)

    with acting_as(OPERATOR):
        rights = probe_rights(control(bed))
        raised = carried_out(bed, made(raise_it))
        able = engine(bed)
        with pytest.raises(PermanentError, match=r"Invalid user id|denied"):  # Slurm says the same
            control(bed).change(changes.drain("n1", "steward d-1: x"))
        drain = able.carry_out(made(Drain(node=NodeId("n1"), gpus=())), time.time())
        state = control(bed).node("n1")
        undrain = able.carry_out(made(Undrain(node=NodeId("n1"), gpus=())), time.time())

    assert rights.level is Level.OPERATOR
    assert raised.result == "done"
    assert control(bed).jobs([job])[job].priority == before + 500
    assert (drain.result, state.drains, undrain.result) == ("done", False, "done")
    assert Drain in able.actions()
    bed.run("scancel", blocker, job)


def test_rights_that_are_withdrawn_while_a_job_saves_leave_it_running(bed: SlurmBed) -> None:
    script = f"trap 'echo saved' USR2; {STAY}"
    job = submit(bed, script, "--requeue", "--comment=steward:saves=1", user=OTHER)
    wait_state(bed, job, "RUNNING")
    stop = made(Preempt(job=JobId(job), gpus=(GPU,)))

    def refused() -> str:
        """Go on with a decision that was begun, with the rights that were known."""
        try:
            return "" if able.progress(stop, time.time()).result == "begun" else "it went on"
        except PermanentError as fault:
            return str(fault)

    with acting_as(OPERATOR):
        able = engine(bed)
        begun = able.carry_out(stop, time.time())
    bed.run("sacctmgr", "-i", "modify", "user", OPERATOR, "set", "adminlevel=None")
    try:
        with acting_as(OPERATOR):
            why = until(refused, why="a refusal")
            later = engine(bed).progress(stop, time.time())
    finally:
        bed.run("sacctmgr", "-i", "modify", "user", OPERATOR, "set", "adminlevel=Operator")

    assert begun.result == "begun"
    assert "denied" in why  # by Slurm itself
    assert (later.result, "is no operator" in later.text) == ("failed", True)  # once it is known
    assert listed(bed, job, "%T %r") == "RUNNING None"


# -- faults ----------------------------------------------------------------------------------------


def test_a_submission_that_hung_exists_once_and_runs_once(bed: SlurmBed) -> None:
    runs = bed.folder / "runs"
    script = bed.folder / "once.sh"
    script.write_text(f"#!/bin/sh\necho run >> {runs}\n")
    what = Submission(
        token=f"d-hung{os.getpid()}",
        script=str(script),
        options=("-A", "bio", "-o", "/dev/null"),
    )
    slurm = control(bed)
    slurm.check_answers()
    controller = bed.daemons["slurmctld"]

    controller.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(TemporaryError, match="Socket timed out"):
            slurm.change(what.command)
        with pytest.raises(TemporaryError, match="no answer within"):
            submit_once(slurm, what)
    finally:
        controller.send_signal(signal.SIGCONT)

    def submitted() -> str:
        try:
            return submit_once(control(bed), what)
        except TemporaryError:
            return ""

    ids = {until(submitted, why="the submission") for _ in range(3)}
    (id_,) = ids
    wait_state(bed, id_, "COMPLETED")
    assert submit_once(control(bed), what) == id_
    assert len(control(bed).named(what.job_name)) == 1
    assert runs.read_text() == "run\n"


def test_of_two_submissions_with_one_token_the_later_never_starts(bed: SlurmBed) -> None:
    script = bed.folder / "twice.sh"
    script.write_text("#!/bin/sh\nsleep 600\n")
    options = ("-A", "bio", "-o", "/dev/null")
    what = Submission(token=f"d-twice{os.getpid()}", script=str(script), options=options)
    slurm = control(bed)
    for _ in range(2):  # an answer was lost, and the controller was slow
        slurm.change(what.command)

    kept = submit_once(slurm, what)

    first, second = control(bed).named(what.job_name)
    assert kept == first.id
    assert second.state == "CANCELLED"
    wait_state(bed, first.id, "RUNNING")


def test_a_hung_controller_costs_seconds_and_is_tried_again(bed: SlurmBed) -> None:
    job = submit(bed, STAY, "--hold", "--comment=steward:hold")
    what = made(Start(job=JobId(job), gpus=(GPU,)))
    controller = bed.daemons["slurmctld"]

    controller.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(TemporaryError):
            engine(bed).carry_out(what, time.time())
        assert engine(bed).available().status == "missing"
    finally:
        controller.send_signal(signal.SIGCONT)

    assert carried_out(bed, what).result == "done"


# -- set up ----------------------------------------------------------------------------------------


def test_a_slurm_with_the_printed_configuration_warns_and_requeues() -> None:
    wanted = site_setup("22.05", nodes="n[1-4]", grace_s=1)
    with open_folder() as folder, slurm_bed(folder, conf=wanted.slurm_conf) as bed:
        (folder / "out").mkdir()
        has = control(bed).configuration()
        lines = tuple(each.removeprefix("#SBATCH ") for each in wanted.script_lines)
        script = f"trap 'echo warned' USR2; echo run ${{SLURM_RESTART_COUNT:-0}}; {STAY}"
        low = submit(bed, script, *lines, "-N4", "--exclusive")
        until(lambda: "run 0" in printed(bed, low), why="its output")
        high = submit(bed, STAY, "-N4", "--exclusive", "--partition=gpu")
        wait_state(bed, high, "RUNNING")

        assert all(each.present for each in site_setup("22.05", current=has).lines)
        assert listed(bed, low, "%T") == "PENDING"
        assert "warned" in printed(bed, low)


# -- by hand ---------------------------------------------------------------------------------------


def test_what_a_person_would_type_does_the_same(bed: SlurmBed) -> None:
    """Each line that is shown for a decision is run by a shell; steward itself changes nothing."""
    held = submit(bed, STAY, "--gres=gpu:1", "--hold", "--comment=steward:hold")

    typed(bed, Start(job=JobId(held), gpus=(GPU,)))
    wait_state(bed, held, "RUNNING")

    trains = submit(bed, SAVES, "--gres=gpu:1", "--requeue", "--comment=steward:saves=2")
    wait_state(bed, trains, "RUNNING")
    until(lambda: bool(listed(bed, trains, "%N")), why="its node")
    time.sleep(1.0)  # its shell sets its trap

    typed(bed, Save(job=JobId(trains)))
    until(lambda: printed(bed, trains).count("saved") == 1, why="a save")
    typed(bed, Preempt(job=JobId(trains), gpus=(GPU,)))
    until(lambda: listed(bed, trains, "%T %r") == "PENDING BeginTime", why="its requeue")
    typed(bed, Resume(job=JobId(trains), gpus=(GPU,)))
    wait_state(bed, trains, "RUNNING")

    assert printed(bed, trains).count("saved") >= 2

    until(lambda: bool(listed(bed, trains, "%N")), why="its node")
    time.sleep(1.0)
    node = listed(bed, trains, "%N")
    typed(
        bed, Migrate(job=JobId(trains), source=(GpuId(f"{node}/gpu0"),), target=(GpuId("n9/gpu0"),))
    )
    until(lambda: listed(bed, trains) == "RUNNING", why="its start elsewhere")
    assert runs_on(bed, trains) != node


@pytest.mark.parametrize(
    ("asks", "before", "count"),
    [("--gres=gpu:4", 4, 2), ("--gpus=a100:4", 4, 1), ("--gpus-per-node=4 -N2", 8, 4)],
)
def test_a_waiting_job_asks_for_fewer_gpus(
    bed: SlurmBed, asks: str, before: int, count: int
) -> None:
    job = submit(bed, "echo $SLURM_JOB_NUM_NODES $CUDA_VISIBLE_DEVICES", "--hold", *asks.split())
    smaller = made(RightSize(job=JobId(job), before=before, count=count))

    said = carried_out(bed, smaller)
    again = carried_out(bed, smaller)
    bed.run("scontrol", "release", job)
    until(lambda: listed(bed, job) == "COMPLETED", why="its end")

    nodes, _, devices = printed(bed, job).strip().partition(" ")
    assert (said.result, again.result) == ("done", "done"), said.text
    assert int(nodes) * len(devices.split(",")) == count
    assert carried_out(bed, smaller).result == "failed"  # it is over


def test_a_drain_that_a_person_types_is_theirs(bed: SlurmBed) -> None:
    node = Drain(node=NodeId("n4"), gpus=())
    undrain = Undrain(node=NodeId("n4"), gpus=())

    typed(bed, node)
    reason = bed.run("sinfo", "--noheader", "-N", "-n", "n4", "-p", "gpu", "-o", "%E")
    left = engine(bed).by_hand(made(undrain), time.time())
    bed.run("scontrol", "update", "NodeName=n4", "State=RESUME")
    assert carried_out(bed, made(node)).result == "done"
    typed(bed, undrain)

    assert reason == "it is idle"
    assert (left.possible, left.commands) == (False, ())
    state = bed.run("sinfo", "--noheader", "-N", "-n", "n4", "-p", "gpu", "-o", "%T")
    assert not state.startswith("drain")


def typed(bed: SlurmBed, action: Action) -> None:
    """Type what is shown for a decision."""
    found = engine(bed).by_hand(made(action), time.time())
    assert found.possible, found.text
    for line in found.commands:
        bed.run("bash", "-c", line)
