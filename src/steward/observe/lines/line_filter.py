"""What becomes of lines on their way into an observation: storms held back, events found."""

from __future__ import annotations

import re
from dataclasses import replace

from steward.clients.logs.follower import ReadProblem
from steward.clients.logs.stamps import stamp_s
from steward.model.event import Event, LogLine, Observation
from steward.observe.lines.entities import EntityResolver
from steward.observe.lines.kernel_patterns import KernelMatch, matched
from steward.observe.lines.storm_filter import Repeated, StormFilter, shape_of, shapes_of

__all__ = ["KERNEL", "LineFilter"]

KERNEL = "kernel"
_EVENTS = 5  # of one kind and subject in a window of time
_SAME_PROCESS_S = 10.0  # the kernel writes two lines for a process that it has killed
_REMEMBERED = 1000
_EVENT_LENGTH = 2000  # of the line that an event quotes
_REPORTS, _REPORTS_S = 10, 600.0  # so many of a kind in so many seconds
_DMESG = re.compile(r"\[ *\d+\.\d{6}\]")


class LineFilter:
    """Takes the lines of one collector, look after look."""

    def __init__(self, entities: EntityResolver, *, name: str, at_most: int = 20_000) -> None:
        self.entities = entities
        self._name = name
        self._at_most = at_most
        self._storms = StormFilter()
        self._lines: list[LogLine] = []
        self._events: list[Event] = []
        self._reported: dict[str, tuple[float, int]] = {}  # kind: since when, how often
        self._processes: dict[tuple[str, str], float] = {}

    @property
    def full(self) -> bool:
        """Whether a read has reached its limit of lines: the rest is left for the next."""
        return len(self._lines) >= self._at_most

    def begin(self, t_s: float) -> None:
        """Start a read: report which events the last window has suppressed."""
        self.entities.look_again()
        lasted_s, held = self._storms.roll_window(t_s)
        for each in held:
            if each.event is not None:
                text = f"repeated {each.held} more times in {lasted_s:.0f} s: {each.event.text}"
                self._events.append(replace(each.event, text=text))

    def add(self, line: LogLine) -> None:
        """Take one line; it is the kernel's if its source is."""
        if line.source == KERNEL:
            self._add_kernel(line)
        elif self._storms.below_burst(line.source, 1) or not self._suppress(line):
            self._lines.append(line)

    def add_texts(
        self, texts: list[str], numbers: list[int], *, entity: str, source: str, now_s: float
    ) -> None:
        """Take lines of a file, which may be very many; they have the times that they begin with.

        A line that begins with no time belongs to the one before it.
        """
        quiet = self._storms.below_burst(source, len(texts))
        held, t_s = self._storms.suppress, now_s
        shapes = texts if quiet else shapes_of(texts)
        for text, number, shape in zip(texts, numbers, shapes, strict=True):
            kernel = _is_kernel(text)
            repeated = None if quiet or kernel else held(source, shape)
            if repeated is not None:
                repeated.t_s, repeated.entity, repeated.text = t_s, entity, text
                continue
            stamped_s = stamp_s(text, now_s)
            t_s = t_s if stamped_s is None else stamped_s
            line = LogLine(t_s=t_s, entity=entity, source=source, text=text, number=number)
            if kernel and not self.entities.is_of_another_host(text):
                self._add_kernel(line)
            else:
                self._lines.append(line)

    def report_problem(self, note: ReadProblem, t_s: float) -> None:
        """Add an event for something that could not be read."""
        self.report(f"log.{note.kind}", f"{note.origin}: {note.text}", t_s)

    def report(self, kind: str, text: str, t_s: float) -> None:
        """Add an event about the reading itself; repeated ones are counted."""
        began_s, count = self._reported.get(kind, (float("-inf"), 0))
        over = abs(t_s - began_s) >= _REPORTS_S
        self._reported[kind] = (t_s, 1) if over else (began_s, count + 1)
        if not over and count >= _REPORTS:
            return
        if over and count > _REPORTS:
            text = f"{text} (and {count - _REPORTS} times more in the {_REPORTS_S:.0f} s before)"
        self._events.append(
            Event(t_s=t_s, kind=kind, subject=self.entities.node, text=text, source=self._name)
        )

    def drain(self) -> Observation:
        """Return what this look has brought."""
        for each in self._storms.drain():
            self._sum_up(each)
        lines, self._lines = self._lines, []
        events, self._events = self._events, []
        return Observation(lines=tuple(lines), events=tuple(events))

    def _add_kernel(self, line: LogLine) -> None:
        match = matched(line.text)
        if match is None:
            if not self._suppress(line):
                self._lines.append(line)
            return
        event = self._event(line, match)
        key = (match.kind, event.subject, match.groups.get("code"))
        if self._suppress(line, key=key, event=event):
            return
        self._lines.append(line)
        if not self._is_new(match, line.t_s):
            self._events.append(event)

    def _suppress(self, line: LogLine, *, key: object = None, event: Event | None = None) -> bool:
        """Hold a line back if it is one of very many; events are fewer than lines."""
        burst = _EVENTS if event else 0
        repeated = self._storms.suppress(line.source, key or shape_of(line.text), burst=burst)
        if repeated is None:
            return False
        repeated.t_s, repeated.entity, repeated.text = line.t_s, line.entity, line.text
        repeated.level, repeated.event = line.level, event
        return True

    def _event(self, line: LogLine, match: KernelMatch) -> Event:
        return Event(
            t_s=line.t_s,
            kind=match.kind,
            subject=self.entities.of(match),
            text=f"{match.meaning}: {line.text[:_EVENT_LENGTH]}",
            source=self._name,
        )

    def _is_new(self, match: KernelMatch, t_s: float) -> bool:
        """Return False if a line just before had the same event of the same process."""
        pid = match.groups.get("pid", "")
        if not pid or not match.kind.startswith("process."):
            return False
        before_s = self._processes.get((match.kind, pid), float("-inf"))
        if len(self._processes) >= _REMEMBERED:
            self._processes.clear()
        self._processes[match.kind, pid] = t_s
        return abs(t_s - before_s) < _SAME_PROCESS_S

    def _sum_up(self, each: Repeated) -> None:
        line = LogLine(
            t_s=each.t_s,
            entity=each.entity,
            source=each.source,
            text=f"repeated {each.unreported} more times: {each.text}",
            level=each.level,
        )
        each.unreported = 0
        self._lines.append(line)


def _is_kernel(text: str) -> bool:
    """Return whether a line of a file is the kernel's: programs write similar texts."""
    if "kernel:" in text or "NVRM:" in text:
        return True
    return text.startswith("[") and _DMESG.match(text) is not None
