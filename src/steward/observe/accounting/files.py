"""Accounting files of whatever kind: each says by its beginning what it is."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from steward.errors import StewardError
from steward.model.faults import JobSpan, NodeSpell
from steward.observe.accounting.kubernetes_objects import is_objects, read_objects
from steward.observe.accounting.slurm_tables import (
    read_events,
    read_jobs,
    read_nodes,
    read_shown_jobs,
)

__all__ = ["Accounts", "read_accounts"]

_HINT = (
    "`sacct -aP --format=JobID,State,Start,End,NodeList,AllocTRES`, `sacctmgr -P show event`, "
    "`scontrol show node`, `scontrol show job -d`, or `kubectl get pods,nodes -A -o json`"
)


@dataclass(slots=True, kw_only=True)
class Accounts:
    """What all files say together."""

    jobs: list[JobSpan] = field(default_factory=list)
    spells: list[NodeSpell] = field(default_factory=list)
    node_gpus: dict[str, int] = field(default_factory=dict)

    def nodes(self) -> list[str]:
        """Return all nodes that are named."""
        named = {node for job in self.jobs for node in job.nodes}
        return sorted(named | set(self.node_gpus) | {each.node for each in self.spells})


def read_accounts(files: Iterable[Path]) -> Accounts:
    """Read files of jobs and nodes in any order."""
    found = Accounts()
    indices: dict[str, dict[str, frozenset[int]]] = {}
    for file in files:
        _read(file, found, indices)
    if indices:
        found.jobs = [
            replace(each, indices=indices[each.id]) if each.id in indices else each
            for each in found.jobs
        ]
    return found


def _read(file: Path, into: Accounts, indices: dict[str, dict[str, frozenset[int]]]) -> None:
    text = _text(file)
    lines = text.splitlines()
    first = next((line for line in lines if line.strip()), "")
    kind = "json" if text.lstrip()[:1] == "{" else _kind_of(first)
    if kind == "json":
        _read_json(text, file, into)
    elif kind == "jobs":
        into.jobs += read_jobs(lines)
    elif kind == "events":
        into.spells += read_events(lines)
    elif kind == "nodes":
        for node, gpus, spell in read_nodes(lines):
            into.node_gpus[node] = gpus
            into.spells += [spell] if spell else []
    elif kind == "shown":
        for job, node, numbers in read_shown_jobs(lines):
            indices.setdefault(job, {})[node] = numbers
    else:
        raise StewardError("it is no accounting that is known", where=str(file), hint=_HINT)


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8", errors="replace")
    except OSError as fault:
        problem = f"it cannot be read: {fault.strerror}"
        raise StewardError(problem, where=str(file), hint=_HINT) from fault


def _kind_of(first: str) -> str:
    """Return what a table is by its first line."""
    header = {each.strip() for each in first.split("|")}
    if header & {"JobID", "JobIDRaw"} and "Start" in header:
        return "jobs"
    if "NodeName" in header and header & {"TimeStart", "Start"}:
        return "events"
    return {"NodeName": "nodes", "JobId": "shown"}.get(first.partition("=")[0], "")


def _read_json(text: str, file: Path, into: Accounts) -> None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise StewardError(f"its JSON is broken: {fault}", where=str(file), hint=_HINT) from fault
    if not is_objects(value):
        raise StewardError("its JSON is not of Kubernetes", where=str(file), hint=_HINT)
    jobs, spells, gpus = read_objects(value)
    into.jobs += jobs
    into.spells += spells
    into.node_gpus |= gpus
