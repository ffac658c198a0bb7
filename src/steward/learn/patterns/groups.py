"""Metric groups by expression: which columns say the same of a host, whatever tool wrote them.

A group has expressions in order of preference; the first that any column of a file fits is used
there. They are searched in our names and in the names that a file has. Several columns become one
value per window by `combine`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from steward.errors import StewardError
from steward.learn.patterns.column_names import Column

__all__ = ["GROUPS", "Combine", "MetricGroup", "Selection", "load_groups", "select_columns"]

Combine = Literal["median", "mean", "sum", "max", "min"]
_NAME = re.compile(r"[A-Za-z][\w.-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricGroup:
    """Columns that are one thing. `at_most` is what no true value exceeds, if there is such."""

    name: str
    match: tuple[str, ...]
    combine: Combine = "median"
    at_most: float | None = None


def _group(
    name: str, *match: str, combine: Combine = "median", at_most: float | None = None
) -> MetricGroup:
    return MetricGroup(name=name, match=match, combine=combine, at_most=at_most)


def _share(name: str, *match: str, combine: Combine = "median") -> MetricGroup:
    return _group(name, *match, combine=combine, at_most=1.0)


# The eleven of InfraScope first, under its names in lower case.
GROUPS: tuple[MetricGroup, ...] = (
    _share("gpu_util", r"^gpu\.busy_share$"),
    _share("gpu_mem_util", r"^gpu\.copy\.busy_share$"),
    _group("gpu_power", r"^gpu\.power_watts$", r"^gpu\.energy\.mean_watts$"),
    _group("gpu_temp", r"^gpu\.temperature_celsius$"),
    _share("cpu_busy", r"^host\.cpu\.busy_share$", r"^cpu\.busy_share$"),
    _group("cpu_ipc", r"^host\.cpu\.instructions_per_cycle_ratio$", at_most=10.0),
    _share("cpu_stall", r"^host\.cpu\.backend_stall_share$"),
    _share("mem_util", r"^host\.memory\.used_share$"),
    _group("mem_available", r"^host\.memory\.available_bytes$"),
    _group("mem_available_change", r"^host\.memory\.available_change_bytes$"),
    _group("net_rx", r"^host\.network\.receive_bytes_per_s$", combine="sum"),
    _group("net_tx", r"^host\.network\.transmit_bytes_per_s$", combine="sum"),
    # what further sources have
    _group("gpu_memory", r"^gpu\.memory\.used_bytes$"),
    _group("gpu_clock", r"^gpu\.clock\.sm_hz$"),
    _share("gpu_sm", r"^gpu\.sm\.active_share$"),
    _share("gpu_tensor", r"^gpu\.tensor\.active_share$"),
    _share("gpu_dram", r"^gpu\.dram\.active_share$"),
    _group("gpu_pcie", r"^gpu\.pcie\.(transmit|receive)_bytes_per_s$", combine="sum"),
    _group(
        "gpu_nvlink",
        r"^gpu\.nvlink\.total_bytes_per_s$",
        r"^gpu\.nvlink\.(transmit|receive)_bytes_per_s$",
        combine="sum",
    ),
    _group(
        "cpu_cores",
        r"^host\.cpu\.(user|system|nice|irq|softirq)_cores$",
        combine="sum",
    ),
    _group("cpu_iowait", r"^host\.cpu\.iowait_cores$"),
    _group("disk_read", r"^host\.disk\.read_bytes_per_s$", combine="sum"),
    _group("disk_write", r"^host\.disk\.write_bytes_per_s$", combine="sum"),
    _group("page_faults", r"^host\.page_faults_per_s$"),
    _group("context_switches", r"^host\.context_switches_per_s$"),
    _group("tcp_retransmits", r"^host\.tcp\.retransmits_per_s$"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The columns of a file that are in groups; the places of `columns` per group."""

    columns: tuple[Column, ...]
    members: tuple[tuple[int, ...], ...]  # per group, in the order of the groups
    unmapped: tuple[Column, ...]


