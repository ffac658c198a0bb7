"""What Slurm and Kubernetes have in common: their client's answers go to people as they are."""

from __future__ import annotations

from typing import Any, Protocol

from steward.clients.job_logs import JobLog
from steward.errors import StewardError

__all__ = ["ClusterEngine", "ClusterJobs"]


class ClusterJobs(Protocol):
    """The jobs of a cluster, for the account that runs this process."""

    def listed(self, *, ended: bool, limit: int) -> list[dict[str, Any]]: ...

    def show(self, id_: str) -> dict[str, Any]: ...

    def status(self, id_: str) -> int | None: ...

    def log(self, id_: str) -> JobLog: ...

    def why(self, id_: str) -> dict[str, Any]: ...

    def change(self, what: str, id_: str, body: dict[str, Any]) -> list[dict[str, Any]]: ...


class ClusterEngine:
    """An engine that keeps its jobs itself. No steward has to run."""

    slowest_poll_s = 5.0  # Slurm's own limit, where there is one, is two requests a second

    def __init__(self, jobs: ClusterJobs, *, no_cost: StewardError) -> None:
        self._all, self._no_cost = jobs, no_cost

    def listed(self, *, ended: bool, limit: int) -> list[dict[str, Any]]:
        return self._all.listed(ended=ended, limit=limit)

    def show(self, job: str) -> dict[str, Any]:
        return self._all.show(job)

    def status(self, job: str) -> int | None:
        return self._all.status(job)

    def log(self, job: str) -> JobLog:
        return self._all.log(job)

    def why(self, job: str) -> dict[str, Any]:
        return self._all.why(job)

    def cost(self, job: str | None, *, limit: int) -> dict[str, Any]:
        del job, limit
        raise self._no_cost

    def change(self, job: str, what: str, body: dict[str, Any]) -> dict[str, Any]:
        return {"jobs": self._all.change(what, job, body)}
