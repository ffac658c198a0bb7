"""Carbon of the hours ahead, from a file of hours by region."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator
from datetime import UTC, datetime
from math import inf
from pathlib import Path

from steward.errors import StewardError
from steward.model.planning.outlook import Outlook

__all__ = ["carbon_ahead"]

HOUR_S = 3600.0
_COLUMNS = ("region", "hour_utc", "grams_per_kwh")
_HINT = f"columns: {', '.join(_COLUMNS)}; times in UTC, as 2026-11-20T13:00Z"
_LONGEST_GAP_H = 6


def carbon_ahead(path: Path, now_s: float) -> Outlook:
    """Return each region's hours from the present one on; those before count nothing.

    A region's hours end where more than six are missing; smaller gaps keep the hour before them.
    """
    now_h = int(now_s // HOUR_S)
    hours: dict[str, dict[int, float]] = {}
    last_h = 0
    for region, hour, grams in _rows(path):
        last_h = max(last_h, hour)
        if hour >= now_h:
            hours.setdefault(region, {})[hour] = grams
    ahead = {region: _steady(found, now_h) for region, found in hours.items()}
    ahead = {region: found for region, found in ahead.items() if found}
    if not ahead:
        end = datetime.fromtimestamp((last_h + 1) * HOUR_S, tz=UTC)
        raise StewardError(
            f"it has no hour from now on: the last one ends {end:%Y-%m-%d %H:%M} UTC",
            where=str(path),
            hint="give a forecast that begins with the present hour",
        )
    return Outlook(grams_by_hour=ahead, hours_from_s=now_h * HOUR_S)


def _steady(found: dict[int, float], now_h: int) -> tuple[float, ...]:
    """Return the hours from now on without a gap."""
    known: list[float] = []
    before = None
    for hour in sorted(found):
        missing = hour - now_h - len(known)
        if missing > _LONGEST_GAP_H:
            break
        known += [found[hour] if before is None else before] * missing
        known.append(found[hour])
        before = found[hour]
    return tuple(known)


def _rows(path: Path) -> Iterator[tuple[str, int, float]]:
    reader = csv.DictReader(io.StringIO(_text(path)))
    missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
        raise StewardError(f"it has no column {', '.join(missing)}", where=str(path), hint=_HINT)
    faults: list[str] = []
    for row in reader:
        try:
            found = _row(row)
        except ValueError as fault:
            faults.append(f"line {reader.line_num}: {fault}")
            continue
        if not faults:
            yield found
    if faults:
        more = f"; and {len(faults) - 3} more" if len(faults) > 3 else ""
        raise StewardError("; ".join(faults[:3]) + more, where=str(path), hint=_HINT)


def _row(row: dict[str, str | None]) -> tuple[str, int, float]:
    region, hour, grams = (row[name] or "" for name in _COLUMNS)
    moment = datetime.fromisoformat(hour)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    value = float(grams)
    if not 0 <= value < inf:
        raise ValueError(f"{grams} grams per kWh")
    return region, int(moment.timestamp() // HOUR_S), value


def _text(path: Path) -> str:
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as fault:
        why = fault.strerror if isinstance(fault, OSError) and fault.strerror else str(fault)
        raise StewardError(
            f"it cannot be read: {why.lower()}", where=str(path), hint=_HINT
        ) from fault
