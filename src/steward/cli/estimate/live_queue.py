"""What estimates take from a running steward: its cluster with the queue, and its history."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.learn.estimators.job_history import JobHistory

__all__ = ["job_history", "read_cluster"]

_MOST_JOBS = 10_000  # of a queue that are looked at, and as many that run


def read_cluster(socket: Path) -> Any:  # noqa: ANN401 - JSON
    """Return what `GET /api/v1/cluster` answers; without a steward it is an error."""
    from steward.clients.local_service import LocalService

    query = {"queue_limit": _MOST_JOBS, "running_limit": _MOST_JOBS}
    cluster = LocalService(socket).get("cluster", query=query)
    if cluster is None:
        raise StewardError(
            "no steward runs there, so there is no queue to look at",
            where=str(socket),
            hint="start it with `steward up`, or leave out --wait",
        )
    return cluster


def job_history(estimators: Iterable[Any], *, needed_by: str) -> JobHistory:
    """Return the estimator `job-history` among others; without it is an error."""
    for each in estimators:
        if each.name == "job-history":
            found: JobHistory = each
            return found
    raise StewardError(
        "job-history has learned nothing here",
        where=needed_by,
        hint='name it in learn.estimators (["job-history", …]), or give --history FILE',
    )
