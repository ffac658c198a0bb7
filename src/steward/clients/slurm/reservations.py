"""A reservation of Slurm: nodes that for some time take only jobs that name it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from steward.clients.slurm.syntax import hosts, number, upper_names

__all__ = ["SlurmReservation", "reservation_from_json", "reservation_from_line"]

_FIELD = re.compile(r"(?:^|\s)(ReservationName|StartTime|EndTime|Nodes|Flags|Users)=(\S*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmReservation:
    """Whole nodes for a while. `maintenance`: no job at all is meant to run there."""

    name: str
    start_s: float
    end_s: float
    nodes: tuple[str, ...]
    maintenance: bool
    users: tuple[str, ...] = ()  # that may use it; none where it is for accounts


def reservation_from_line(line: str) -> SlurmReservation | None:
    """Read one line of `scontrol --oneliner show reservation`.

    None for what is none, for one without nodes (licenses), and for one of single cores: others
    may use the rest of these nodes.
    """
    cell = dict(_FIELD.findall(line))
    times = [cell.get(name, "") for name in ("StartTime", "EndTime")]
    nodes = cell.get("Nodes", "")
    if not all(each.isdecimal() for each in times) or nodes in ("", "(null)"):
        return None
    if re.search(r"\sCoreIDs=", line):
        return None
    return SlurmReservation(
        name=cell.get("ReservationName", ""),
        start_s=float(times[0]),
        end_s=float(times[1]),
        nodes=hosts(nodes),
        maintenance="MAINT" in cell.get("Flags", "").split(","),
        users=_users(cell.get("Users", "")),
    )


def reservation_from_json(raw: Mapping[str, Any]) -> SlurmReservation | None:
    """Read one entry of `reservations`; None for the same ones as `reservation_from_line`."""
    start_s, end_s = number(raw.get("start_time")), number(raw.get("end_time"))
    nodes = raw.get("node_list")
    if start_s is None or end_s is None or not isinstance(nodes, str) or nodes in ("", "(null)"):
        return None
    if number(raw.get("core_spec_cnt")) or raw.get("core_specializations"):
        return None
    return SlurmReservation(
        name=str(raw.get("name") or ""),
        start_s=start_s,
        end_s=end_s,
        nodes=hosts(nodes),
        maintenance="MAINT" in upper_names(raw.get("flags")),
        users=_users(str(raw.get("users") or "")),
    )


def _users(text: str) -> tuple[str, ...]:
    return () if text in ("", "(null)") else tuple(text.split(","))
