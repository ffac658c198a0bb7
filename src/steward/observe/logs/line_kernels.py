"""The compiled part of making entries of lines: which belong together, and putting them so."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.observe.logs.formats.codes import NO_TIME, Ints, Octets

__all__ = ["DROPPED", "FOLD_ALL", "FOLD_INDENTED", "FOLD_NOTHING", "HEAD", "PART", "Octets"]
__all__ += ["broken_lines", "entries_of", "gathered", "roles_of", "squeezed"]

# What a line is: left out, the first of an entry, or a further one of it
DROPPED, HEAD, PART = 0, 1, 2
# Which lines without a time belong to the one before
FOLD_NOTHING, FOLD_INDENTED, FOLD_ALL = 0, 1, 2

_LEVELS = np.frombuffer(b"INFO:   WARNING:ERROR:  DEBUG:  CRITICAL", np.uint8).reshape(5, 8)
_NCCL = np.frombuffer(b"] NCCL ", np.uint8)


@njit
def _begins(buffer: Octets, at: int, end: int) -> bool:  # noqa: C901 - compiled
    """Return whether a line without a time looks like one of its own: a rank, NCCL, a level."""
    if at >= end:
        return False
    for level in range(5):
        same = 0
        while same < 8 and at + same < end and buffer[at + same] == _LEVELS[level, same]:
            same += 1
        if same == 8 or (same >= 5 and _LEVELS[level, same] == 32):
            return True
    if buffer[at] == 91:  # [rank3]:
        place, last = at + 1, min(end - 1, at + 24)
        while place < last and buffer[place] != 93:
            place += 1
        if place >= last or not 48 <= buffer[place - 1] <= 57:
            return False
        return bool(buffer[place + 1] == 58)
    last = min(end, at + 160) - 7
    for place in range(at, last):  # host:pid:tid [0] NCCL INFO
        if buffer[place] == 93:
            same = 1
            while same < 7 and buffer[place + same] == _NCCL[same]:
                same += 1
            if same == 7:
                return True
    return False


@njit
def _is_continued(buffer: Octets, at: int) -> bool:
    """Return whether a line looks like a continuation of the one before: indented, or closing."""
    first = buffer[at]
    return bool(first == 32 or first == 9 or first == 125 or first == 41)  # noqa: PLR1714 - compiled


@njit
def _is_empty(buffer: Octets, at: int, end: int) -> bool:
    for place in range(at, end):  # noqa: SIM110 - compiled
        if buffer[place] > 32:
            return False
    return True


@njit
def roles_of(  # noqa: C901, PLR0913, PLR0917 - compiled: one walk over the lines
    buffer: Octets,
    start: Ints,
    end: Ints,
    t_ns: Ints,
    broken: NDArray[np.bool_],
    fold: int,
    orphans: bool,  # noqa: FBT001 - compiled
    begun: bool,  # noqa: FBT001 - compiled
    most_lines: int,
    most_bytes: int,
    role: NDArray[np.uint8],
) -> int:
    """Classify each line; return how many entries were cut. Changes `role`.

    `orphans`: lines without a time that have no entry before them are entries of their own. If
    not, they are left out, as are broken ones. `begun`: the first line is known to begin one.
    """
    cut, head = 0, -1
    for line in range(len(start)):
        if t_ns[line] != NO_TIME or (begun and line == 0):
            role[line] = HEAD
            head = line
            continue
        if not orphans and (head < 0 or broken[line]):
            role[line] = DROPPED
            continue
        empty = _is_empty(buffer, start[line], end[line])
        alone = head < 0 or fold == FOLD_NOTHING
        if orphans and not alone and not empty:
            if fold == FOLD_INDENTED:
                alone = not _is_continued(buffer, start[line])
            else:
                alone = _begins(buffer, start[line], end[line])
        if empty and (head < 0 or orphans):
            role[line] = DROPPED if alone else PART
        elif alone:
            role[line] = HEAD
            head = line
        elif line - head >= most_lines or end[line] - start[head] > most_bytes:
            role[line] = HEAD
            head = line
            cut += end[line] - start[line] <= most_bytes  # a long line is one of its own
        else:
            role[line] = PART
    return cut


@njit
def entries_of(
    buffer: Octets,
    start: Ints,
    end: Ints,
    role: NDArray[np.uint8],
    first: Ints,
    last: Ints,
) -> int:
    """Find the first and last line of each entry; return how many. Changes `first`, `last`.

    Empty lines at the end of an entry do not belong to it.
    """
    count = -1
    for line in range(len(start)):
        if role[line] == HEAD:
            count += 1
            first[count] = line
            last[count] = line
        elif role[line] == PART and count >= 0 and not _is_empty(buffer, start[line], end[line]):
            last[count] = line
    return count + 1


@njit
def squeezed(  # noqa: PLR0913, PLR0917 - compiled
    buffer: Octets,
    text: Ints,
    end: Ints,
    role: NDArray[np.uint8],
    out: Octets,
    out_start: Ints,
    out_end: Ints,
) -> int:
    """Copy lines so that those of an entry follow each other with nothing between.

    Returns how many bytes there are. Changes what begins with `out`.
    """
    count, at = -1, 0
    for line in range(len(text)):
        if role[line] == DROPPED:
            continue
        if role[line] == HEAD:
            count += 1
            out_start[count] = at
        for place in range(text[line], end[line]):
            out[at] = buffer[place]
            at += 1
        out_end[count] = at
    return at


@njit
def gathered(buffer: Octets, start: Ints, end: Ints, out: Octets, out_start: Ints) -> None:
    """Copy entries one after another, in the order given. Changes `out` and `out_start`."""
    at = 0
    for entry in range(len(start)):
        out_start[entry] = at
        length = end[entry] - start[entry]
        out[at : at + length] = buffer[start[entry] : end[entry]]
        at += length


@njit
def broken_lines(buffer: Octets, start: Ints, end: Ints, broken: NDArray[np.bool_]) -> int:
    """Mark lines that are not UTF-8; return how many. Changes `broken`."""
    count = 0
    for line in range(len(start)):
        broken[line] = not _is_utf8(buffer, start[line], end[line])
        count += broken[line]
    return count


@njit
def _is_utf8(buffer: Octets, at: int, end: int) -> bool:  # noqa: C901 - compiled
    while at < end:
        first = buffer[at]
        if first < 0x80:
            at += 1
            continue
        low, high, more = 0x80, 0xBF, 0
        if 0xC2 <= first <= 0xDF:
            more = 1
        elif 0xE0 <= first <= 0xEF:
            more = 2
            if first == 0xE0:
                low = 0xA0
            elif first == 0xED:
                high = 0x9F
        elif 0xF0 <= first <= 0xF4:
            more = 3
            if first == 0xF0:
                low = 0x90
            elif first == 0xF4:
                high = 0x8F
        if more == 0 or at + more >= end or not low <= buffer[at + 1] <= high:
            return False
        for place in range(at + 2, at + more + 1):
            if not 0x80 <= buffer[place] <= 0xBF:
                return False
        at += more + 1
    return True
