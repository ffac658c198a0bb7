"""Tables of who answered when: spans per node, or one row per poll whose values may be empty."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from steward.clients.logs.stamps import iso_s
from steward.errors import StewardError
from steward.model.faults import AnswerSpan

__all__ = ["is_presence", "read_presence"]

_NODE = ("node", "host", "hostname", "instance")
_TIME = ("time_utc", "time", "timestamp", "t_s", "t")
_FROM = ("start_min_utc", "start_s", "from_s", "start", "from")
_TO = ("end_min_utc", "end_s", "to_s", "end", "to")
_MISSED = 3  # polls, before a gap is one
_MINUTE_S = 60.0
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def is_presence(head: bytes) -> bool:
    """Return whether a file begins as such a table does."""
    names = {
        each.strip().lower()
        for each in head.partition(b"\n")[0].decode("utf-8", "replace").split(",")
    }
    spans = names & set(_FROM) and names & set(_TO)
    polls = names & set(_TIME) and len(names) > 2
    return bool(names & set(_NODE) and (spans or polls)) and "event" not in names


def read_presence(file: Path) -> list[AnswerSpan]:
    """Read a table. Minutes of a day are of the day in the file's name, if it has one."""
    try:
        with file.open(newline="", encoding="utf-8-sig", errors="replace") as text:
            rows = csv.DictReader(text)
            names = {each.strip().lower(): each for each in rows.fieldnames or () if each}
            node, begin, end = (_first(names, each) for each in (_NODE, _FROM, _TO))
            when = _first(names, _TIME)
            if node and begin and end:
                return list(_spans(rows, (node, begin, end), _day_s(file)))
            if node and when:
                return _polls(rows, node, when)
    except (OSError, csv.Error) as fault:
        raise StewardError(f"it cannot be read as a table: {fault}", where=str(file)) from fault
    raise StewardError(
        "it has no columns of nodes and times", where=str(file), hint="node, start_s, end_s"
    )


def _first(names: Mapping[str, str], wanted: Sequence[str]) -> str | None:
    return next((names[name] for name in wanted if name in names), None)


def _spans(
    rows: Iterable[Mapping[str, str | None]], columns: tuple[str, str, str], day_s: float
) -> Iterator[AnswerSpan]:
    node, begin, end = columns
    minutes = "_min" in begin.lower()
    for row in rows:
        from_s, to_s = _time_s(row.get(begin) or ""), _time_s(row.get(end) or "")
        if from_s is None or to_s is None or to_s < from_s:
            continue  # one that never answered
        if minutes:
            from_s, to_s = day_s + from_s * _MINUTE_S, day_s + to_s * _MINUTE_S
        yield AnswerSpan(node=str(row[node]), from_s=from_s, to_s=to_s)


def _polls(rows: Iterable[Mapping[str, str | None]], node: str, when: str) -> list[AnswerSpan]:
    """Return spans of polls that gave a value; the usual time between polls is the median."""
    times: dict[str, list[float]] = {}
    gaps: list[float] = []
    for row in rows:
        t_s = _time_s(row.get(when) or "")
        known = any(
            value not in (None, "") for name, value in row.items() if name not in (node, when)
        )
        if t_s is not None and known:
            own = times.setdefault(str(row[node]), [])
            if own:
                gaps.append(t_s - own[-1])
            own.append(t_s)
    usual_s = sorted(gaps)[len(gaps) // 2] if gaps else _MINUTE_S
    return [span for name, own in times.items() for span in _joined(name, own, _MISSED * usual_s)]


def _joined(node: str, times_s: Sequence[float], longest_s: float) -> Iterator[AnswerSpan]:
    first = last = times_s[0]
    for t_s in times_s[1:]:
        if t_s - last > longest_s:
            yield AnswerSpan(node=node, from_s=first, to_s=last)
            first = t_s
        last = max(last, t_s)
    yield AnswerSpan(node=node, from_s=first, to_s=last)


def _time_s(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return iso_s(text)


def _day_s(file: Path) -> float:
    """Return the begin of the day that a file, or one beside it, is named after; else 1970."""
    for name in (file.name, *sorted(each.name for each in file.parent.glob("*.csv"))):
        found = _DAY.search(name)
        day_s = iso_s(f"{found[0]}T00:00:00Z") if found else None
        if day_s is not None:
            return day_s
    return 0.0
