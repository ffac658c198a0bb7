"""Follows files as they grow, are rotated, cut short, deleted and made anew.

A position is the start of the first line that is not whole yet, so a checkpoint needs no text:
after a restart nothing is lost and nothing comes twice. Whatever could not be read is counted and
reported in a `Note`. A file costs one `stat` per read until it changes.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steward.clients.logs.followed_file import FollowedFile, NumberedLines, ReadLimits
from steward.clients.logs.rotation import found, neighbours

__all__ = ["FileFollower", "FileLines", "ReadProblem"]

_OPEN_FILES = 200  # kept open while they grow; a thousand would be over many machines' limit
_DONE_FILES = 200  # rotated files that are kept open: some are written to much later
_RESCAN_S = 5.0
_LINGER_S = 30.0  # after rotation, a program writes to the old file until it is signalled


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLines:
    """Whole lines of one file, in their order, without line ends and without blank ones."""

    path: str
    texts: list[str]
    numbers: list[int]  # which lines they are in the file, from 1; 0 where unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadProblem:
    """A note of a reader: something was lost, or cannot be read."""

    origin: str
    kind: str  # unreadable, skipped, cut, lost, compressed
    text: str


class FileFollower:
    """Any number of files, named by paths or patterns (`/var/log/slurm/*.log`).

    Files that are there at the first look are read from their end (`from_start`: from their
    beginning), those that appear later from their beginning.
    """

    def __init__(
        self, patterns: Sequence[str], *, from_start: bool = False, limits: ReadLimits | None = None
    ) -> None:
        self.patterns = tuple(patterns)
        self.limits = limits or ReadLimits()
        self._from_start = from_start
        self._files: dict[str, FollowedFile] = {}
        self._left: list[FollowedFile] = []  # have lost their name; read until they are silent
        self._done: dict[tuple[int, int], FollowedFile] = {}  # of these, the newest
        self._notes: list[ReadProblem] = []
        self._reported: set[tuple[str, str]] = set()
        self._next_scan_s = float("-inf")
        self._turn = 0

    def positions(self) -> dict[str, Any]:
        """Return how far each file is read, as JSON can hold it. Take it once lines are kept."""
        return {
            "files": [each.position() for each in (*self._left, *self._files.values())],
            "done": [each.position() for each in self._done.values()],
        }

    def resume(self, positions: Mapping[str, Any]) -> None:
        """Resume where an earlier run stopped. Call it before the first read."""
        for place in positions.get("files", ()):
            each = FollowedFile.resumed(place)
            if not each.ending:
                self._files[each.path] = each
            elif each.moved():
                self._left.append(each)
            else:
                self._note(each.path, "lost", "its rotated file is gone; its last lines are lost")
        done = [FollowedFile.resumed(place) for place in positions.get("done", ())]
        self._done = {each.identity: each for each in done}
        self._from_start = self._from_start or "files" in positions

    def taken_notes(self) -> list[ReadProblem]:
        """Return the notes since the last call."""
        notes, self._notes = self._notes, []
        return notes

    def look(self, t_s: float) -> Iterator[FileLines]:
        """Yield what is new, a window of each file in turn, until the limit of a look.

        A caller may stop iterating at any time: the rest stays in the files, and rotated files
        that are read to their end have been released before anything else is read.
        """
        self._scan(t_s)
        grown = self._grown(t_s)
        try:
            budget = yield from self._windows(self._left, self.limits.look_bytes)
            yield from self._finished(t_s)
            waiting = [*(each for each in self._left if each.more), *grown]
            while waiting and budget > 0:
                budget = yield from self._windows(waiting, budget)
                waiting = [each for each in waiting if each.more]
        finally:
            self._spare_descriptors()

    def _windows(
        self, files: Sequence[FollowedFile], budget: int
    ) -> Generator[FileLines, None, int]:
        """Yield one window of each file; return what is left of the budget of bytes."""
        for each in files:
            if budget <= 0:
                break
            before = each.offset
            texts, numbers = self._read(each)
            if texts:
                yield FileLines(path=each.path, texts=texts, numbers=numbers)
            budget -= each.offset - before
        return budget

    def followed(self) -> int:
        """Return how many files are followed now."""
        return len(self._files)

    def paths(self) -> list[str]:
        """Return which files are followed now."""
        return list(self._files)

    def rescan(self) -> None:
        """Look for new files at the next look, whenever the last time was."""
        self._next_scan_s = float("-inf")

    def close(self) -> None:
        for each in (*self._left, *self._files.values()):
            each.close()

    # -- which files ---------------------------------------------------------------------------

    def _scan(self, t_s: float) -> None:
        """Find new files now and then; a clock that went back finds them at once."""
        if self._next_scan_s - _RESCAN_S <= t_s < self._next_scan_s:
            return
        known = {each.identity for each in self._files.values()}
        for path in found(self.patterns):
            each = None if path in self._files else self._begun(path)
            if each is not None and each.identity not in known:
                known.add(each.identity)
                self._files[path] = self._renamed(each) or each
        self._next_scan_s = t_s + _RESCAN_S
        self._from_start = True

    def _begun(self, path: str) -> FollowedFile | None:
        try:
            # A thousand files a look: no Path objects.
            status = os.stat(path)  # noqa: PTH116
            return FollowedFile.begun(path, status, at_end=not self._from_start)
        except FileNotFoundError:
            return None  # named, but not there yet
        except OSError as fault:
            self._note(path, "unreadable", f"{fault.strerror}", once=True)
            return None

    def _renamed(self, new: FollowedFile) -> FollowedFile | None:
        """Continue with a file that was renamed to another followed name."""
        for each in self._left:
            if each.identity == new.identity:
                self._left.remove(each)
                each.path, each.ending = new.path, False
                return each
        return None

    def _grown(self, t_s: float) -> list[FollowedFile]:
        """Return the files with something new, each time beginning with another one."""
        grown = [each for path in list(self._files) if (each := self._changed(path, t_s))]
        self._turn += 1
        start = self._turn % len(grown) if grown else 0
        return grown[start:] + grown[:start]

    def _changed(self, path: str, t_s: float) -> FollowedFile | None:
        each = self._files[path]
        try:
            status = os.stat(path)  # noqa: PTH116
            if (status.st_dev, status.st_ino) != each.identity:
                self._leave(each, t_s)
                self._take_between(each, status, t_s)
                each = self._files[path] = FollowedFile.begun(path, status, at_end=False)
            elif not each.differs(status):
                return None
            elif each.was_cut(status.st_size):
                self._begin_again(each, t_s)
        except FileNotFoundError:
            self._leave(each, t_s)
            return None
        except OSError as fault:
            self._note(path, "unreadable", f"{fault.strerror}", once=True)
            return None
        return each

    def _leave(self, each: FollowedFile, t_s: float) -> None:
        """Drop a name; the file itself is read until it is no longer written to."""
        del self._files[each.path]
        if each.moved():
            each.ending, each.quiet_since_s = True, t_s
            self._left.append(each)
        elif each.offset:
            self._note(each.path, "lost", "it is gone; lines since the last look may be lost")

    def _take_between(self, old: FollowedFile, new: os.stat_result, t_s: float) -> None:
        """Read whole files that came and were put aside since the last look, or while we were off.

        One that was left in good order comes first, so its rest is read before these.
        """
        known = {each.identity for each in self._left} | {(new.st_dev, new.st_ino)}
        for path in neighbours(old.path, since_ns=old.changed_ns):
            status = os.stat(path)  # noqa: PTH116
            if (status.st_dev, status.st_ino) not in known:
                each = self._known_from_before(path, status)
                each.open()
                each.path = old.path  # what it was called while it was written
                each.ending, each.quiet_since_s = True, t_s
                self._left.append(each)

    def _known_from_before(self, path: str, status: os.stat_result) -> FollowedFile:
        """Return a file that was read before, where its end was then; else a new one."""
        done = self._done.pop((status.st_dev, status.st_ino), None)
        if done is not None and done.opened_if_same(path):
            return done
        return FollowedFile.begun(path, status, at_end=False)

    def _begin_again(self, each: FollowedFile, t_s: float) -> None:
        """Read an emptied file anew, and what is left in the copy that was made of it."""
        copy = each.copied()
        if copy is not None:
            copy.ending, copy.quiet_since_s = True, t_s
            self._left.append(copy)
        else:
            text = "it was emptied or replaced; lines since the last look may be lost"
            self._note(each.path, "lost", text)
        each.begin_again()

    # -- reading -------------------------------------------------------------------------------

    def _read(self, each: FollowedFile) -> NumberedLines:
        try:
            lines = each.read(self.limits)
        except OSError as fault:
            each.more = False
            self._note(each.path, "unreadable", f"{fault.strerror}", once=True)
            return NumberedLines([], [])
        self._reported.discard((each.path, "unreadable"))
        for kind, text in each.taken_losses():
            self._note(each.path, kind, text)
        return lines

    def _finished(self, t_s: float) -> Iterator[FileLines]:
        """Release files that have lost their name once they have been quiet for a while."""
        for each in list(self._left):
            if each.grew():
                each.quiet_since_s = t_s
            if not each.more and abs(t_s - each.quiet_since_s) >= _LINGER_S:
                self._left.remove(each)
                texts, numbers = each.unterminated_line(self.limits)
                each.close()
                self._done[each.identity] = each
                if texts:
                    yield FileLines(path=each.path, texts=texts, numbers=numbers)

    def _spare_descriptors(self) -> None:
        """Keep those open that were read last: they may be rotated before the next look."""
        held = [each for each in self._files.values() if each.fd >= 0]
        if len(held) > _OPEN_FILES:
            held.sort(key=lambda each: each.changed_ns)
            for each in held[:-_OPEN_FILES]:
                each.close()
        while len(self._done) > _DONE_FILES:
            del self._done[next(iter(self._done))]

    def _note(self, origin: str, kind: str, text: str, *, once: bool = False) -> None:
        if once and (origin, kind) in self._reported:
            return
        if once:
            self._reported.add((origin, kind))
        self._notes.append(ReadProblem(origin=origin, kind=kind, text=text))
