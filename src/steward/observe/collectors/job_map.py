"""Reads which job holds which GPU from a folder that a scheduler's prolog fills.

One file per GPU, named by its number, with a job id per line: what dcgm-exporter calls an HPC job
mapping. `deploy/slurm/` has the two scripts that write it.
"""

from __future__ import annotations

from pathlib import Path

from steward.clients.host import hostname
from steward.model.event import Availability, Event, Observation
from steward.model.identity import stable_id
from steward.model.span import Span

__all__ = ["JobMap"]

MOST_BYTES = 65_536
MOST_ID_CHARS = 128


class JobMap:
    """Spans of jobs on GPUs. A job holds a GPU since its file was written, until it is gone.

    A span that ends between two reads stays open here; the scheduler's own collector closes it.
    """

    name = "job-map"
    vocabulary = "canonical"

    def __init__(self, *, folder: str = "/run/steward-jobs", node: str = "") -> None:
        self.node = node or hostname()
        self._folder = Path(folder)
        self._open: dict[tuple[str, str], Span] = {}
        self._refused: set[str] = set()

    def available(self) -> Availability:
        if self._folder.is_dir():
            return Availability(status="ok", reason=str(self._folder))
        return Availability(
            status="missing",
            reason=f"there is no {self._folder}",
            hint="a Slurm prolog can fill it: deploy/slurm/prolog.sh",
        )

    def collect(self, t_s: float) -> Observation:
        """Return the jobs that came to a GPU or left it since the last look."""
        held: dict[tuple[str, str], float] = {}
        events: list[Event] = []
        for file in sorted(self._folder.glob("*")) if self._folder.is_dir() else []:
            gpu = file.name.removeprefix("gpu")
            if not gpu.isdecimal():
                continue  # a lock, or a file that is being written
            held.update({(gpu, job): since for job, since in self._jobs(file, events, t_s)})
        begun = [self._begin(gpu, job, held[gpu, job]) for gpu, job in held.keys() - self._open]
        ended = [self._end(key, t_s) for key in self._open.keys() - held.keys()]
        spans = sorted((*ended, *begun), key=lambda span: (span.entity, span.from_s, span.name))
        return Observation(spans=tuple(spans), events=tuple(events))

    def close(self) -> None:
        """Do nothing: no resource is held between two calls."""

    def _jobs(self, file: Path, events: list[Event], t_s: float) -> list[tuple[str, float]]:
        try:
            since_s = file.stat().st_mtime
            with file.open("rb") as opened:
                lines = opened.read(MOST_BYTES).decode("utf-8", "replace").split()
        except OSError:
            return []  # the job ended just now
        good = [each for each in lines if each.isprintable() and len(each) <= MOST_ID_CHARS]
        if len(good) < len(lines) and file.name not in self._refused:
            self._refused.add(file.name)
            text = f"{file} has lines that are no job ids; they are left out"
            events.append(
                Event(
                    t_s=t_s, kind="jobs.unreadable", subject=file.name, text=text, source="job-map"
                )
            )
        return [(job, since_s) for job in dict.fromkeys(good)]

    def _begin(self, gpu: str, job: str, since_s: float) -> Span:
        entity = f"{self.node}/gpu{int(gpu)}"
        span = Span(
            id=stable_id("span", "job-map", entity, job, since_s),
            entity=entity,
            kind="job",
            name=job,
            from_s=since_s,
            source=self.name,
        )
        self._open[gpu, job] = span
        return span

    def _end(self, key: tuple[str, str], t_s: float) -> Span:
        span = self._open.pop(key)
        return Span(
            id=span.id,
            entity=span.entity,
            kind=span.kind,
            name=span.name,
            from_s=span.from_s,
            to_s=max(t_s, span.from_s),
            source=span.source,
        )
