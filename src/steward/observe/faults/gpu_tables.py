"""Inventories: tables of which GPU was where, from when to when, under whatever columns.

Stays without an end last until the GPU or its slot is seen anew.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from math import nan
from pathlib import Path

from steward.clients.logs.stamps import iso_s
from steward.errors import StewardError
from steward.model.faults import GpuSighting
from steward.observe.faults.forms import place_of

__all__ = ["read_inventory"]

_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "serial": ("serial", "serial_number", "sn", "gpu_serial"),
    "uuid": ("uuid", "gpu_uuid"),
    "node": ("node", "host", "hostname", "nodename", "location"),
    "slot": ("slot", "bus", "bus_id", "pci", "pci_bus_id", "pci.bus_id", "gpu_bus_id"),
    "index": ("index", "gpu_index", "minor_number"),
    "part": ("part", "product", "product_name", "model", "name", "type"),
    "batch": ("batch", "generation", "delivery"),
    "from": ("from", "insert", "installed", "since", "t_s", "time", "timestamp"),
    "to": ("to", "remove", "removed", "until"),
}
_MOST_ROWS = 2_000_000


def read_inventory(file: Path) -> list[GpuSighting]:
    """Read a table (CSV, or with tabs or semicolons). All its faults are in one message."""
    try:
        with file.open(newline="", encoding="utf-8-sig", errors="replace") as text:
            head = text.readline()
            text.seek(0)
            separator = max(",;\t|", key=head.count)
            rows = csv.DictReader(text, delimiter=separator, skipinitialspace=True)
            names = _names(rows.fieldnames or ())
            _check(names, file, head)
            return list(_sightings(islice(rows, _MOST_ROWS), names, file))
    except (OSError, csv.Error) as fault:
        raise StewardError(
            f"it cannot be read as a table: {fault}", where=str(file), hint=_HINT
        ) from fault


_HINT = "columns as serial, node, slot, from, to; nvidia-smi --query-gpu=serial,uuid,pci.bus_id"


def _names(fields: Iterable[str]) -> dict[str, str]:
    there = {each.strip().lower(): each for each in fields if each}
    found = {}
    for meaning, names in _COLUMNS.items():
        column = next((there[name] for name in names if name in there), None)
        if column is not None:
            found[meaning] = column
    return found


def _check(names: Mapping[str, str], file: Path, head: str) -> None:
    missing = [] if {"serial", "uuid"} & set(names) else ["serial or uuid"]
    missing += ["node"] if "node" not in names else []
    if missing:
        raise StewardError(
            f"there is no column of {' and of '.join(missing)}; it has {head.strip()[:120]}",
            where=str(file),
            hint=_HINT,
        )


def _sightings(
    rows: Iterable[Mapping[str, str | None]], names: Mapping[str, str], file: Path
) -> Iterator[GpuSighting]:
    wrong: list[str] = []
    for number, row in enumerate(rows, 2):
        cell = {meaning: (row.get(column) or "").strip() for meaning, column in names.items()}
        if not cell["node"] or not (cell.get("serial") or cell.get("uuid")):
            wrong.append(str(number))
            continue
        yield _sighting(cell)
    if wrong:
        raise StewardError(
            f"{len(wrong)} rows name no GPU or no node: line {', '.join(wrong[:5])}",
            where=str(file),
            hint=_HINT,
        )


def _sighting(cell: Mapping[str, str]) -> GpuSighting:
    index, slot = cell.get("index", ""), cell.get("slot", "")
    number = int(index) if index.isdecimal() else None
    if slot.count(":"):
        slot = place_of(slot.rpartition(".")[0] or slot)
    return GpuSighting(
        node=cell["node"],
        slot=slot or (f"gpu{number}" if number is not None else cell["node"]),
        serial=cell.get("serial", ""),
        uuid=cell.get("uuid", ""),
        index=number,
        part=cell.get("part", ""),
        batch=cell.get("batch", ""),
        t_s=_time_s(cell.get("from", "")),
        until_s=_time_s(cell.get("to", "")),
    )


def _time_s(text: str) -> float:
    """Return a time; numbers are seconds since 1970, and without a zone it is local time."""
    try:
        return float(text)
    except ValueError:
        found = iso_s(text)
        return nan if found is None else found
