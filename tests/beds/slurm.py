"""A real Slurm on this machine: a controller, nodes with eight fake GPUs each, and accounting.

Everything listens on ports of its own, lies in one folder, and is stopped by process id. It needs
root and the Debian packages of `scripts/install-real-parts`.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from patience import LONG_S, free_port

NODES = ("n1", "n2", "n3", "n4")
GPUS = 8
ACCOUNTS = {"bio": 1, "vision": 1}  # their shares


@dataclass(kw_only=True)
class SlurmBed:
    """A running Slurm. `env` makes Slurm's own commands speak to it."""

    folder: Path
    env: dict[str, str]
    nodes: tuple[str, ...] = NODES
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def run(self, *command: str, timeout_s: float = 120.0) -> str:
        """Run one of Slurm's commands and return what it said."""
        done = subprocess.run(
            command, env=self.env, capture_output=True, text=True, timeout=timeout_s, check=False
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr or done.stdout}"
        return done.stdout.strip()

    def submit(self, script: str, *options: str) -> str:
        """Submit a job and return its id."""
        out = str(self.folder / "job-%j.out")
        said = self.run("sbatch", "--parsable", "-o", out, *options, "--wrap", script)
        return said.partition(";")[0]

    def wait_for(self, what: Callable[[], bool], *, why: str) -> None:
        """Wait until it holds."""
        end_s = time.monotonic() + LONG_S
        while not what():
            assert time.monotonic() < end_s, f"waited in vain for {why}; {self.logs()}"
            time.sleep(0.1)

    def calm(self) -> None:
        """Cancel everything and wait until all nodes are idle."""
        for user in {*self.run("squeue", "--noheader", "--format=%u").split()}:
            self.run("scancel", f"--user={user}")
        self.wait_for(lambda: _idle_nodes(self) == len(self.nodes), why="idle nodes")

    def start(self, name: str, *command: str | Path) -> None:
        """Start a daemon in the foreground, its words in a file."""
        with (self.folder / f"{name}.out").open("wb") as out:
            self.daemons[name] = subprocess.Popen(
                [str(part) for part in command],
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self.env,
                start_new_session=True,
            )

    def stop(self, name: str) -> None:
        """Stop one daemon, and what it has started."""
        daemon = self.daemons.pop(name)
        daemon.terminate()
        try:
            daemon.wait(timeout=60)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()

    def kill_controller(self) -> None:
        """End the controller as a crash does. Its jobs and nodes go on."""
        controller = self.daemons.pop("slurmctld")
        controller.kill()
        controller.wait()

    def start_controller(self) -> None:
        self.start("slurmctld", "slurmctld", "-D", "-f", self.folder / "slurm.conf")

    def controller_answers(self) -> bool:
        return _succeeds(self, ["scontrol", "ping"])

    def state_of(self, job: str) -> str:
        said = self.run("scontrol", "-o", "show", "job", job)
        return said.partition("JobState=")[2].partition(" ")[0]

    def logs(self) -> str:
        """Return the last lines of every log, for a test that fails."""
        files = sorted([*self.folder.glob("*.log"), *self.folder.glob("*.out")])
        return "\n".join(
            f"{file.name}: {file.read_text(errors='replace')[-400:]}" for file in files
        )


@contextmanager
def slurm_bed(
    folder: Path,
    *,
    conf: str = "",
    nodes: Sequence[str] = NODES,
    accounts: Mapping[str, int] = ACCOUNTS,
    gpus: int = GPUS,
    accounting_conf: str = "",
) -> Iterator[SlurmBed]:
    """Run a Slurm in a folder until the block ends. `accounts` have so many shares each.

    Each node has so many `gpus`, and two CPUs for each.

    Lines of `conf` stand instead of the bed's own ones with the same key; those of
    `accounting_conf` come into slurmdbd.conf. Other accounts reach it
    if they may enter the folder.
    """
    for program in ("slurmctld", "slurmd", "slurmdbd", "munged", "mariadbd"):
        assert shutil.which(program) or Path("/usr/sbin", program).exists(), (
            f"{program} is not installed: run scripts/install-real-parts"
        )
    assert os.geteuid() == 0, "a Slurm of our own needs root"
    bed = SlurmBed(folder=folder, env=_environment(folder), nodes=tuple(nodes))
    try:
        _bring_up(bed, (conf, accounting_conf), accounts, gpus)
        yield bed
    finally:
        _cancel_all(bed)
        for name in reversed(list(bed.daemons)):
            bed.stop(name)


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin"
    return {**kept, "SLURM_CONF": str(folder / "slurm.conf"), "PATH": path}


def _bring_up(bed: SlurmBed, conf: tuple[str, str], accounts: Mapping[str, int], gpus: int) -> None:
    ports = [free_port() for _ in range(3 + len(bed.nodes))]
    _write_files(bed, ports, conf, gpus)
    _start_munge(bed)
    _start_database(bed, ports[2])
    bed.start("slurmdbd", "slurmdbd", "-D")
    bed.wait_for(lambda: listens(ports[1]), why="slurmdbd")
    bed.run("sacctmgr", "-i", "add", "cluster", "bed")
    for account, shares in accounts.items():
        bed.run("sacctmgr", "-i", "add", "account", account, f"fairshare={shares}")
    bed.run("sacctmgr", "-i", "add", "user", "root", f"account={','.join(accounts)}")
    bed.start_controller()
    for node in bed.nodes:
        file = bed.folder / "slurm.conf"
        bed.start(f"slurmd-{node}", "slurmd", "-D", "-f", file, "-N", node)
    bed.wait_for(lambda: _idle_nodes(bed) == len(bed.nodes), why="idle nodes")


