"""Changes a Slurm: looks at what is to be changed, runs the command, reads the answer."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from steward.clients.slurm.asked_gpus import AskedGpus, read_asked_gpus
from steward.clients.slurm.changes import Command
from steward.clients.slurm.job_mark import MOST_BYTES, JobMark
from steward.clients.slurm.program import (
    SEPARATOR,
    Answer,
    SlurmError,
    SlurmPrograms,
    fresh_separator,
    own_account,
    rows_of,
    squeue_form,
)
from steward.clients.slurm.queue_entry import (
    COLUMN_COUNT,
    COLUMNS,
    GOES,
    QueueEntry,
    entry_from_line,
)
from steward.clients.slurm.refusals import reason_in, refusal
from steward.clients.slurm.reservations import SlurmReservation, reservation_from_line
from steward.clients.slurm.syntax import holder
from steward.clock import Clock, WallClock
from steward.errors import PermanentError, StewardError, TemporaryError
from steward.model.hostlist import hosts

__all__ = ["ArrayTask", "NodeEntry", "QueueTop", "RequestBudget", "SlurmControl"]

PING_S = 3.0  # a healthy controller answers in 20 ms; a hung one makes each command wait for 10 s
OUR_SHARE = 2 / 3
FRESH_S = 2.0  # for so long after an answer the controller is not pinged again
_DAEMONS = ("slurmctld", "slurmd", "slurmdbd")
_TASK = re.compile(r"\d+_\d+")
_EXCLUDED = re.compile(r"\bExcNodeList=(\S+)")
_PLACE_IN_QUEUE = {
    "JobArrayID": 64,
    "PriorityLong": 24,
    "Reason": 256,
    "Nice": 24,
    "Comment": MOST_BYTES,
}
_DOWN = "look at `scontrol ping` and at slurmctld's log on the controller"


class RequestBudget:
    """How many requests may be sent: a bucket that fills again, as Slurm's own limit is one.

    A request that has to wait for less than `patience_s` waits; others are refused as temporary.
    """

    def __init__(
        self,
        *,
        burst: float = 200.0,
        per_s: float = 20.0,
        patience_s: float = 1.0,
        clock: Clock | None = None,
    ) -> None:
        self._burst, self._per_s, self._patience_s = burst, per_s, patience_s
        self._clock = clock or WallClock()
        self._left, self._at_s = burst, self._clock.elapsed_s()

    @classmethod
    def below(cls, parameters: str) -> RequestBudget:
        """Return one below the limit in `SlurmctldParameters`: people use the same account.

        >>> RequestBudget.below("rl_enable,rl_refill_rate=3").per_s
        2.0
        """
        given = dict(part.partition("=")[::2] for part in parameters.split(","))
        if "rl_enable" not in given:
            return cls()
        size, rate, period = (
            float(given.get(name) or default)
            for name, default in (
                ("rl_bucket_size", 30),
                ("rl_refill_rate", 2),
                ("rl_refill_period", 1),
            )
        )
        return cls(burst=size * OUR_SHARE, per_s=rate / period * OUR_SHARE)

    @property
    def per_s(self) -> float:
        return self._per_s

    def take(self) -> None:
        """Count one request, or raise when it has to wait for long."""
        now_s = self._clock.elapsed_s()
        self._left = min(self._burst, self._left + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        wait_s = max(0.0, (1.0 - self._left) / self._per_s)
        if wait_s > self._patience_s:
            problem = f"too many requests to Slurm: the next in {wait_s:.1f} s"
            raise TemporaryError(problem, retry_after_s=wait_s)
        if wait_s:
            self._clock.wait(wait_s, threading.Event())
        self._left -= 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEntry:
    """One node: whether it takes new jobs, and who said why not."""

    name: str
    state: str
    reason: str
    set_by: str
    reboots: bool = False  # a restart was asked for, and is not over

    @property
    def drains(self) -> bool:
        return self.state.startswith("drain")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTop:
    """The highest priorities in a partition; 0 where none waits."""

    first: int
    second: int  # without the job for which Slurm keeps room: it waits for `Resources`


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayTask:
    """A task of an array: `job` is the number of the job that it is a part of.

    `goes`: it runs, or was let go and waits by itself.
    """

    job: str
    address: str
    mark: JobMark
    waits: bool
    goes: bool


class SlurmControl:
    """One cluster, to be changed. Errors are temporary or permanent, in Slurm's words."""

    def __init__(
        self,
        *,
        folder: str = "",
        conf: str = "",
        timeout_s: float = 15.0,
        budget: RequestBudget | None = None,
    ) -> None:
        self.programs = SlurmPrograms(folder=folder, conf=conf)
        self.timeout_s = timeout_s
        self._budget = budget or RequestBudget()
        self._limit = ""  # SlurmctldParameters, by which requests are limited
        self._answered_s = float("-inf")

    @property
    def user(self) -> str:
        """The account that runs this process."""
        if name := own_account():
            return name
        problem = f"the account {os.geteuid()} has no name"
        raise StewardError(problem, hint="Slurm knows accounts by name")

    # -- looking -------------------------------------------------------------------------------

    def jobs(self, ids: Iterable[str]) -> dict[str, QueueEntry]:
        """Return those of these jobs that Slurm still knows, in one request.

        Of an array also the tasks that have numbers of their own.
        """
        wanted = sorted({*ids})
        if not wanted:
            return {}
        found = self._entries(("--jobs=" + ",".join(wanted),))
        return {each.id: each for each in found if {each.id, each.array} & {*wanted}}

    def array_tasks(self, array: str) -> list[ArrayTask]:
        """Return the tasks of an array that Slurm knows, one by one, by their indices.

        Else squeue shows those that wait as one, with the comment of one of them, whether they are
        held or were let go.
        """
        how = ("--noheader", "--array", "--states=all", f"--jobs={array}")
        widths = {"JobID": 32, "JobArrayID": 64, "State": 24, "Reason": 64, "Comment": MOST_BYTES}
        found = [
            ArrayTask(
                job=id_,
                address=address,
                mark=JobMark.read(comment),
                waits=state == "PENDING",
                goes=state in GOES or (state == "PENDING" and not holder(reason)),
            )
            for id_, address, state, reason, comment in self._cells(how, widths)
            if _TASK.fullmatch(address)
        ]
        return sorted(found, key=lambda each: int(each.address.partition("_")[2]))

    def task(self, address: str) -> QueueEntry | None:
        """Return one task of an array; None if Slurm has forgotten it."""
        return next(iter(self._entries((f"--jobs={address}",))), None)

    def named(self, name: str) -> list[QueueEntry]:
        """Return the jobs of this name, oldest first."""
        found = self._entries((f"--name={name}",))
        return sorted(found, key=lambda each: int(each.id))

    def with_token(self, token: str) -> list[QueueEntry]:
        """Return this account's jobs with that token in their comment, oldest first."""
        how = ("--noheader", "--states=all", f"--user={self.user}")
        cells = self._cells(how, {"JobID": 32, "Comment": MOST_BYTES})
        ids = {id_ for id_, comment in cells if JobMark.read(comment).token == token}
        found = self._entries(("--jobs=" + ",".join(sorted(ids)),)) if ids else []
        ours = [each for each in found if each.mark.token == token]
        return sorted(ours, key=lambda each: int(each.id))

    def highest_priority(
        self, partition: str, *, raised: Collection[str] = frozenset()
    ) -> QueueTop:
        """Return the highest priorities of the jobs that wait in a partition.

        Without those that steward has raised: who is raised above them would go before them, and
        the last one first. `raised` are the addresses of those that are known to be.
        """
        how = ("--noheader", "--states=PENDING", f"--partition={partition}")
        cells = self._cells(how, _PLACE_IN_QUEUE)
        found = [
            (int(priority), reason)
            for address, priority, reason, nice, comment in cells
            if priority.isdecimal()
            and address not in raised
            and not JobMark.read(comment).is_raised(_signed(nice))
        ]
        return QueueTop(
            first=max((priority for priority, _ in found), default=0),
            second=max((priority for priority, why in found if why != "Resources"), default=0),
        )

    def node(self, name: str) -> NodeEntry:
        """Return one node."""
        separator = fresh_separator()
        columns = separator.join(("%N", "%T", "%E", "%u"))
        text = self._read(("sinfo", "--noheader", "-N", f"--nodes={name}", f"--format={columns}"))
        cells = text.partition("\n")[0].split(separator)  # one line for each of its partitions
        if len(cells) != 4:
            raise PermanentError(f"Slurm has no node {name}", hint="`sinfo -N` lists them")
        reason = "" if cells[2] == "none" else cells[2]
        state = cells[1].lower().rstrip("*~#!%$@^-+")
        reboots = any(mark in cells[1] for mark in "@^")
        return NodeEntry(
            name=cells[0], state=state, reason=reason, set_by=cells[3], reboots=reboots
        )

    def asked_gpus(self, address: str) -> AskedGpus | None:
        """Return what GPUs a job asks for; None if it asks for none, or not in one plain field."""
        return read_asked_gpus(self._read(("scontrol", "show", "job", address)))

    def excluded_nodes(self, address: str) -> tuple[str, ...]:
        """Return the nodes on which a job is not to start."""
        text = self._read(("scontrol", "show", "job", address))
        found = _EXCLUDED.search(text)
        return () if found is None or found[1] == "(null)" else hosts(found[1])

    def reservations(self) -> list[SlurmReservation]:
        """Return all reservations of whole nodes, also those to come."""
        lines = self._read(("scontrol", "--oneliner", "show", "reservation")).split("\n")
        found = (reservation_from_line(line) for line in lines)
        return [each for each in found if each is not None]

    def configuration(self) -> Mapping[str, str]:
        """Return what the controller runs with, and keep below its limit from now on."""
        lines = self._read(("scontrol", "show", "config")).splitlines()
        pairs = (line.partition("=") for line in lines)
        found = {name.strip(): value.strip() for name, sep, value in pairs if sep}
        limit = found.get("SlurmctldParameters", "")
        exempt = os.geteuid() == 0 or self.user == found.get("SlurmUser", "").partition("(")[0]
        if not exempt and limit != self._limit:
            self._limit, self._budget = limit, RequestBudget.below(limit)
        return found

    def superuser(self) -> str:
        """Return why Slurm lets this process do everything; nothing if it does not."""
        slurm_user = self.configuration().get("SlurmUser", "").partition("(")[0]
        if os.geteuid() == 0:
            return "root"
        return "the SlurmUser" if self.user == slurm_user else ""

    def admin_level(self, user: str) -> str:
        """Return what accounting lets a user do: `None`, `Operator`, `Administrator`, or ""."""
        what = ("show", "user", user, "format=User,AdminLevel")
        line = self._read(("sacctmgr", "--noheader", "--parsable2", *what)).partition("\n")[0]
        return line.partition("|")[2]

    def accounted(self, name: str, *, past_s: float) -> list[str]:
        """Return the ids of this account's jobs of this name that accounting has."""
        since = f"now-{max(1, int(past_s))}seconds"
        how = ("--allocations", "--noheader", "--parsable2", f"--starttime={since}")
        which = (f"--user={self.user}", f"--name={name}")
        text = self._read(("sacct", *how, *which, "--format=JobIDRaw"))
        return sorted({*text.split()}, key=int)

    def accounted_token(self, token: str, *, past_s: float) -> list[str]:
        """Return the ids of this account's jobs that were submitted with a token, of accounting.

        The comment is there only if the site keeps it; the line that submitted a job always is.
        """
        since = f"now-{max(1, int(past_s))}seconds"
        how = ("--allocations", "--noheader", "--parsable2", f"--starttime={since}")
        what = (f"--user={self.user}", "--format=JobID,SubmitLine")
        lines = [line.partition("|") for line in self._read(("sacct", *how, *what)).split("\n")]
        word = re.compile(rf"[ =]steward:job={re.escape(token)}(?!\S)")
        ids = {id_.partition("_")[0] for id_, _, text in lines if word.search(text)}
        return sorted((each for each in ids if each.isdecimal()), key=int)

    def version(self) -> str:
        """Return Slurm's version, e.g. `22.05.8`, without a request to the controller."""
        answer = self.programs.run(("scontrol", "--version"), timeout_s=PING_S)
        if answer.code != 0:
            hint = "is SLURM_CONF, or plugs.slurm.conf, the slurm.conf of a cluster?"
            raise SlurmError(reason_in(answer), where="scontrol", hint=hint)
        return answer.out.rpartition(" ")[2]

    def installed_version(self) -> str:
        """Return the version of a daemon that is installed here, which needs no cluster; or ''."""
        for daemon in _DAEMONS:
            if self.programs.find(daemon):
                answer = self.programs.run((daemon, "-V"), timeout_s=PING_S)
                if answer.code == 0:
                    return answer.out.rpartition(" ")[2]
        return ""

    # -- changing ------------------------------------------------------------------------------

    def change(self, command: Command) -> str:
        """Run a command that changes something, and return what it printed."""
        return self._run(command).out

    def check_answers(self) -> None:
        """Raise unless the controller answers: a hung one costs each command its whole timeout."""
        if time.monotonic() - self._answered_s < FRESH_S:
            return
        self._budget.take()
        answer = self.programs.run(("scontrol", "ping"), timeout_s=PING_S)
        if " is UP" not in answer.out:
            down = "is DOWN" in answer.out
            reason = "Slurm's controller is down" if down else reason_in(answer)
            raise TemporaryError(reason, where="scontrol ping", hint=_DOWN)
        self._answered_s = time.monotonic()

    # -- running -------------------------------------------------------------------------------

    def rows(self, which: Iterable[str], form: str, columns: int) -> list[str]:
        """Return rows of squeue; none for a job that Slurm does not know."""
        try:
            text = self._run(("squeue", *which), form=form).out
        except PermanentError as fault:
            if "invalid job id" in fault.problem.lower():
                return []
            raise
        return rows_of(text, columns)

    def _entries(self, which: tuple[str, ...]) -> list[QueueEntry]:
        rows = self.rows(("--noheader", "--states=all", *which), COLUMNS, COLUMN_COUNT)
        found = [entry_from_line(row) for row in rows]
        return [each for each in found if each is not None]

    def _cells(self, which: Iterable[str], widths: Mapping[str, int]) -> list[list[str]]:
        rows = self.rows(which, squeue_form(widths), len(widths))
        return [[cell.strip() for cell in row.split(SEPARATOR)[:-1]] for row in rows]

    def _read(self, command: Command) -> str:
        return self._run(command).out

    def _run(self, command: Command, *, form: str = "") -> Answer:
        self.check_answers()
        self._budget.take()
        answer = self.programs.run(command, timeout_s=self.timeout_s, form=form)
        if answer.code != 0:
            self._answered_s = float("-inf")
            raise refusal(command[0], answer)
        return answer


def _signed(text: str) -> int:
    """Return a number in digits, also below 0; 0 for anything else."""
    return int(text) if text.removeprefix("-").isdecimal() else 0
