"""The compiled part of opening parcels: JSON objects of one line, and CRI's lines."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.observe.logs.formats.codes import NO_TIME, Ints, Octets
from steward.observe.logs.formats.kernel import read_within

__all__ = ["groups_of", "open_cri", "open_json", "with_line_ends"]

Bits = NDArray[np.bool_]
_STDERR = np.frombuffer(b"stderr", np.uint8)
_STDOUT = np.frombuffer(b"stdout", np.uint8)


@njit
def _same(buffer: Octets, at: int, end: int, expected: Octets) -> bool:
    if end - at != len(expected):
        return False
    for place in range(len(expected)):  # noqa: SIM110 - compiled
        if buffer[at + place] != expected[place]:
            return False
    return True


@njit
def _blank_end(buffer: Octets, at: int, end: int) -> int:
    while at < end and (buffer[at] == 32 or buffer[at] == 9):
        at += 1
    return at


@njit
def _string_end(buffer: Octets, at: int, end: int) -> int:
    """Return where a string ends whose first character is at `at`: its quote, or -1."""
    while at < end:
        if buffer[at] == 34:
            return at
        at += 2 if buffer[at] == 92 else 1
    return -1


@njit
def _value_end(buffer: Octets, at: int, end: int) -> int:
    """Return the place after a value, or -1: a string, a number, a literal, or what is nested."""
    depth = 0
    while at < end:
        octet = buffer[at]
        if octet == 34:
            at = _string_end(buffer, at + 1, end)
            if at < 0:
                return -1
        elif octet == 123 or octet == 91:  # noqa: PLR1714 - compiled
            depth += 1
        elif octet == 125 or octet == 93:  # noqa: PLR1714 - compiled
            if depth == 0:
                return at
            depth -= 1
        elif octet == 44 and depth == 0:
            return at
        at += 1
    return -1


@njit
def _hex(buffer: Octets, at: int, end: int) -> int:
    """Return the number of four hexadecimal digits, or -1."""
    if at + 4 > end:
        return -1
    value = 0
    for place in range(at, at + 4):
        octet = buffer[place]
        if 48 <= octet <= 57:
            digit = octet - 48
        elif 97 <= octet | 32 <= 102:
            digit = (octet | 32) - 87
        else:
            return -1
        value = value * 16 + digit
    return value


@njit
def _encode(rune: int, out: Octets, at: int) -> int:
    """Write a character as UTF-8; return the place after it."""
    if rune < 0x80:
        out[at] = rune
        return at + 1
    if rune < 0x800:
        out[at] = 0xC0 | rune >> 6
        out[at + 1] = 0x80 | rune & 0x3F
        return at + 2
    if rune < 0x10000:
        out[at] = 0xE0 | rune >> 12
        out[at + 1] = 0x80 | rune >> 6 & 0x3F
        out[at + 2] = 0x80 | rune & 0x3F
        return at + 3
    out[at] = 0xF0 | rune >> 18
    out[at + 1] = 0x80 | rune >> 12 & 0x3F
    out[at + 2] = 0x80 | rune >> 6 & 0x3F
    out[at + 3] = 0x80 | rune & 0x3F
    return at + 4


@njit
def _plain(octet: int) -> int:  # noqa: PLR0911 - compiled
    """Return what a character after a backslash stands for, or -1."""
    if octet == 110:
        return 10
    if octet == 116:
        return 9
    if octet == 114:
        return 13
    if octet == 98:
        return 8
    if octet == 102:
        return 12
    if octet == 34 or octet == 92 or octet == 47:  # noqa: PLR1714 - compiled
        return octet
    return -1


@njit
def _unescaped(  # noqa: C901 - compiled: one walk
    buffer: Octets, at: int, end: int, out: Octets, to: int
) -> int:
    """Decode a JSON string; return the place after it, or -1. Changes `out`."""
    while at < end:
        octet = buffer[at]
        if octet != 92:
            out[to] = octet
            to += 1
            at += 1
            continue
        if at + 1 >= end:
            return -1
        if buffer[at + 1] != 117:  # u
            octet = _plain(buffer[at + 1])
            if octet < 0:
                return -1
            out[to] = octet
            to += 1
            at += 2
            continue
        rune = _hex(buffer, at + 2, end)
        if rune < 0:
            return -1
        at += 6
        if 0xD800 <= rune < 0xDC00 and at + 1 < end and buffer[at] == 92 and buffer[at + 1] == 117:
            low = _hex(buffer, at + 2, end)
            if 0xDC00 <= low < 0xE000:
                rune = 0x10000 + ((rune - 0xD800) << 10) + (low - 0xDC00)
                at += 6
        if 0xD800 <= rune < 0xE000:  # half a character, which no text can hold
            rune = 0xFFFD
        to = _encode(rune, out, to)
    return to


@njit
def _numbers(buffer: Octets, at: int, end: int, out: Octets, to: int) -> int:
    """Write an array of bytes, as the journal has what is not text; -1 if it is none."""
    value = -1
    for place in range(at + 1, end):
        octet = buffer[place]
        if 48 <= octet <= 57:
            value = max(value, 0) * 10 + octet - 48
            if value > 255:
                return -1
        elif octet == 44 or octet == 93:  # noqa: PLR1714 - compiled
            if value >= 0:
                out[to] = value
                to += 1
            value = -1
        elif octet != 32:
            return -1
    return to


@njit
def _members(  # noqa: C901, PLR0911, PLR0912, PLR0913, PLR0917 - compiled: one walk
    buffer: Octets, at: int, end: int, key0: Octets, key1: Octets, key2: Octets, spans: Ints
) -> bool:
    """Find the values of three keys of an object; False if it is none. Changes `spans`."""
    spans[:] = -1
    at = _blank_end(buffer, at, end)
    if at >= end or buffer[at] != 123:
        return False
    at += 1
    while True:
        at = _blank_end(buffer, at, end)
        if at < end and buffer[at] == 125 and spans[0] >= 0:
            break
        if at >= end or buffer[at] != 34:
            return False
        key = at + 1
        stop = _string_end(buffer, key, end)
        if stop < 0:
            return False
        at = _blank_end(buffer, stop + 1, end)
        if at >= end or buffer[at] != 58:
            return False
        at = _blank_end(buffer, at + 1, end)
        value = at
        at = _value_end(buffer, value, end)
        if at < 0:
            return False
        which = -1
        if _same(buffer, key, stop, key0):
            which = 0
        elif _same(buffer, key, stop, key1):
            which = 1
        elif _same(buffer, key, stop, key2):
            which = 2
        if which >= 0:
            last = at
            while last > value and buffer[last - 1] <= 32:
                last -= 1
            spans[2 * which] = value
            spans[2 * which + 1] = last
        if at < end and buffer[at] == 44:
            at += 1
        elif at < end and buffer[at] == 125:
            break
        else:
            return False
    return _blank_end(buffer, at + 1, end) == end


@njit
def _quoted(buffer: Octets, at: int, end: int) -> bool:
    return at >= 0 and end - at >= 2 and buffer[at] == 34 and buffer[end - 1] == 34


@njit
def _output_of(buffer: Octets, start: int, end: int) -> int:
    """Return 0 for standard output, 1 for standard error, -1 for what is neither."""
    if not _quoted(buffer, start, end):
        return -1
    if _same(buffer, start + 1, end - 1, _STDERR):
        return 1
    return 0 if _same(buffer, start + 1, end - 1, _STDOUT) else -1


@njit
def _text_of(buffer: Octets, start: int, end: int, out: Octets, to: int) -> int:
    """Write the text of a value, in quotes or as numbers; return its end, or -1 for no text."""
    if _quoted(buffer, start, end):
        return _unescaped(buffer, start + 1, end - 1, out, to)
    if start >= 0 and buffer[start] == 91:
        return _numbers(buffer, start, end, out, to)
    return -1


@njit
def _without_line_end(out: Octets, begin: int, end: int) -> int:
    """Return where a text ends that may have a line end."""
    if end > begin and out[end - 1] == 10:
        end -= 1
    if end > begin and out[end - 1] == 13:
        end -= 1
    return end


@njit
def open_json(  # noqa: PLR0913, PLR0917 - compiled: one walk over the lines
    buffer: Octets,
    start: Ints,
    end: Ints,
    key_text: Octets,
    key_time: Octets,
    key_output: Octets,
    cuts: int,
    heads: Ints,
    steps: Ints,
    pool: Octets,
    years: Ints,
    text_start: Ints,
    text_end: Ints,
    t_ns: Ints,
    output: NDArray[np.uint8],
    part: Bits,
    ok: Bits,
    out: Octets,
) -> int:
    """Open objects; return how many bytes their texts have. Changes all from `text_start` on.

    A line that is no such object gives itself. A text of at least `cuts` bytes without a line end
    is a part.
    """
    spans = np.empty(6, np.int64)
    to = 0
    for line in range(len(start)):
        begin, text, stamp_ns, wrote = to, -1, NO_TIME, 0
        if _members(buffer, start[line], end[line], key_text, key_time, key_output, spans):
            if len(key_output) > 1:
                wrote = _output_of(buffer, spans[4], spans[5])
            if wrote >= 0 and _quoted(buffer, spans[2], spans[3]):
                stamp_ns = read_within(
                    buffer, spans[2] + 1, spans[3] - 1, heads, steps, pool, years
                )
            if stamp_ns != NO_TIME:
                text = _text_of(buffer, spans[0], spans[1], out, to)
        ok[line] = text >= 0
        text_start[line], t_ns[line] = begin, stamp_ns if text >= 0 else NO_TIME
        if text >= 0:
            to, output[line] = text, wrote
            text_end[line] = _without_line_end(out, begin, to)
            ended = to > begin and out[to - 1] == 10
            part[line] = not ended and to - begin >= cuts
        else:
            to, output[line] = begin + end[line] - start[line], 0
            out[begin:to] = buffer[start[line] : end[line]]
            text_end[line] = to
    return to


@njit
def open_cri(  # noqa: PLR0913, PLR0917 - compiled
    buffer: Octets,
    start: Ints,
    end: Ints,
    heads: Ints,
    steps: Ints,
    pool: Octets,
    years: Ints,
    text_start: Ints,
    text_end: Ints,
    t_ns: Ints,
    output: NDArray[np.uint8],
    part: Bits,
    ok: Bits,
) -> None:
    """Open `TIME stdout|stderr TAG TEXT`. Changes all from `text_start` on."""
    for line in range(len(start)):
        at, stop = start[line], end[line]
        space = at
        while space < stop and buffer[space] != 32:
            space += 1
        word = space + 1
        tag = word + 7
        if tag > stop or buffer[tag - 1] != 32:
            continue
        stderr = _same(buffer, word, word + 6, _STDERR)
        if not stderr and not _same(buffer, word, word + 6, _STDOUT):
            continue
        after = tag
        while after < stop and buffer[after] != 32:
            after += 1
        if after == tag:
            continue
        t = read_within(buffer, at, space, heads, steps, pool, years)
        if t == NO_TIME:
            continue
        t_ns[line] = t
        ok[line] = True
        output[line] = 1 if stderr else 0
        part[line] = buffer[tag] == 80 and (after == tag + 1 or buffer[tag + 1] == 58)
        text_start[line] = min(after + 1, stop)
        text_end[line] = stop


@njit
def groups_of(output: NDArray[np.uint8], part: Bits, group: Ints) -> int:
    """Group lines into entries; return the first line of the first that waits, or -1.

    Changes `group`.
    """
    begun = np.full(2, -1, np.int64)
    first = np.full(2, -1, np.int64)
    count = 0
    for line in range(len(output)):
        which = output[line]
        if begun[which] < 0:
            begun[which] = count
            first[which] = line
            count += 1
        group[line] = begun[which]
        if not part[line]:
            begun[which] = -1
            first[which] = -1
    if first[0] < 0 or first[1] < 0:
        return int(max(first[0], first[1]))
    return int(min(first[0], first[1]))


@njit
def with_line_ends(buffer: Octets, start: Ints, end: Ints, found: Bits) -> None:
    """Mark entries that have a line end inside. Changes `found`."""
    for entry in range(len(start)):
        for place in range(start[entry], end[entry]):
            if buffer[place] == 10:
                found[entry] = True
                break
