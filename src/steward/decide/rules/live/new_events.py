"""Events for rules: events of collectors, changes of jobs, spans that began."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from steward.decide.rules.live.log_blocks import has_usable_time
from steward.decide.rules.metric import span_events
from steward.model.event import Event, Observation
from steward.model.frame import job_entity
from steward.model.identity import JobId
from steward.model.job import Job

__all__ = ["NewEvents"]

_REMEMBERED = 100_000  # jobs and ends of spans; the oldest are evicted


class NewEvents:
    """Return each change once, though collectors report jobs and spans repeatedly."""

    def __init__(self) -> None:
        self._states: OrderedDict[JobId, str] = OrderedDict()
        self._reported: OrderedDict[tuple[str, str], None] = OrderedDict()

    def of(self, seen: Observation, now_s: float) -> list[Event]:
        """Return what is new, by time."""
        found = [*seen.events, *self._jobs(seen, now_s), *self._spans(seen, now_s)]
        usable = [event for event in found if has_usable_time(event.t_s, now_s)]
        return sorted(usable, key=lambda event: event.t_s)

    def _jobs(self, seen: Observation, now_s: float) -> Iterator[Event]:
        for job in seen.jobs:
            state = job.state.value
            if self._states.get(job.id) != state:
                yield _change(job, now_s)
            self._states.pop(job.id, None)
            self._states[job.id] = state
        while len(self._states) > _REMEMBERED:
            self._states.popitem(last=False)

    def _spans(self, seen: Observation, now_s: float) -> Iterator[Event]:
        for span in seen.spans:
            for event in span_events((span,), from_s=float("-inf"), to_s=now_s + 1e-6):
                end = (span.id, event.kind)
                if end not in self._reported:
                    self._reported[end] = None
                    yield event
        while len(self._reported) > _REMEMBERED:
            self._reported.popitem(last=False)


def _change(job: Job, now_s: float) -> Event:
    """Return the event of a job's change: `job.failed job:812 train-gpt out of memory`."""
    last = job.history[-1] if job.history else None
    why = last.why if last is not None else ""
    return Event(
        t_s=min(last.t_s, now_s) if last is not None else now_s,
        kind=f"job.{job.state.value}",
        subject=job_entity(job.id),
        text=" ".join(part for part in (job.name, why) if part),
        source="jobs",
    )