def _start_munge(bed: SlurmBed) -> None:
    folder = bed.folder / "munge"
    folder.mkdir(mode=0o755)
    (folder / "key").write_bytes(os.urandom(128))
    (folder / "key").chmod(0o600)
    bed.start(
        "munged",
        "munged",
        "--force",
        "--foreground",
        f"--socket={folder / 'socket'}",
        f"--key-file={folder / 'key'}",
        f"--pid-file={folder / 'pid'}",
        f"--seed-file={folder / 'seed'}",
        f"--log-file={folder / 'log'}",
    )
    bed.wait_for((folder / "socket").exists, why="munge")


def _start_database(bed: SlurmBed, port: int) -> None:
    base, sock = bed.folder / "mysql", bed.folder / "mysql.sock"
    options = ["--no-defaults", f"--datadir={base}", "--user=root", f"--tmpdir={bed.folder}"]
    bed.run(
        "mariadb-install-db", *options, "--skip-test-db", "--auth-root-authentication-method=normal"
    )
    small = [
        "--innodb-buffer-pool-size=64M",
        "--innodb-log-file-size=16M",
        "--innodb-lock-wait-timeout=900",
    ]
    where = [f"--socket={sock}", f"--port={port}", "--bind-address=127.0.0.1"]
    bed.start("mariadbd", "mariadbd", *options, *small, *where)
    ask = ["mariadb", "--no-defaults", f"--socket={sock}", "-uroot", "-e"]
    bed.wait_for(lambda: _succeeds(bed, [*ask, "select 1"]), why="MariaDB")
    bed.run(
        *ask,
        "create database slurm; create user slurm@127.0.0.1 identified by 'slurm';"
        " grant all on slurm.* to slurm@127.0.0.1;",
    )


def _write_files(bed: SlurmBed, ports: Sequence[int], confs: tuple[str, str], gpus: int) -> None:
    conf, accounting_conf = confs
    folder, every = bed.folder, ",".join(bed.nodes)
    controller, accounting, database, *nodes = ports
    (folder / "dev").mkdir()
    for index in range(gpus):
        os.mknod(folder / "dev" / f"nvidia{index}", 0o20666, os.makedev(1, 3))
    munge = f"AuthInfo=socket={folder}/munge/socket\n"
    lines = [
        f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs={2 * gpus}"
        f" RealMemory=20000 Gres=gpu:a100:{gpus}\n"
        for name, port in zip(bed.nodes, nodes, strict=True)
    ]
    (folder / "slurm.conf").write_text(
        _replaced(
            SLURM_CONF.format(
                folder=folder, controller=controller, accounting=accounting, nodes=every
            ),
            conf,
        )
        + munge
        + "".join(lines)
        + conf
    )
    (folder / "gres.conf").write_text(
        f"AutoDetect=off\nNodeName={every} Name=gpu Type=a100"
        f" File={folder}/dev/nvidia[0-{gpus - 1}]\n"
    )
    (folder / "slurmdbd.conf").write_text(
        SLURMDBD_CONF.format(folder=folder, accounting=accounting, database=database)
        + munge
        + accounting_conf
    )
    (folder / "slurmdbd.conf").chmod(0o600)


def _replaced(conf: str, by: str) -> str:
    keys = {line.partition("=")[0] for line in by.splitlines()}
    kept = [line for line in conf.splitlines() if line.partition("=")[0] not in keys]
    return "\n".join(kept) + "\n"


def _cancel_all(bed: SlurmBed) -> None:
    if "slurmctld" in bed.daemons:
        for how in (
            ["--full", "--signal=KILL", "--state=RUNNING"],
            ["--state=RUNNING"],
            ["--state=PENDING"],
        ):
            subprocess.run(
                ["scancel", *how], env=bed.env, capture_output=True, timeout=60, check=False
            )
    for pid in _steps(bed.folder):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _steps(folder: Path) -> list[int]:
    """Return the job steps of this bed that still run, and what they have started.

    Steps outlive their slurmd, and the processes of a job outlive a step that is killed.
    """
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environ = (entry / "environ").read_bytes()
            step = (entry / "comm").read_text().startswith("slurmstepd")
        except OSError:
            continue
        of_job = f"SLURM_CONF={folder}/".encode() in environ and b"\0SLURM_JOB_ID=" in environ
        found += [int(entry.name)] if of_job or (step and str(folder).encode() in environ) else []
    return found


def _idle_nodes(bed: SlurmBed) -> int:
    done = subprocess.run(
        ["sinfo", "-h", "-N", "-p", "gpu", "-o", "%N %t"],
        env=bed.env,
        capture_output=True,
        text=True,
        check=False,
    )
    return sum(line.endswith(" idle") for line in done.stdout.splitlines())


def _succeeds(bed: SlurmBed, command: Sequence[str]) -> bool:
    return not subprocess.run(command, env=bed.env, capture_output=True, check=False).returncode


def listens(port: int) -> bool:
    """Return whether something listens on a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


SLURM_CONF = """\
ClusterName=bed
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1
PriorityType=priority/multifactor
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
GresTypes=gpu
JobRequeue=0
MinJobAge=300
KillWait=1
SlurmdTimeout=300
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={accounting}
AccountingStoragePass={folder}/munge/socket
AccountingStorageTRES=gres/gpu
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
PartitionName=gpu Nodes={nodes} Default=YES PriorityTier=10 PreemptMode=OFF MaxTime=INFINITE
PartitionName=pool Nodes={nodes} PriorityTier=1 PreemptMode=REQUEUE MaxTime=1-00:00:00
"""

SLURMDBD_CONF = """\
AuthType=auth/munge
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={accounting}
SlurmUser=root
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm
"""
