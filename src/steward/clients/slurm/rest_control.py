"""Changes a Slurm through slurmrestd: looks by its lists, changes by its requests.

What a version of the API cannot do is done by Slurm's commands where this machine has them, as the
account of this process; else it is refused with that reason.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from steward.clients.slurm.changes import Command, shown
from steward.clients.slurm.control import (
    FRESH_S,
    ArrayTask,
    NodeEntry,
    QueueTop,
    RequestBudget,
    SlurmControl,
)
from steward.clients.slurm.json_answer import problem_in, read_list
from steward.clients.slurm.nodes import node_from_json
from steward.clients.slurm.program import Answer, SlurmError
from steward.clients.slurm.queue_entry import QueueEntry, entry_from_json
from steward.clients.slurm.refusals import refusal
from steward.clients.slurm.rest import RestApi, RestDeniedError, RestServer, RestSettings
from steward.clients.slurm.rest_changes import JOB, not_served, request_of
from steward.clients.slurm.syntax import upper_names
from steward.errors import PermanentError, TemporaryError

__all__ = ["RestControl", "slurm_control"]

T = TypeVar("T")
USER = "slurmdb/user/{}"
_INDICES = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")  # of tasks: 1, 3-5 or 0-20:5
_DOWN = "is slurmctld up (`scontrol ping` there), and does it accept the token?"


class RestControl:
    """One cluster, to be changed. Errors are temporary or permanent, in Slurm's words."""

    def __init__(
        self, server: RestServer, commands: SlurmControl, *, budget: RequestBudget | None = None
    ) -> None:
        self._server = server
        self._commands = commands
        self._budget = budget or RequestBudget()
        self._numbers: dict[str, str] = {}  # of tasks that are jobs of their own, by address
        self._answered_s = float("-inf")
        self._levels: dict[str, str] = {}  # of users, as accounting had them last

    @property
    def user(self) -> str:
        """The account that slurmrestd acts as."""
        return self._asked(lambda: self._server.user)

    @property
    def has_commands(self) -> bool:
        """Whether Slurm's commands can do what slurmrestd does not."""
        return self._commands.programs.find("scontrol") is not None

    def not_served(self) -> list[str]:
        """Return in words what slurmrestd does not do."""
        return not_served(self._asked(self._server.api))

    def version(self) -> str:
        """Return Slurm's version and that of the API."""
        meta = self._ask("GET", "slurm/ping").get("meta") or {}
        release = (meta.get("slurm") or meta.get("Slurm") or {}).get("release", "?")
        return f"{release} by slurmrestd {self._api.version} at {self._server.where}"

    # -- looking -------------------------------------------------------------------------------

    def jobs(self, ids: Iterable[str]) -> dict[str, QueueEntry]:
        """Return those of these jobs that Slurm still knows, in one request.

        Of an array also the tasks that have numbers of their own.
        """
        wanted = {*ids}
        found = self._entries() if wanted else []
        return {each.id: each for each in found if {each.id, each.array} & wanted}

    def array_tasks(self, array: str) -> list[ArrayTask]:
        """Return the tasks of an array that Slurm knows, one by one, by their indices."""
        found = [
            ArrayTask(
                job=each.id, address=address, mark=each.mark, waits=each.waits, goes=each.goes
            )
            for each in self._entries()
            if each.array == array
            for address in _addresses(each)
        ]
        return sorted(found, key=lambda each: int(each.address.partition("_")[2] or 0))

    def task(self, address: str) -> QueueEntry | None:
        """Return one task of an array; None if Slurm has forgotten it."""
        array = address.partition("_")[0]
        known = (each for each in self._entries() if array in (each.array, each.id))
        found = (each for each in known if address in _addresses(each))
        return next((replace(each, address=address, at_once=None) for each in found), None)

    def named(self, name: str) -> list[QueueEntry]:
        """Return the jobs of this name, oldest first."""
        found = [each for each in self._entries() if each.name == name]
        return sorted(found, key=lambda each: int(each.id))

    def highest_priority(
        self, partition: str, *, raised: Collection[str] = frozenset()
    ) -> QueueTop:
        """Return the highest priorities of the jobs that wait in a partition, but for raised ones.

        See `SlurmControl.highest_priority`.
        """
        found = [
            each
            for each in self._entries()
            if each.waits and partition in each.partition.split(",")
            if each.address not in raised and not each.is_raised
        ]
        return QueueTop(
            first=max((each.priority for each in found), default=0),
            second=max((each.priority for each in found if each.reason != "Resources"), default=0),
        )

    def node(self, name: str) -> NodeEntry:
        """Return one node."""
        found = [each for each in self._list("nodes", _node_entry) if each.name == name]
        if not found:
            raise PermanentError(f"Slurm has no node {name}", hint="`sinfo -N` lists them")
        return found[0]

    def superuser(self) -> str:
        """Return why Slurm lets the account do everything; nothing if it does not."""
        return "root" if self.user == "root" else ""

    def admin_level(self, user: str) -> str:
        """Return what accounting lets a user do: `None`, `Operator`, `Administrator`, or ""."""
        if not self._api.has(USER):
            if self.has_commands:
                return self._commands.admin_level(user)
            raise PermanentError("slurmrestd serves no accounting", where=self._server.where)
        try:
            users = self._ask("GET", USER, user).get("users") or []
        except (TemporaryError, PermanentError) as fault:
            self._answered_s = float("-inf")
            self.check_answers()  # or it is Slurm that does not answer, for now
            if user in self._levels:
                return self._levels[user]
            hint = "slurmdbd.conf needs AuthAltTypes=auth/jwt, as slurm.conf does"
            raise PermanentError(fault.problem, where=fault.where, hint=hint) from fault
        level = upper_names(users[0].get("administrator_level")) if users else ()
        self._levels[user] = level[0].capitalize() if level else ""
        return self._levels[user]

    # -- changing ------------------------------------------------------------------------------

    def change(self, command: Command) -> str:
        """Do what a command does, by a request, or by the command where there is no request."""
        request = request_of(command, self._api)
        value = self._number(request.value) if request and request.path == JOB else None
        if request is None or value == "":
            return self._by_command(command)
        self.check_answers()
        address = request.value if value is None else value
        self._ask(request.method, request.path, address, query=request.query, body=request.body)
        return ""

    def check_answers(self) -> None:
        """Raise unless the controller answers."""
        if time.monotonic() - self._answered_s >= FRESH_S:
            self._ask("GET", "slurm/ping")

    def _by_command(self, command: Command) -> str:
        if self.has_commands:
            return self._commands.change(command)
        problem = f"slurmrestd {self._api.version} cannot do `{shown([command])}`"
        hint = "install Slurm's commands here, or name their folder: plugs.slurm.folder"
        raise PermanentError(problem, where=self._server.where, hint=hint)

    def _number(self, address: str) -> str:
        """Return the number by which slurmrestd changes a job or task alone; "" if it cannot.

        22.05 reports each change of `29_2` as failed. And the last task of an array has the number
        of the array, by which all of its tasks are changed.
        """
        if "_" not in address:
            return address
        number = self._numbers.get(address, "")
        return "" if number == address.partition("_")[0] else number

    # -- asking --------------------------------------------------------------------------------

    @property
    def _api(self) -> RestApi:
        return self._asked(self._server.api)

    def _entries(self) -> list[QueueEntry]:
        found = self._list("jobs", entry_from_json)
        self._numbers = {each.address: each.id for each in found if each.array and not each.is_many}
        return found

    def _list(self, key: str, make: Callable[[dict[str, Any]], T | None]) -> list[T]:
        self._budget.take()
        chunks = self._server.chunks(f"slurm/{key}")
        where = self._server.where
        return self._asked(lambda: read_list(chunks, key, make, where=where, hint=_DOWN)[0])

    def _ask(
        self,
        method: str,
        path: str,
        value: str = "",
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        self._budget.take()
        answer = self._asked(lambda: self._server.ask(method, path, value, query=query, body=body))
        if problem := problem_in(answer):
            self._answered_s = float("-inf")
            raise refusal("slurmrestd", Answer(code=1, out="", err=problem))
        self._answered_s = time.monotonic()
        return answer

    def _asked(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except RestDeniedError as fault:
            raise PermanentError(fault.problem, where=fault.where, hint=fault.hint) from fault
        except SlurmError as fault:
            raise TemporaryError(fault.problem, where=fault.where, hint=fault.hint) from fault


def _addresses(entry: QueueEntry) -> list[str]:
    """Return the addresses of the tasks that an entry stands for."""
    if not entry.is_many:
        return [entry.address]
    listed = entry.address.partition("[")[2].rstrip("]").split(",")
    spans = filter(None, (_INDICES.fullmatch(each) for each in listed))  # the rest was cut: `...`
    return [
        f"{entry.array}_{index}"
        for first, last, step in (span.groups() for span in spans)
        for index in range(int(first), int(last or first) + 1, int(step or 1) or 1)
    ]


def _node_entry(raw: dict[str, Any]) -> NodeEntry | None:
    node = node_from_json(raw)
    if node is None:
        return None
    drains = "DRAIN" in node.states or "DRAINED" in node.states or "DRAINING" in node.states
    busy = not {"ALLOCATED", "MIXED", "COMPLETING"}.isdisjoint(node.states)
    state = ("draining" if busy else "drained") if drains else node.states[0].lower()
    set_by = raw.get("reason_set_by_user")
    return NodeEntry(
        name=node.name,
        state=state,
        reason=node.reason,
        set_by=set_by if isinstance(set_by, str) else "",
    )


def slurm_control(
    rest: RestSettings, *, folder: str, conf: str, timeout_s: float
) -> SlurmControl | RestControl:
    """Return what changes a cluster: through slurmrestd if one is named, else by commands."""
    commands = SlurmControl(folder=folder, conf=conf, timeout_s=timeout_s)
    if not rest.address:
        return commands
    return RestControl(RestServer(rest, timeout_s=timeout_s), commands)
