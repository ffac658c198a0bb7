"""Keeps a source's jobs: what changed since the last look, and which entities each job held.

Schedulers list the current jobs. The loop needs what is new, the store needs spans, and
failures are reported once. That is the same for every scheduler, and is done here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from steward.model.event import Event
from steward.model.identity import JobId
from steward.model.job import Job, JobChange, JobState
from steward.model.span import Span

__all__ = ["JobBook", "JobSighting", "JobUpdates"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSighting:
    """A job as its source lists it now. `places` are the entities that are all its own."""

    job: Job
    places: tuple[str, ...] = ()
    run: str = "0"  # a job that was requeued runs again, maybe elsewhere
    why: str = ""  # why it is in this state, as its source puts it
    about: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUpdates:
    """What is new about jobs."""

    jobs: tuple[Job, ...] = ()
    spans: tuple[Span, ...] = ()
    events: tuple[Event, ...] = ()


class JobBook:
    """The jobs of one source. Ended jobs are forgotten once their source forgets them."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._last: dict[JobId, JobSighting] = {}  # with all that was known before
        self._last_sighting: dict[JobId, JobSighting] = {}  # as its source listed it

    def going_on(self) -> list[JobId]:
        """Return the jobs that wait or run as far as is known."""
        return [id_ for id_, seen in self._last.items() if not seen.job.state.ended]

    def fold(
        self, t_s: float, sightings: Iterable[JobSighting], *, silent: bool = False
    ) -> JobUpdates:
        """Take in jobs; the same again is no news. `silent`: nothing of it is worth an event."""
        jobs: list[Job] = []
        spans: list[Span] = []
        events: list[Event] = []
        for seen in sightings:
            if self._last_sighting.get(seen.job.id) == seen:
                continue
            self._last_sighting[seen.job.id] = seen
            before = self._last.get(seen.job.id)
            now = _continued(before, seen, t_s)
            self._last[seen.job.id] = now
            jobs.append(now.job)
            if before is not None and before.run != now.run:
                spans += self._spans(before, _until(before, now, t_s))
            spans += self._spans(now, now.job.end_s)
            if not silent:
                events += self._events(before, now, t_s)
        return JobUpdates(jobs=tuple(jobs), spans=tuple(spans), events=tuple(events))

    def lose(self, t_s: float, gone: Collection[JobId]) -> JobUpdates:
        """End jobs that their source no longer lists, without a known end."""
        why = f"{self.source} no longer lists it: how it ended is unknown"
        news = self.end(t_s, gone, why=why)
        events = tuple(
            _event(t_s, "job.lost", job.id, why, source=self.source) for job in news.jobs
        )
        return replace(news, events=events)

    def end(
        self, t_s: float, gone: Collection[JobId], *, why: str, state: JobState = JobState.COMPLETED
    ) -> JobUpdates:
        """End jobs now in a state; those that never ran were cancelled."""
        ends = []
        for id_ in gone:
            seen = self._last[id_]
            final = state if seen.job.state is JobState.RUNNING else JobState.CANCELLED
            over = replace(seen.job, state=final, gpus=(), end_s=t_s)
            ends.append(replace(seen, job=over, why=why))
        return self.fold(t_s, ends, silent=True)

    def forget(self, listed: Collection[JobId]) -> None:
        """Drop ended jobs that are not listed any more."""
        over = [id_ for id_, seen in self._last.items() if seen.job.state.ended]
        for id_ in over:
            if id_ not in listed:
                del self._last[id_], self._last_sighting[id_]

    def _spans(self, seen: JobSighting, to_s: float | None) -> list[Span]:
        job = seen.job
        if job.start_s is None:
            return []
        return [
            Span(
                id=f"{self.source}:{job.id}:{seen.run}:{place}",
                entity=place,
                kind="job",
                name=job.id,
                from_s=job.start_s,
                to_s=None if to_s is None else max(to_s, job.start_s),
                source=self.source,
                about=seen.about,
            )
            for place in seen.places
        ]

    def _events(self, before: JobSighting | None, now: JobSighting, t_s: float) -> list[Event]:
        job = now.job
        was = before.job.state if before is not None else None
        if job.state is JobState.FAILED and was is not JobState.FAILED:
            when_s = t_s if job.end_s is None else job.end_s
            return [_event(when_s, "job.failed", job.id, now.why, source=self.source)]
        again = before is not None and before.run != now.run
        if again or (was is JobState.RUNNING and job.state is JobState.QUEUED):
            text = now.why or "it was sent back into the queue"
            return [_event(t_s, "job.requeued", job.id, text, source=self.source)]
        return []


def _continued(before: JobSighting | None, seen: JobSighting, t_s: float) -> JobSighting:
    """Add what was known before: where it ran, and its history."""
    job, places = seen.job, seen.places
    if before is None:
        return replace(seen, job=replace(job, history=_began(job)))
    if before.run == seen.run:  # sources no longer list where exactly an ended job ran
        places = tuple(dict.fromkeys((*before.places, *places)))
    history = before.job.history
    if before.run != seen.run and before.job.state is JobState.RUNNING:
        over_s = _until(before, seen, t_s)
        history += (JobChange(t_s=over_s, state=JobState.QUEUED, why=seen.why or "requeued"),)
        history += _began(job)
    elif before.job.state is not job.state:
        if before.job.state is JobState.QUEUED and job.state.ended:
            history += _began(job)  # it ran between two looks
        history += (JobChange(t_s=_since(job, t_s), state=job.state, why=seen.why),)
    return replace(seen, job=replace(job, history=history), places=places)


def _began(job: Job) -> tuple[JobChange, ...]:
    if job.start_s is None:
        return ()
    return (JobChange(t_s=job.start_s, state=JobState.RUNNING, why="started"),)


def _since(job: Job, t_s: float) -> float:
    if job.state is JobState.RUNNING and job.start_s is not None:
        return job.start_s
    return job.end_s if job.state.ended and job.end_s is not None else t_s


def _until(before: JobSighting, now: JobSighting, t_s: float) -> float:
    """Return when an earlier run was over: when it ended, or at the latest when the next began."""
    if before.job.end_s is not None:
        return before.job.end_s
    return t_s if now.job.start_s is None else min(t_s, now.job.start_s)


def _event(t_s: float, kind: str, job: JobId, text: str, *, source: str) -> Event:
    return Event(t_s=t_s, kind=kind, subject=f"job:{job}", text=text, source=source)
