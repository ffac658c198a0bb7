"""Slurm's own tables: `sacct`, `sacctmgr show event`, `scontrol show node` and `show job -d`.

Tables are with `--parsable2`: a header, then `|` between cells, columns in any order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from math import isnan, nan

from steward.clients.logs.stamps import iso_s
from steward.clients.slurm.syntax import gpu_count, hosts, tres
from steward.model.faults import JobEnd, JobSpan, NodeSpell, NodeUse

__all__ = ["read_events", "read_jobs", "read_nodes", "read_shown_jobs"]

_ENDS = {
    "COMPLETED": JobEnd.DONE,
    "FAILED": JobEnd.FAILED,
    "BOOT_FAIL": JobEnd.NODE,
    "NODE_FAIL": JobEnd.NODE,
    "OUT_OF_MEMORY": JobEnd.MEMORY,
    "TIMEOUT": JobEnd.LIMIT,
    "DEADLINE": JobEnd.LIMIT,
    "CANCELLED": JobEnd.STOPPED,
    "PREEMPTED": JobEnd.STOPPED,
    "REVOKED": JobEnd.STOPPED,
    "REQUEUED": JobEnd.STOPPED,
}
_FIELD = re.compile(r"(\w[\w:/]*)=((?:(?!\s\w[\w:/]*=).)*)")
_INDICES = re.compile(r"gpu(?::[^:(]+)*:\d+\(IDX:([\d,-]+)\)")
_LEFT = ("DOWN", "FAIL", "NO_RESPOND", "NOT_RESPONDING", "REBOOT", "POWERED_DOWN")


def read_jobs(lines: Iterable[str]) -> Iterator[JobSpan]:
    """Yield the runs of `sacct -P`; steps are parts of their job, waiting jobs have no run."""
    for cell in _rows(lines):
        name = cell.get("JobIDRaw") or cell.get("JobID", "")
        start_s = _time_s(cell.get("Start", ""))
        if not name or "." in name or isnan(start_s):
            continue
        end_s = _time_s(cell.get("End", ""))
        if not isnan(end_s) and end_s < start_s:
            continue  # its clock went back: such a run tells nothing
        end = _ENDS.get(cell.get("State", "").partition(" ")[0].upper(), JobEnd.OPEN)
        yield JobSpan(
            id=cell.get("JobID") or name,
            nodes=hosts(cell.get("NodeList", "")),
            gpus=gpu_count(tres(cell.get("AllocTRES", "") or cell.get("ReqTRES", ""))),
            start_s=start_s,
            end_s=nan if end is JobEnd.OPEN else end_s,
            end=end,
            user=cell.get("User", ""),
        )


def read_events(lines: Iterable[str]) -> Iterator[NodeSpell]:
    """Yield when nodes were out of service, of `sacctmgr -P show event`."""
    for cell in _rows(lines):
        node = cell.get("NodeName") or cell.get("Node", "")
        from_s = _time_s(cell.get("TimeStart") or cell.get("Start", ""))
        use = _use(cell.get("State", ""))
        if not node or isnan(from_s) or use is None:
            continue  # events without a node are of the whole cluster
        yield NodeSpell(
            node=node,
            from_s=from_s,
            to_s=_time_s(cell.get("TimeEnd") or cell.get("End", "")),
            use=use,
            reason=cell.get("Reason", ""),
        )


def read_nodes(lines: Iterable[str]) -> Iterator[tuple[str, int, NodeSpell | None]]:
    """Yield each node of `scontrol show node` with its GPUs, and since when it is out of service.

    Lines of one node may be one (`-o`) or many.
    """
    for fields in _blocks(lines, "NodeName"):
        use = _use(fields.get("State", ""))
        reason, _, stamp = fields.get("Reason", "").rpartition("[")
        since_s = _time_s(stamp.rpartition("@")[2].rstrip("] ")) if stamp else nan
        gpus = gpu_count(tres(fields.get("CfgTRES", "")))
        spell = None
        if use is not None and not isnan(since_s):
            spell = NodeSpell(
                node=fields["NodeName"], from_s=since_s, use=use, reason=reason.strip()
            )
        yield fields["NodeName"], gpus, spell


def read_shown_jobs(lines: Iterable[str]) -> Iterator[tuple[str, str, frozenset[int]]]:
    """Yield job, node and the numbers of its GPUs there, of `scontrol show job -d`."""
    job = ""
    for line in lines:
        fields = dict(_FIELD.findall(line))
        job = fields.get("JobId", job)
        found = _INDICES.search(fields.get("GRES", ""))
        if job and found and "Nodes" in fields:
            for node in hosts(fields["Nodes"].strip()):
                yield job, node, _numbers(found[1])


def _numbers(text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _use(state: str) -> NodeUse | None:
    """Return how a node's state keeps jobs away; None: it does not."""
    words = state.upper()
    if any(word in words for word in _LEFT):
        return NodeUse.DOWN
    return NodeUse.DRAINED if "DRAIN" in words or "MAINT" in words else None


def _blocks(lines: Iterable[str], first: str) -> Iterator[dict[str, str]]:
    fields: dict[str, str] = {}
    for line in lines:
        found = {name: value.strip() for name, value in _FIELD.findall(line)}
        if first in found:
            if fields:
                yield fields
            fields = {}
        fields |= found
    if first in fields:
        yield fields


def _rows(lines: Iterable[str]) -> Iterator[Mapping[str, str]]:
    """Yield rows with a whole number of cells; the last cell may hold the separator."""
    header: list[str] = []
    for line in lines:
        cells = line.rstrip("\r\n").rstrip("|").split("|")
        if not header:
            header = [each.strip() for each in cells]
            continue
        if len(cells) > len(header):
            rest = "|".join(cells[len(header) - 1 :])
            cells = [*cells[: len(header) - 1], rest]
        yield dict(zip(header, cells, strict=False))


def _time_s(text: str) -> float:
    """Return a time, Slurm's words for none as not a number; without a zone it is local time."""
    text = text.strip()
    if text.isdecimal():
        return float(text) if int(text) else nan
    found = iso_s(text)
    return nan if found is None else found