def select_columns(columns: Sequence[Column], groups: Sequence[MetricGroup]) -> Selection:
    """Return which columns make up which group."""
    return _selected(tuple(columns), tuple(groups))


@lru_cache(maxsize=16)  # files of one host have the same columns
def _selected(columns: tuple[Column, ...], groups: tuple[MetricGroup, ...]) -> Selection:
    used: dict[int, int] = {}
    members: list[tuple[int, ...]] = []
    fits: set[int] = set()  # also those of a less preferred expression: they are known
    lines = [_lines(column) for column in columns]
    for group in groups:
        chosen: list[Column] = []
        for pattern in group.match:
            search = re.compile(pattern, re.MULTILINE).search
            found = [column for column, line in zip(columns, lines, strict=True) if search(line)]
            fits.update(column.place for column in found)
            chosen = chosen or found
        members.append(tuple(used.setdefault(each.place, len(used)) for each in chosen))
    by_place = {column.place: column for column in columns}
    return Selection(
        columns=tuple(by_place[place] for place in used),
        members=tuple(members),
        unmapped=tuple(column for column in columns if column.place not in fits),
    )


def _lines(column: Column) -> str:
    """Return the names of a column, one a line: `^` and `$` of an expression fit each."""
    names = dict.fromkeys((column.metric, column.generic, column.name))
    return "\n".join(name.replace("\n", " ") for name in names if name)


def load_groups(path: Path) -> tuple[MetricGroup, ...]:
    """Read groups that a person wrote; all that is wrong with them comes in one error."""
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as fault:
        problem = f"is no YAML: {' '.join(str(fault).split())[:200]}"
        raise StewardError(problem, where=str(path), hint=_FORM) from fault
    entries = found.get("groups") if isinstance(found, dict) else None
    if not isinstance(entries, list) or not entries:
        raise StewardError("holds no list `groups`", where=str(path), hint=_FORM)
    groups, faults = [], []
    for place, entry in enumerate(entries):
        try:
            groups.append(_read_group(entry))
        except ValueError as fault:
            faults.append(f"group {place + 1}: {fault}")
    names = [group.name for group in groups]
    faults += [f"two groups are called '{n}'" for n in sorted({*names}) if names.count(n) > 1]
    if faults:
        raise StewardError("; ".join(faults[:20]), where=str(path), hint=_FORM)
    return tuple(groups)


_FORM = (
    "a group is `{name: gpu_util, match: ['^gpu\\.busy_share$'], combine: median, at_most: 1}`; "
    f"combine is one of {', '.join(get_args(Combine))}"
)


def _read_group(entry: Any) -> MetricGroup:  # noqa: ANN401 - whatever the YAML has
    if not isinstance(entry, dict):
        raise ValueError(f"is {entry!r}, no mapping"[:100])
    unknown = sorted(str(key) for key in entry if key not in MetricGroup.__dataclass_fields__)
    if unknown:
        raise ValueError(f"has unknown keys: {', '.join(unknown)}")
    name, combine = entry.get("name"), entry.get("combine", "median")
    at_most = entry.get("at_most")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"its name is {name!r}; letters, digits, _ . - are possible")
    if combine not in get_args(Combine):
        raise ValueError(f"combine is {combine!r}")
    patterns = _expressions(entry.get("match"))
    if at_most is not None and (isinstance(at_most, bool) or not isinstance(at_most, int | float)):
        raise ValueError(f"at_most is {at_most!r}, no number")
    return MetricGroup(name=name, match=patterns, combine=combine, at_most=at_most)


def _expressions(match: object) -> tuple[str, ...]:
    patterns = [match] if isinstance(match, str) else match
    if not isinstance(patterns, list) or not patterns:
        raise ValueError("`match` has no expression")
    for pattern in patterns:
        try:
            re.compile(pattern)
        except (re.error, TypeError) as fault:
            raise ValueError(f"{pattern!r} is no expression: {fault}") from fault
    return tuple(patterns)
