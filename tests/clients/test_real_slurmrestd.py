"""A real slurmrestd shows and changes what Slurm's own commands do."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from beds.slurm import SlurmBed, slurm_bed
from beds.slurmrestd import DAEMON, jwt_conf, rest_on_port, rest_on_socket, token
from factories import decision
from patience import LONG_S, until
from steward.act.actuators.slurm import Slurm as SlurmActuator
from steward.clients.slurm import (
    RestSettings,
    SlurmCommands,
    SlurmJob,
    SlurmRest,
    changes,
    slurm_reader,
)
from steward.clients.slurm.control import SlurmControl
from steward.clients.slurm.rest import RestServer
from steward.clients.slurm.rest_control import RestControl
from steward.clients.slurm.rights import Level, probe_rights
from steward.errors import PermanentError
from steward.model.actions import Preempt, Reprioritise
from steward.model.identity import JobId
from steward.observe.collectors.slurm import Slurm

pytestmark = pytest.mark.real

STAY = "for each in $(seq 3600); do sleep 1; done"
NOWHERE = "/nonexistent"  # a folder without Slurm's commands


@pytest.fixture(scope="module")
def shared_bed() -> Iterator[SlurmBed]:
    folder = Path(tempfile.mkdtemp(prefix="steward-rest-"))
    folder.chmod(0o755)  # slurmrestd runs as somebody else
    try:
        with slurm_bed(folder, conf=(jwt := jwt_conf(folder)), accounting_conf=jwt) as running:
            (folder / "out").mkdir(mode=0o777)
            running.run("sacctmgr", "-i", "add", "user", DAEMON, "account=bio")
            running.run("sacctmgr", "-i", "add", "user", "mail", "account=bio")
            running.run("sacctmgr", "-i", "modify", "user", "mail", "set", "adminlevel=Operator")
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def socket(shared_bed: SlurmBed) -> Iterator[str]:
    with rest_on_socket(shared_bed) as address:
        yield address


@pytest.fixture(scope="module")
def port(shared_bed: SlurmBed) -> Iterator[str]:
    with rest_on_port(shared_bed) as address:
        yield address


@pytest.fixture
def bed(shared_bed: SlurmBed) -> SlurmBed:
    shared_bed.calm()
    return shared_bed


@pytest.fixture
def busy(bed: SlurmBed) -> Iterator[SlurmBed]:
    """Fill the bed with all kinds of jobs, nodes and reservations."""
    running = bed.submit(STAY, "-A", "bio", "--gres=gpu:a100:2", "--time=60", "-w", "n1")
    bed.submit(STAY, "-A", "vision", "-N2", "--exclusive", "--gres=gpu:8", "-w", "n2,n3")
    bed.submit(STAY, "--hold", "--array=0-5%2", "--nice=50", "--comment=a steward:saves=60 b")
    bed.submit(STAY, "--begin=now+1hour", "--requeue", "--nice=-5")
    bed.submit(STAY, f"--dependency=afterok:{running}", "--job-name", "ünïcode")
    failed = bed.submit("exit 3", "-A", "bio", "--gres=gpu:1", "-w", "n1")
    killed = bed.submit("kill -SEGV $$", "-w", "n1")
    over = {"FAILED", "CANCELLED"}
    bed.wait_for(lambda: {bed.state_of(failed), bed.state_of(killed)} <= over, why="ends")
    bed.wait_for(lambda: bed.state_of(running) == "RUNNING", why="a job that runs")
    bed.run("scontrol", "update", "nodename=n4", "state=drain", "reason=bad ECC on gpu3")
    maintenance = ("starttime=now+3600", "duration=60", "nodes=n3", "flags=maint,ignore_jobs")
    bed.run("scontrol", "create", "reservation", "reservationname=m", "user=root", *maintenance)
    yield bed
    bed.run("scontrol", "update", "nodename=n4", "state=resume")
    bed.run("scontrol", "delete", "reservationname=m")


def reader(bed: SlurmBed, address: str, file: Path | None = None) -> SlurmRest:
    settings = RestSettings(address=address, token_file=str(file or ""))
    conf = bed.env["SLURM_CONF"]
    made = slurm_reader(settings, folder="", conf=conf, timeout_s=LONG_S)
    assert isinstance(made, SlurmRest)
    return made


def control(address: str, file: Path | None = None, *, bed: SlurmBed | None = None) -> RestControl:
    settings = RestSettings(address=address, token_file=str(file or ""))
    folder, conf = ("", bed.env["SLURM_CONF"]) if bed else (NOWHERE, "")
    return RestControl(
        RestServer(settings, timeout_s=LONG_S), SlurmControl(folder=folder, conf=conf)
    )


def by_commands(bed: SlurmBed) -> SlurmCommands:
    return SlurmCommands(conf=bed.env["SLURM_CONF"], timeout_s=LONG_S)


# -- accounting --------------------------------------------------------------------------------


def test_accounting_of_slurmrestd_is_that_of_the_commands_but_for_exit_statuses(
    busy: SlurmBed, port: str, tmp_path: Path
) -> None:
    again = busy.submit(STAY, "-A", "bio", "--requeue", "-w", "n1")
    busy.wait_for(lambda: busy.state_of(again) == "RUNNING", why="a job that runs")
    busy.run("scontrol", "requeue", again)
    busy.wait_for(lambda: busy.state_of(again) == "PENDING", why="its requeue")
    busy.run("scancel", again)
    busy.run("sacctmgr", "-i", "modify", "account", "bio", "set", "GrpTRES=gres/gpu=16")
    file = token(busy, "root", file=tmp_path / "t")
    settings = RestSettings(address=port, token_file=str(file))
    rest = slurm_reader(settings, folder=NOWHERE, conf="", timeout_s=LONG_S)
    commands = by_commands(busy)

    def runs(reader: SlurmRest | SlurmCommands) -> list[SlurmJob]:
        found = reader.ended(past_s=3600.0, every_run=True)
        ran = (job for job in found if job.nodes and job.end_s)  # it leaves out what never ran
        same = (replace(job, exit_code=0, signal=0, cluster="") for job in ran)
        return sorted(same, key=lambda job: (job.submit_s, job.id))

    until(lambda: runs(rest) == runs(commands), why=lambda: f"{runs(rest)} {runs(commands)}")
    found = rest.accounting()

    assert {"REQUEUED"} <= {state for job in runs(rest) for state in job.states}
    assert {each.name: each for each in found.accounts} == {
        each.name: each for each in commands.accounting().accounts
    }
    assert "bio" in {each.name for each in found.accounts if each.gpu_limit == 16}


# -- watching ------------------------------------------------------------------------------------


def test_what_slurmrestd_shows_on_a_socket_is_what_the_commands_print(
    busy: SlurmBed, socket: str
) -> None:
    rest, commands = reader(busy, socket), by_commands(busy)

    def agree() -> bool:
        return rest.jobs() == commands.jobs() and rest.nodes() == commands.nodes()

    until(agree, why="a moment without changes")  # Slurm goes on between two looks
    assert len(rest.jobs()) >= 7
    assert rest.reservations() == commands.reservations()
    assert [each.name for each in rest.reservations()] == ["m"]
    assert rest.refused == 0


def test_what_slurmrestd_shows_to_a_token_is_what_the_commands_print(
    busy: SlurmBed, port: str, tmp_path: Path
) -> None:
    rest, commands = reader(busy, port, token(busy, "root", file=tmp_path / "t")), by_commands(busy)

    until(lambda: rest.jobs() == commands.jobs(), why="a moment without changes")
    until(lambda: rest.nodes() == commands.nodes(), why="a moment without changes")


def test_a_collector_sees_the_same_moment_by_slurmrestd_and_by_commands(
    busy: SlurmBed, socket: str
) -> None:
    conf = busy.env["SLURM_CONF"]

    def looks_agree() -> bool:
        t_s = time.time()
        by_rest = Slurm(rest=socket, conf=conf, timeout_s=LONG_S).collect(t_s)
        by_command = Slurm(conf=conf, timeout_s=LONG_S).collect(t_s)
        same = ("events", "jobs", "spans", "cluster", "tenants", "health", "draining")
        return by_rest.jobs != () and all(
            getattr(by_rest, name) == getattr(by_command, name) for name in same
        )

    until(looks_agree, why="two looks at one moment")


def test_every_job_looks_the_same_to_who_changes_it(busy: SlurmBed, socket: str) -> None:
    rest, commands = control(socket), SlurmControl(conf=busy.env["SLURM_CONF"])
    ids = [job.id for job in by_commands(busy).jobs()]
    waiting = [job for job in by_commands(busy).jobs() if "PENDING" in job.states]
    array = next(job.array.partition("_")[0] for job in waiting if job.array)

    until(lambda: rest.jobs(ids) == commands.jobs(ids), why="a moment without changes")

    assert len(rest.jobs(ids)) >= 7
    addresses = [each.address for each in commands.array_tasks(array)]
    assert [each.address for each in rest.array_tasks(array)] == addresses
    assert rest.task(f"{array}_3") == commands.task(f"{array}_3")
    assert rest.highest_priority("gpu") == commands.highest_priority("gpu")
    for node in ("n1", "n4"):
        seen, printed = rest.node(node), commands.node(node)
        assert (seen.drains, seen.reason) == (printed.drains, printed.reason)
    assert rest.node("n4").set_by == "root"


def test_an_expired_token_is_told_as_that(bed: SlurmBed, port: str, tmp_path: Path) -> None:
    file = token(bed, "root", file=tmp_path / "t", lifespan_s=1)
    slurm = Slurm(rest=port, rest_token_file=str(file), folder=NOWHERE)

    until(lambda: slurm.available().status == "missing", why="the end of the token")

    assert "the token expired" in slurm.available().reason
    token(bed, "root", file=file)
    assert slurm.available().status == "ok"  # the file was read again


def test_whoever_has_no_token_is_refused_with_a_hint(bed: SlurmBed, port: str) -> None:
    found = Slurm(rest=port, folder=NOWHERE).available()

    assert found.status == "missing"
    assert "needs a token" in found.reason


# -- changing ------------------------------------------------------------------------------------


def test_rights_are_those_of_the_token(bed: SlurmBed, port: str, tmp_path: Path) -> None:
    def level(user: str) -> tuple[str, Level]:
        rights = probe_rights(control(port, token(bed, user, file=tmp_path / user)))
        return rights.user, rights.level

    assert level("root") == ("root", Level.ADMINISTRATOR)
    assert level("mail") == ("mail", Level.OPERATOR)
    assert level(DAEMON) == (DAEMON, Level.OWNER)


def test_a_job_is_released_renamed_and_put_back_by_slurmrestd_alone(
    bed: SlurmBed, port: str, tmp_path: Path
) -> None:
    rest = control(port, token(bed, "root", file=tmp_path / "t"))
    id_ = bed.submit(STAY, "--hold", "--comment=before")
    late = bed.submit(STAY, "--begin=now+1hour")

    rest.change(changes.update_job(id_, nice=-7, comment="a steward:saves=60 'b\" c"))
    rest.change(changes.release(id_))
    rest.change(changes.update_job(late, start_in_s=0))

    bed.wait_for(lambda: {bed.state_of(each) for each in (id_, late)} == {"RUNNING"}, why="starts")
    seen = SlurmControl(conf=bed.env["SLURM_CONF"]).jobs([id_])[id_]
    assert (seen.nice, seen.mark.rest, seen.mark.save_s) == (-7, "a 'b\" c", 60.0)
    rest.change(changes.cancel(id_))
    bed.wait_for(lambda: bed.state_of(id_) == "CANCELLED", why="the cancel")


def test_somebody_elses_job_is_not_changed_without_the_right(
    bed: SlurmBed, port: str, tmp_path: Path
) -> None:
    id_ = bed.submit(STAY, "--hold")  # root's

    with pytest.raises(PermanentError, match=r"denied|Invalid user id") as caught:
        control(port, token(bed, DAEMON, file=tmp_path / "t")).change(changes.release(id_))

    assert "steward doctor" in caught.value.hint


def test_the_actuator_decides_by_slurmrestd_and_says_what_it_cannot(
    bed: SlurmBed, port: str, tmp_path: Path
) -> None:
    file = token(bed, "root", file=tmp_path / "t")
    slurm = SlurmActuator(
        rest=port, rest_token_file=str(file), folder=NOWHERE, timeout_s=LONG_S, settle_s=0.0
    )
    bed.submit(STAY, "-N4", "--exclusive")
    id_ = bed.submit(STAY, "-N4", "--exclusive", "--requeue", "--comment=steward:saves=1")
    wish = Reprioritise(job=JobId(id_), priority=5000, before=0)

    told = slurm.available()
    receipt = slurm.carry_out(decision("d-rest-1", action=wish, t_s=time.time()), time.time())

    assert told.status == "limited"
    assert "requeue" in told.reason
    assert "not in slurmrestd, refused" in told.reason
    assert Preempt not in slurm.actions()
    assert receipt.result in ("done", "begun"), receipt.text
    assert SlurmControl(conf=bed.env["SLURM_CONF"]).jobs([id_])[id_].nice != 0


def test_what_slurmrestd_cannot_do_is_done_by_commands_where_they_are(
    bed: SlurmBed, socket: str
) -> None:
    slurm = control(socket, bed=bed)
    id_ = bed.submit(STAY, "--requeue")
    bed.wait_for(lambda: bed.state_of(id_) == "RUNNING", why="a start")

    slurm.change(changes.drain("n4", "steward d-1: ECC"))
    slurm.change(changes.requeue(id_, hold=False))

    assert slurm.node("n4").drains
    slurm.change(changes.resume_node("n4"))
    bed.wait_for(lambda: bed.state_of(id_) != "RUNNING", why="the requeue")
