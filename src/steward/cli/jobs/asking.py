"""Speaks to the steward that runs here, or shows what would be said to it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from steward.cli.options import read_settings
from steward.errors import StewardError, TemporaryError
from steward.model.managed_job import JOB_ID

if TYPE_CHECKING:
    from steward.clients.local_service import LocalService

__all__ = [
    "NUMBERED",
    "DryRun",
    "JobArgument",
    "NoStewardError",
    "ask_job",
    "patiently",
    "service",
    "there",
]


T = TypeVar("T")


NUMBERED = JOB_ID, "an id is a number, of a task NUMBER_INDEX"  # on engines that count jobs
JobArgument = Annotated[str, typer.Argument(metavar="ID", help="A job, or an array of them.")]
GONE_S = 60.0  # so long steward may be down
BUSY_S = 600.0  # so long it may have no time for us
RETRY_S = 0.5
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be sent or run, and change nothing.")
]


class NoStewardError(StewardError):
    """No steward listens."""


def service(config: Path | None, data: Path | None) -> LocalService:
    """Return the steward of this machine."""
    from steward.clients.local_service import LocalService

    return LocalService(read_settings(config, data).socket_path)


def there(answer: Any, config: Path | None, data: Path | None) -> Any:  # noqa: ANN401 - JSON
    """Return an answer, or raise if nobody was there to give it."""
    if answer is None:
        path = read_settings(config, data).socket_path
        raise NoStewardError(
            "no steward runs here", where=str(path), hint="start it with `steward up`"
        )
    return answer


def ask_job(job: str, *what: str, config: Path | None, data: Path | None) -> dict[str, Any]:
    """Return what the API says of one job."""
    found = there(service(config, data).get("jobs", job, *what), config, data)
    assert isinstance(found, dict)  # noqa: S101 - what the API returns
    return found


def patiently(ask: Callable[[], T]) -> T:
    """Return an answer, though steward is being restarted or has too many requests to answer.

    A job's exit status must not become that of a command which gave up for a reason of its own.
    """
    began = time.monotonic()
    while True:
        try:
            return ask()
        except (NoStewardError, TemporaryError) as fault:
            most_s = GONE_S if isinstance(fault, NoStewardError) else BUSY_S
            if time.monotonic() - began > most_s:
                raise
            time.sleep(RETRY_S)
