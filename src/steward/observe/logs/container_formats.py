"""Opens lines that are parcels: Docker's JSON, CRI's, the journal's; joins lines that they cut.

Docker cuts a line after 16 KiB and leaves out the line end; CRI writes P for a part and F for the
last one. Parts of the two outputs of a container may alternate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.observe.logs import container_kernels
from steward.observe.logs import line_kernels as kernels
from steward.observe.logs.formats.codes import NO_TIME, Ints, Octets
from steward.observe.logs.formats.line_times import Years, program_of
from steward.observe.logs.formats.table import Format

__all__ = ["Unpacked", "unpacked"]

_KEYS = {  # of the text, the time, and which of the two outputs it is
    "docker": (b"log", b"time", b"stream"),
    "journald": (b"MESSAGE", b"__REALTIME_TIMESTAMP", b""),
}
_DOCKER_CUTS_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unpacked:
    """Entries out of parcels. `used` lines are done with; the others wait for their rest."""

    buffer: bytes
    start: Ints
    end: Ints
    t_ns: Ints
    line: Ints  # index of the first line of each entry
    joined: NDArray[np.bool_]
    used: int
    dropped: NDArray[np.bool_]  # per line
    line_t_ns: Ints


@dataclass(slots=True, kw_only=True, eq=False)
class _Opened:
    """Columns of lines, not yet joined."""

    octets: Octets
    start: Ints
    end: Ints
    t_ns: Ints
    output: NDArray[np.uint8]  # 0 stdout, 1 stderr
    part: NDArray[np.bool_]  # the line goes on in the next one of its output
    ok: NDArray[np.bool_]


def unpacked(
    lines: tuple[bytes, Ints, Ints], packing: Format, years: Years, *, strict: bool, final: bool
) -> Unpacked:
    """Open the parcels of whole lines; `strict` joins cut lines and keeps what is no parcel."""
    opened = _opened(lines, packing, years)
    dropped = np.zeros(len(opened.ok), np.bool_) if strict else ~opened.ok
    line_t_ns = opened.t_ns.copy()
    if not strict or not opened.part.any():
        kept = np.flatnonzero(~dropped)
        return _result(opened, kept, kept, dropped=dropped, line_t_ns=line_t_ns)
    group, used = _groups(opened, final=final)
    order = np.argsort(group, kind="stable")
    changes = np.flatnonzero(np.diff(group[order], prepend=-1))
    last = (np.append(changes[1:], used) - 1)[: len(changes)]
    out = np.empty(int((opened.end - opened.start)[:used].sum()), np.uint8)
    begin = np.empty(used, np.int64)
    start, end = opened.start[order], opened.end[order]
    kernels.gathered(opened.octets, start, end, out, begin)
    opened.octets, opened.start, opened.end = out, begin, begin + (end - start)
    opened.t_ns = opened.t_ns[order]
    result = _result(opened, changes, last, dropped=dropped, line_t_ns=line_t_ns, used=used)
    result.line[:] = order[changes]
    return result


def _result(
    opened: _Opened,
    first: Ints,
    last: Ints,
    *,
    dropped: NDArray[np.bool_],
    line_t_ns: Ints,
    used: int = -1,
) -> Unpacked:
    start, end = opened.start[first], opened.end[last]
    joined = np.zeros(len(first), np.bool_)
    container_kernels.with_line_ends(opened.octets, start, end, joined)
    return Unpacked(
        buffer=opened.octets.tobytes(),
        start=start,
        end=end,
        t_ns=opened.t_ns[first],
        line=first.astype(np.int64),
        joined=joined,
        used=len(line_t_ns) if used < 0 else used,
        dropped=dropped,
        line_t_ns=line_t_ns,
    )


def _groups(opened: _Opened, *, final: bool) -> tuple[Ints, int]:
    """Return which lines make one entry, and how many lines are used: all up to one that waits."""
    used = len(opened.ok)
    group = np.empty(used, np.int64)
    while True:
        waits = container_kernels.groups_of(opened.output[:used], opened.part[:used], group[:used])
        if final or waits < 0:
            return group[:used], used
        used = waits


def _opened(lines: tuple[bytes, Ints, Ints], packing: Format, years: Years) -> _Opened:
    data, start, end = lines
    count = len(start)
    program = program_of((packing.template,))
    made = _Opened(
        octets=np.frombuffer(data, np.uint8),
        start=start.copy(),
        end=end.copy(),
        t_ns=np.full(count, NO_TIME, np.int64),
        output=np.zeros(count, np.uint8),
        part=np.zeros(count, np.bool_),
        ok=np.zeros(count, np.bool_),
    )
    reader = (program.heads, program.steps, program.pool, years.as_array())
    columns = (made.start, made.end, made.t_ns, made.output, made.part, made.ok)
    # mypy cannot unpack tuples of different arrays into arguments: hence lists of anything
    arguments: list[Any] = [*reader, *columns]
    if packing.packing == "cri":
        container_kernels.open_cri(made.octets, start, end, *arguments)
        return made
    keys = [np.frombuffer(key or b"\0", np.uint8) for key in _KEYS[packing.packing]]
    cuts = _DOCKER_CUTS_BYTES if packing.packing == "docker" else 2**62
    out = np.empty(len(data), np.uint8)
    arguments = [*keys, cuts, *arguments, out]
    size = container_kernels.open_json(made.octets, start, end, *arguments)
    made.octets = out[:size]
    return made
