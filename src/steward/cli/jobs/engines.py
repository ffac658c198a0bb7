"""Where jobs are submitted to and watched: one engine chosen by `--engine` or `jobs.engine`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer

from steward.cli.options import read_settings
from steward.clients.job_logs import JobLog
from steward.errors import StewardError

__all__ = ["Engine", "JobEngine", "SubmitRequest", "Submitted", "job_engine", "refuse_images"]

Engine = Annotated[
    str | None,
    typer.Option(
        "--engine", metavar="NAME", help="Where jobs run: local, slurm or kubernetes [jobs.engine]."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitRequest:
    """What a person typed: a script with arguments or a command, options, and what one engine has.

    `sbatch`, `as_is` and `inside` are Slurm's: options of sbatch, the script without the shell that
    forwards requests to save, and the allocation to run in. `volumes` are Kubernetes'.
    """

    command: Sequence[str]
    as_command: bool
    given: Mapping[str, str]
    sbatch: Sequence[str] = ()
    as_is: bool = False
    inside: str = ""
    volumes: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """What came of it, or would have: `lines` is the plan for people, `ignored` are options.

    `note` is said beside the answer, which is the id alone.
    """

    record: dict[str, Any]
    lines: Sequence[str] = ()
    ignored: Sequence[str] = ()
    wait: bool = False  # the script asks for it
    note: str = ""


class JobEngine(Protocol):
    """What `steward jobs` asks of an engine. Answers are records as `--json` prints them."""

    @property
    def slowest_poll_s(self) -> float: ...

    @property
    def job_id(self) -> tuple[str, str]:
        """What an id is: as a regular expression, and in words."""

    def submit(self, request: SubmitRequest, *, dry_run: bool) -> Submitted: ...

    def listed(self, *, ended: bool, limit: int) -> list[dict[str, Any]]: ...

    def show(self, job: str) -> dict[str, Any]: ...

    def status(self, job: str) -> int | None:
        """Return the exit status; None until the job is over."""

    def log(self, job: str) -> JobLog: ...

    def why(self, job: str) -> dict[str, Any]: ...

    def cost(self, job: str | None, *, limit: int) -> dict[str, Any]: ...

    def change(self, job: str, what: str, body: dict[str, Any]) -> dict[str, Any]: ...

    def planned_change(
        self, job: str, what: str, body: dict[str, Any]
    ) -> tuple[dict[str, Any], list[str]]:
        """Return what a change would send or run, as a record and as lines for people."""


def refuse_images(request: SubmitRequest, engine: str) -> None:
    """Refuse what only Kubernetes has."""
    if request.volumes or "image" in request.given:
        problem = "--image and --volume are for Kubernetes"
        raise StewardError(problem, where=f"--engine {engine}", hint="leave them out")


def _local(config: Path | None, data: Path | None) -> JobEngine:
    from steward.cli.jobs.local_engine import LocalEngine

    return LocalEngine(config, data)


def _slurm(config: Path | None, data: Path | None) -> JobEngine:
    from steward.cli.jobs.slurm_engine import SlurmEngine

    return SlurmEngine(config, data)


def _kubernetes(config: Path | None, data: Path | None) -> JobEngine:
    from steward.cli.jobs.kubernetes_engine import KubernetesEngine

    return KubernetesEngine(config, data)


ENGINES: Mapping[str, Callable[[Path | None, Path | None], JobEngine]] = {
    "local": _local,
    "slurm": _slurm,
    "kubernetes": _kubernetes,
}


def job_engine(
    name: str | None, config: Path | None, data: Path | None, *, job: str | None = None
) -> JobEngine:
    """Return the engine that was named, or that of the configuration.

    What can be no id of a `job` there is refused before it is asked for.
    """
    chosen = name or read_settings(config, data).jobs.engine
    if chosen not in ENGINES:
        hint = f"one of {', '.join(ENGINES)}"
        raise StewardError(f"there is no engine {chosen!r}", where="--engine", hint=hint)
    engine = ENGINES[chosen](config, data)
    pattern, words = engine.job_id
    if job is not None and re.fullmatch(pattern, job) is None:
        hint = f"{words}; `steward jobs list --all` shows them"
        raise StewardError(f"{job!r} is no id of a job", where="ID", hint=hint)
    return engine
