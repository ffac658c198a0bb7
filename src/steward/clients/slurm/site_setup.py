"""The configuration that a site needs, by version: printed for a person, never applied."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from steward.errors import StewardError

__all__ = ["CalledBackBy", "SiteSetup", "SlurmConfLine", "parse_version", "site_setup"]

OLDEST = (22, 5)
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.\d+)?")
_HOSTS = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]|\[\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*\])*"
_NODES = re.compile(rf"{_HOSTS}(?:,{_HOSTS})*")
_ACCOUNT = re.compile(r"[A-Za-z_][A-Za-z0-9_.@-]{0,63}")
_LISTS = (
    "AccountingStorageTRES",
    "AccountingStoreFlags",
    "GresTypes",
    "PreemptParameters",
    "SlurmctldParameters",
)


CalledBackBy = Literal["slurm", "steward"]
_CALLED_BACK: Mapping[CalledBackBy, tuple[str, ...]] = {
    "slurm": (),
    "steward": (
        "steward calls the pool back: decide.policies has commons, loop.autonomy is auto",
        "while steward is down, guaranteed jobs wait until jobs of the pool end",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmConfLine:
    """One line of slurm.conf. `current` is what the controller has instead, as far as known."""

    key: str
    value: str
    why: str
    current: str | None = None

    @property
    def text(self) -> str:
        return f"{self.key}={self.value}"

    @property
    def present(self) -> bool:
        """Whether the controller runs with it already."""
        return self.current is not None and self.current.lower() == self.value.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSetup:
    """Lines for slurm.conf, commands for an administrator, and lines for users' scripts."""

    version: str
    lines: tuple[SlurmConfLine, ...]
    partitions: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...]
    script_lines: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def slurm_conf(self) -> str:
        """The lines that go into slurm.conf, those that are there already included."""
        return "\n".join([*(each.text for each in self.lines), *self.partitions]) + "\n"


def parse_version(text: str) -> tuple[int, int]:
    """Return year and month of a version.

    >>> parse_version("slurm 22.05.8")
    (22, 5)
    """
    found = _VERSION.search(text)
    if found is None or (int(found[1]), int(found[2])) < OLDEST:
        hint = "steward knows Slurm from 22.05 on; `scontrol --version` prints it"
        raise StewardError(f"the version is {text!r}, not one as 23.11", hint=hint)
    return int(found[1]), int(found[2])


def site_setup(
    version: str,
    *,
    nodes: str = "ALL",
    account: str = "steward",
    grace_s: int = 60,
    called_back_by: CalledBackBy = "slurm",
    current: Mapping[str, str] | None = None,
) -> SiteSetup:
    """Return what a site of that version needs. `current` is what its controller runs with.

    `called_back_by`: who stops jobs of the pool when a guaranteed job waits. Slurm also does it
    while steward is down; steward lets each job save for as long as it said, and not much longer.
    """
    release = parse_version(version)
    _check(nodes, account)
    lines = tuple(
        SlurmConfLine(
            key=key, value=_merged(key, value, current), why=why, current=_now(key, current)
        )
        for key, value, why in _wanted(release)
    )
    return SiteSetup(
        version=f"{release[0]}.{release[1]:02}",
        lines=lines,
        partitions=_partitions(nodes, grace_s, called_back_by),
        commands=_commands(account),
        script_lines=(
            "#SBATCH --partition=pool",
            "#SBATCH --requeue",
            "#SBATCH --open-mode=append",
            f"#SBATCH --signal=B:USR2@{grace_s}",
            f"#SBATCH --comment=steward:saves={grace_s}",
        ),
        notes=(*_notes(release, grace_s), *_CALLED_BACK[called_back_by]),
    )


def _check(nodes: str, account: str) -> None:
    """Refuse what would become another line, or none that Slurm reads."""
    if not _NODES.fullmatch(nodes):
        problem, hint = f"{nodes!r} is no list of nodes", "write n1,n2 or gpu[01-16], or ALL"
        raise StewardError(problem, where="--nodes", hint=hint)
    if not _ACCOUNT.fullmatch(account):
        hint = "write the login name that steward runs as, such as steward"
        raise StewardError(f"{account!r} is no name of a user", where="--account", hint=hint)


def _wanted(release: tuple[int, int]) -> list[tuple[str, str, str]]:
    signal = (
        ("PreemptParameters", "send_user_signal")
        if release >= (23, 2)
        else ("SlurmctldParameters", "preempt_send_user_signal")
    )
    return [
        ("PreemptType", "preempt/partition_prio", "the partition decides who gives way"),
        ("PreemptMode", "REQUEUE", "who gives way goes back into the queue"),
        (*signal, "a job that is preempted gets its --signal at once, not at the kill"),
        ("JobRequeue", "1", "jobs may be requeued, unless submitted with --no-requeue"),
        ("JobFileAppend", "1", "a job that goes on keeps its log; else Slurm empties it"),
        ("GresTypes", "gpu", "GPUs are counted"),
        ("AccountingStorageType", "accounting_storage/slurmdbd", "history, shares and operators"),
        ("AccountingStorageTRES", "gres/gpu", "accounting knows GPUs"),
        ("AccountingStoreFlags", "job_comment", "decisions and tokens stay with ended jobs"),
        ("PriorityType", "priority/multifactor", "nice and fair share count"),
    ]


def _partitions(nodes: str, grace_s: int, called_back_by: CalledBackBy) -> tuple[str, ...]:
    gpu, pool = f"PartitionName=gpu Nodes={nodes}", f"PartitionName=pool Nodes={nodes}"
    by_slurm = f"PreemptMode=REQUEUE GraceTime={grace_s}"
    return (
        f"{gpu} Default=YES State=UP PriorityTier=10 PreemptMode=OFF",
        f"{pool} Default=NO State=UP PriorityTier=1 "
        + (by_slurm if called_back_by == "slurm" else "PreemptMode=OFF"),
    )


def _commands(account: str) -> tuple[tuple[str, ...], ...]:
    add = ("sacctmgr", "--immediate", "add", "user", account, "account=root")
    return (
        add,
        ("sacctmgr", "--immediate", "modify", "user", account, "set", "adminlevel=Operator"),
    )


def _notes(release: tuple[int, int], grace_s: int) -> tuple[str, ...]:
    requeued = (
        "runs again from its start even if it had finished"
        if release >= (24, 5)
        else ("is over and never requeued")
    )
    wait = (
        "SchedulerParameters=requeue_delay=SECONDS shortens the wait after a requeue"
        if release >= (25, 11)
        else "a requeued job waits 121 s (AuthInfo=cred_expire); steward's resume ends that"
    )
    return (
        "an operator changes all jobs and drains no node: adminlevel=Administrator does both",
        "the end of a grace time is checked every 30 s: the kill may come that much later",
        f"a script that exits within the {grace_s} s of its grace {requeued}: go on after USR2",
        wait,
        "a reservation closes its nodes to gpu and pool: nothing there is lent or called back",
        "slurmdbd and its database have to run before AccountingStorageType is set",
        "keys with several values are shown merged with those of the controller",
    )


def _now(key: str, current: Mapping[str, str] | None) -> str | None:
    if current is None:
        return None
    value = current.get(key, "")
    return "" if value in ("(null)", "N/A") else value


def _merged(key: str, value: str, current: Mapping[str, str] | None) -> str:
    """Add a value to a list that the controller has already."""
    now = _now(key, current)
    if not now or key not in _LISTS:
        return value
    there = now.split(",")
    return now if value in there else ",".join([*there, value])
