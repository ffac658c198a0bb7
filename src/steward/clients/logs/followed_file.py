"""One file that is being read: how far, whether it is still the same one, and what was lost."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from steward.clients.logs.rotation import COMPRESSED, neighbours, with_inode

__all__ = ["CUT_MARK", "FollowedFile", "NumberedLines", "ReadLimits"]

MIB = 2**20
CUT_MARK = " …[cut]"
_PRINT_BYTES = 64
_LOOK_BACK_BYTES = 65536
_COUNTED_BYTES = 64 * MIB  # before the first line that is read, to know its number
_UNKNOWN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """How much is read of a file at once, of all files in a look, and how far one may be ahead."""

    window_bytes: int = MIB  # the longest line, too
    look_bytes: int = 32 * MIB
    behind_bytes: int = 256 * MIB


class NumberedLines(NamedTuple):
    """Lines that are not blank, and which they are in their file, from 1; 0 where unknown."""

    texts: list[str]
    numbers: list[int]


class FollowedFile:
    """A file by its inode. `offset` is where the first line begins that was not read whole."""

    def __init__(self, path: str, identity: tuple[int, int]) -> None:
        self.fd = -1
        self.path = path
        self.identity = identity
        self.offset = 0
        self.more = True
        self.ending = False  # it has lost its name: what it ends with is a line, too
        self.quiet_since_s = float("inf")
        self.changed_ns = 0  # when it was last written to, as of the last read
        self._print = (0, 0)  # length and checksum of what is just before `offset`
        self._skipping = 0  # bytes left out so far of a line that is too long, or of a backlog
        self._reason = ""
        self._before: int | None = 0  # whole lines before `offset`; None: not counted yet
        self._offset_at_last_call = 0
        self._losses: list[tuple[str, str]] = []
        self._seen = (-1, -1)  # size and time of change when it was last read to its end

    @classmethod
    def begun(cls, path: str, status: os.stat_result, *, at_end: bool) -> FollowedFile:
        """Begin a file that was not known, at its beginning or after its last whole line."""
        made = cls(path, (status.st_dev, status.st_ino))
        made.changed_ns = status.st_mtime_ns
        if at_end and status.st_size:
            made.open()
            made._to_end(status.st_size)
            made.close()
        return made

    @classmethod
    def resumed(cls, place: Mapping[str, Any]) -> FollowedFile:
        """Resume a file at a position of an earlier run."""
        made = cls(str(place["path"]), (int(place["device"]), int(place["inode"])))
        made.offset = int(place["offset"])
        length, checksum = place["print"]
        made._print = (int(length), int(checksum))
        made._skipping = int(place["skipping"])
        made._reason = "cut" if made._skipping else ""
        made.ending = bool(place["ending"])
        made.changed_ns = int(place["changed_ns"])
        made._before = place.get("before")
        return made

    def position(self) -> dict[str, Any]:
        """Return the position for the next run, as JSON values."""
        return {
            "path": self.path,
            "device": self.identity[0],
            "inode": self.identity[1],
            "offset": self.offset,
            "print": list(self._print),
            "skipping": self._skipping,
            "ending": self.ending,
            "changed_ns": self.changed_ns,
            "before": self._before,
        }

    # -- is it the same file? ------------------------------------------------------------------

    def differs(self, status: os.stat_result) -> bool:
        """Return whether it has changed since it was read to its end."""
        return self._seen != (status.st_size, status.st_mtime_ns)

    def was_cut(self, size: int) -> bool:
        """Return whether it was truncated or replaced since it was read."""
        return size < self.offset or not self._matches(self.open())

    def grew(self) -> bool:
        """Return whether lines were read since the last call."""
        before, self._offset_at_last_call = self._offset_at_last_call, self.offset
        return self.offset != before

    def begin_again(self) -> None:
        """Read from the beginning: what was known of its content is no longer true."""
        self.offset, self._print, self._skipping, self._before = 0, (0, 0), 0, 0
        self._seen = (-1, -1)

    def moved(self) -> bool:
        """Find the file after it has lost its name, and hold on to it; False if it is gone."""
        if self.fd >= 0:
            return True
        return self.opened_if_same(with_inode(self.path, self.identity))

    def copied(self) -> FollowedFile | None:
        """Find the copy that was made before the file was emptied, to read its rest."""
        for path in neighbours(self.path, since_ns=self.changed_ns) if self.offset else ():
            copy = FollowedFile.resumed(self.position())
            if copy.opened_if_same(path):
                status = os.fstat(copy.fd)
                copy.identity = (status.st_dev, status.st_ino)
                return copy
        return None

    # -- reading -------------------------------------------------------------------------------

    def open(self) -> int:
        if self.fd < 0:
            self.fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        return self.fd

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __del__(self) -> None:
        self.close()

    def read(self, limits: ReadLimits) -> NumberedLines:
        """Read one window and return the lines in it; `more` is True if there is more to read."""
        status = os.fstat(self.open())
        self._catch_up(status.st_size, limits)
        data = os.pread(self.fd, limits.window_bytes, self.offset)
        self.more = len(data) == limits.window_bytes
        if self.offset == 0 and data.startswith(COMPRESSED):
            self._losses.append(("compressed", "it is compressed, and not read"))
            self.offset, data, self.more = status.st_size, b"", False
        if not self.more:
            self._seen = (status.st_size, status.st_mtime_ns)
        self.changed_ns = status.st_mtime_ns
        lines = self._lines(self._skipped(data), limits)
        self._take_print()
        return lines

    def unterminated_line(self, limits: ReadLimits) -> NumberedLines:
        """Return the last line without a line end, once the file is complete."""
        data = b"" if self._skipping else os.pread(self.open(), limits.window_bytes, self.offset)
        lines = self._taken(data)
        self._take_print()
        return lines

    def taken_losses(self) -> list[tuple[str, str]]:
        """Return what was lost since the last call: kind and text."""
        losses, self._losses = self._losses, []
        return losses

    def _lines(self, data: bytes, limits: ReadLimits) -> NumberedLines:
        end = data.rfind(b"\n") + 1
        if end:
            return self._taken(data[:end])
        if data and not data.strip(b"\x00"):  # a hole: the writer went on where it was, after a cut
            return self._taken(data)
        back = data.rfind(b"\r", 0, len(data) - 1) + 1
        if back:  # a progress bar writes no line end for hours: take what it shows now
            return self._taken(data[:back])
        if len(data) < limits.window_bytes:
            return NumberedLines([], [])
        texts, numbers = self._taken(data)
        self._skipping, self._reason = 1, "cut"
        return NumberedLines([text + CUT_MARK for text in texts], numbers)

    def _taken(self, data: bytes) -> NumberedLines:
        """Go past what was read, and return its lines."""
        before = self._counted() if data else 0
        self._pass(data)
        lines = list(enumerate(_texts(data), start=before + 1))
        known = before != _UNKNOWN
        return NumberedLines(
            [text for _, text in lines if text],
            [number if known else 0 for number, text in lines if text],
        )

    def _pass(self, data: bytes) -> None:
        self.offset += len(data)
        if self._before is not None and self._before != _UNKNOWN:
            self._before += data.count(b"\n")

    def _counted(self) -> int:
        """Return how many lines there are before `offset`, counted when the first one comes."""
        if self._before is None:
            begins = range(0, self.offset, MIB)
            sizes = (min(MIB, self.offset - begin) for begin in begins)
            pieces = (os.pread(self.fd, *each) for each in zip(sizes, begins, strict=True))
            few = self.offset <= _COUNTED_BYTES
            self._before = sum(each.count(b"\n") for each in pieces) if few else _UNKNOWN
        return self._before

    def _catch_up(self, size: int, limits: ReadLimits) -> None:
        behind = size - self.offset
        if behind <= limits.behind_bytes:
            return
        skipped = behind - limits.behind_bytes // 2
        self.offset += skipped
        self._before = _UNKNOWN
        self._skipping, self._reason = self._skipping + skipped, "skipped"

    def _skipped(self, data: bytes) -> bytes:
        """Leave out what belongs to a line whose beginning was dropped."""
        if not self._skipping:
            return data
        end = data.find(b"\n") + 1
        left_out = end or len(data)
        self._pass(data[:left_out])
        self._skipping += left_out
        if end:
            self._report_skipped()
        return data[left_out:]

    def _report_skipped(self) -> None:
        texts = {
            "cut": "of a line that is too long were left out",
            "skipped": "were skipped: the file grows faster than it is read",
        }
        if self._reason in texts:
            text = f"{self._skipping - (self._reason == 'cut')} bytes {texts[self._reason]}"
            self._losses.append((self._reason, text))
        self._skipping, self._reason = 0, ""

    def _to_end(self, size: int) -> None:
        start = max(0, size - _LOOK_BACK_BYTES)
        end = os.pread(self.fd, size - start, start).rfind(b"\n") + 1
        self.offset = start + end if end or not start else size
        self._before = None
        self._skipping = int(bool(start) and not end)  # inside a long line: wait for its end
        self._take_print()

    def _take_print(self) -> None:
        length = min(_PRINT_BYTES, self.offset)
        self._print = (length, zlib.crc32(os.pread(self.fd, length, self.offset - length)))

    def _matches(self, fd: int) -> bool:
        length, checksum = self._print
        return zlib.crc32(os.pread(fd, length, self.offset - length)) == checksum

    def opened_if_same(self, path: str) -> bool:
        """Open another file if it holds what was read of this one."""
        if not path:
            return False
        try:
            self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return False
        if os.fstat(self.fd).st_size >= self.offset and self._matches(self.fd):
            return True
        self.close()
        return False


def _texts(data: bytes) -> list[str]:
    """Split into lines, as a terminal would show them."""
    text = data.decode("utf-8", "replace")
    if "\x00" in text:
        text = text.replace("\x00", "")
    lines = text.split("\n")
    if "\r" in text:
        lines = [line.rstrip("\r").rpartition("\r")[2] for line in lines]
    return lines
