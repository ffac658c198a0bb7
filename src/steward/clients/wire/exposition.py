"""Prometheus' text format and OpenMetrics: what exporters show, and what steward shows itself.

A scrape is split by a compiled scan into names, values and times; a name with its labels is read
into Python once and known by its bytes afterwards. prometheus_client's own parser takes five to
ten times as long, which matters for a thousand exporters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from steward.clients.wire.label_escapes import escape_label, unescape_label
from steward.clients.wire.protobuf_scan import Bytes
from steward.clients.wire.samples import WireLimits, WireSamples
from steward.compiled import njit
from steward.errors import StewardError

__all__ = ["decode_text", "labels_of_text", "shown_labels"]

_WHAT = "exposition text"
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(
    r'\s*([a-zA-Z_][a-zA-Z0-9_]*|"(?:[^"\\]|\\.)*")\s*(?:=\s*"((?:[^"\\]|\\.)*)")?\s*'
)
BAD_LINE, TOO_MANY, TOO_LONG = -1, -2, -3


def decode_text(
    body: bytes, *, now_ms: int, openmetrics: bool = False, limits: WireLimits | None = None
) -> WireSamples:
    """Split a scrape into series and samples; a sample without a time is of `now_ms`.

    OpenMetrics gives times in seconds where the older format gives milliseconds.
    """
    limits = limits or WireLimits()
    if len(body) > limits.body_bytes:
        raise StewardError(f"has more than {limits.body_bytes} bytes", where=_WHAT)
    data = np.frombuffer(body, dtype=np.uint8)
    most = min(limits.samples, len(data) // 3 + 1)  # a name, a space, a digit
    found = np.empty((6, most), np.int64)
    count, line = _scan(data, most, limits.label_bytes, found)
    if count < 0:
        raise _wrong(body, int(count), int(line), limits)
    places = found[:, :count]
    values = _numbers(body, places[2], places[3])
    t_ms = np.full(count, now_ms, np.int64)
    timed = np.flatnonzero(places[4] >= 0)
    if len(timed):
        times = _numbers(body, places[4][timed], places[5][timed])
        times = times * 1000.0 if openmetrics else times
        if not bool((np.abs(times) < 2.0**62).all()):
            raise StewardError("a sample has no usable time", where=_WHAT)
        t_ms[timed] = times.astype(np.int64)
    return WireSamples(
        buffer=data,
        starts=places[0],
        ends=places[1],
        series=np.arange(count),
        t_ms=t_ms,
        values=values,
    )


def _numbers(
    body: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.float64]:
    spans = zip(starts.tolist(), ends.tolist(), strict=True)
    try:
        return np.array([float(body[start:end]) for start, end in spans], np.float64)
    except ValueError as fault:
        raise StewardError(f"a value is not a number: {fault}", where=_WHAT) from fault


def _wrong(body: bytes, code: int, line: int, limits: WireLimits) -> StewardError:
    if code == TOO_MANY:
        problem = f"has more than {limits.samples} samples"
        return StewardError(problem, where=_WHAT, hint="scrape less, or raise the limit")
    text = body.split(b"\n", line + 1)[line][:80].decode("utf-8", "replace")
    problem = (
        f"line {line + 1} has labels of more than {limits.label_bytes} bytes: {text!r}…"
        if code == TOO_LONG
        else f"line {line + 1} is not `name{{labels}} value [time]`: {text!r}"
    )
    return StewardError(problem, where=_WHAT, hint="is this address an exporter's /metrics?")


@njit
def _scan(  # noqa: C901, PLR0912 - one walk over one text
    data: Bytes, most: int, most_label_bytes: int, found: NDArray[np.int64]
) -> tuple[int, int]:
    """Write start and end of name, value and time of each sample into `found`.

    Returns how many there are, or a fault, and the line that it stopped in.
    """
    at, end, count, line = 0, len(data), 0, 0
    while at < end:
        while at < end and (data[at] == 32 or data[at] == 9 or data[at] == 13):
            at += 1
        if at >= end or data[at] == 10 or data[at] == 35:  # an empty line, or a comment
            while at < end and data[at] != 10:
                at += 1
            at += 1
            line += 1
            continue
        if count >= most:
            return TOO_MANY, line
        start = at
        while at < end and data[at] != 123 and data[at] != 32 and data[at] != 9 and data[at] != 10:
            at += 1
        if at < end and data[at] == 123:  # labels: quotes may hold anything, escaped
            quoted = False
            while at < end and (quoted or data[at] != 125) and data[at] != 10:
                if quoted and data[at] == 92:
                    at += 1
                elif data[at] == 34:
                    quoted = not quoted
                at += 1
            if at >= end or data[at] == 10:
                return BAD_LINE, line
            at += 1
        if at - start > most_label_bytes:
            return TOO_LONG, line
        found[0, count], found[1, count] = start, at
        fields = 0
        found[4, count] = -1
        while at < end and data[at] != 10 and fields < 2:
            while at < end and (data[at] == 32 or data[at] == 9):
                at += 1
            if at >= end or data[at] == 10 or data[at] == 13 or data[at] == 35:
                break
            found[2 + 2 * fields, count] = at
            while at < end and data[at] > 32:
                at += 1
            found[3 + 2 * fields, count] = at
            fields += 1
        while at < end and (data[at] == 32 or data[at] == 9 or data[at] == 13):
            at += 1
        if fields == 0 or (at < end and data[at] != 10 and data[at] != 35):
            return BAD_LINE, line
        while at < end and data[at] != 10:  # an exemplar
            at += 1
        at += 1
        line += 1
        count += 1
    return count, line


def labels_of_text(key: bytes) -> dict[str, str]:
    """Read `name{label="value",...}`; the name becomes the label `__name__`."""
    try:
        text = key.decode()
    except UnicodeDecodeError as fault:
        raise StewardError(f"a label is not UTF-8: {fault}", where=_WHAT) from fault
    name, brace, inside = text.partition("{")
    labels = {"__name__": name} if name else {}
    if brace:
        _read_labels(inside.removesuffix("}"), labels)
    if not _NAME.fullmatch(labels.get("__name__", "")) and "{" not in text:
        raise StewardError(f"'{text[:80]}' is not the name of a metric", where=_WHAT)
    if not labels.get("__name__"):
        raise StewardError(f"a metric has no name: '{text[:80]}'", where=_WHAT)
    return labels


def _read_labels(text: str, labels: dict[str, str]) -> None:
    at = 0
    while at < len(text):
        found = _LABEL.match(text, at)
        if found is None or (found.end() < len(text) and text[found.end()] != ","):
            if not text[at:].strip():
                return
            raise StewardError(f"labels are malformed at '{text[at : at + 40]}'", where=_WHAT)
        key, value = found.groups()
        if value is None:  # a quoted name of a metric, as Prometheus 3 writes UTF-8 names
            key, value = "__name__", key[1:-1] if key.startswith('"') else None
        name = unescape_label(key[1:-1]) if key.startswith('"') else key
        if value is None or name in labels:
            problem = f"'{name}' is given twice" if value is not None else f"'{name}' has no value"
            raise StewardError(problem, where=_WHAT)
        labels[name] = unescape_label(value)
        at = found.end() + 1


def shown_labels(labels: Mapping[str, str]) -> str:
    """Write labels as the text format has them, in the order given.

    >>> shown_labels({"node": "n01", "gpu": "3"})
    '{node="n01",gpu="3"}'
    """
    inside = ",".join(f'{name}="{escape_label(value)}"' for name, value in labels.items())
    return f"{{{inside}}}" if inside else ""
