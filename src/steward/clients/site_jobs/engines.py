"""The engines of sites: a steward through its socket, Slurm's commands, the Kubernetes API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from steward.clients.job_directives import options_body
from steward.clients.kubernetes_jobs.engine import KubernetesJobs
from steward.clients.kubernetes_jobs.job_options import draft_of as kube_draft
from steward.clients.local_service import LocalService
from steward.clients.site_jobs.site import Order, UnknownJobError
from steward.clients.slurm.control import SlurmControl
from steward.clients.slurm_jobs.engine import SlurmJobs
from steward.clients.slurm_jobs.sbatch_options import draft_of as slurm_draft
from steward.errors import StewardError, TemporaryError

__all__ = ["KubernetesSite", "LocalSite", "SlurmSite"]

_UNKNOWN = re.compile(r"no job|no such|not found|unknown job|invalid job id", re.IGNORECASE)
_FOR_SLURM = ("slots",)
_FOR_LOCAL = ("partition", "account", "qos", "nodes", "ntasks", "saves")


class LocalSite:
    """The jobs of a steward on this machine."""

    saved_files = True

    def __init__(self, socket: Path) -> None:
        self._service = LocalService(socket)
        self._socket = socket

    def submit(self, order: Order) -> str:
        options = {name: each for name, each in order.options.items() if name not in _FOR_LOCAL}
        if order.hold:
            options["hold"] = ""
        body = {
            "argv": [str(order.launcher)],
            "script": "",
            "folder": order.folder,
            "environment": {},
            "token": order.token,
            **options_body({"job-name": order.name, **options}),
        }
        return str(self._there(self._service.post("jobs", body=body))["id"])

    def show(self, job: str) -> Mapping[str, Any]:
        found = self._asked(lambda: self._service.get("jobs", job), job)
        return dict(found)

    def change(self, job: str, what: str) -> None:
        self._asked(lambda: self._service.post("jobs", job, what, body={}), job)

    def ping(self) -> None:
        self._there(self._service.get("status"))

    def _asked(self, ask: Any, job: str) -> Any:  # noqa: ANN401 - JSON
        try:
            return self._there(ask())
        except TemporaryError:
            raise
        except StewardError as fault:
            raise _unknown(fault, job) from fault

    def _there(self, answer: Any) -> Any:  # noqa: ANN401 - JSON
        if answer is None:
            raise TemporaryError("no steward runs there", where=str(self._socket))
        return answer


class SlurmSite:
    """The jobs of a Slurm whose commands run here. `folder` of an order is on its nodes, too."""

    saved_files = True

    def __init__(self, slurm: SlurmControl) -> None:
        self._slurm = slurm
        self._jobs = SlurmJobs(slurm)

    def submit(self, order: Order) -> str:
        options = {name: each for name, each in order.options.items() if name not in _FOR_SLURM}
        given = {
            "job-name": order.name,
            "export": "NONE",  # the launcher has the environment
            "chdir": order.folder,
            **options,
            "token": order.token,
        }
        if order.hold:
            given["hold"] = ""
        draft = slurm_draft([str(order.launcher)], given, script="")
        return str(self._jobs.submit(draft)["id"])

    def show(self, job: str) -> Mapping[str, Any]:
        try:
            return self._jobs.show(job)
        except TemporaryError:
            raise
        except StewardError as fault:
            raise _unknown(fault, job) from fault

    def change(self, job: str, what: str) -> None:
        """Run the commands of a change, without waiting for what the job answers."""
        for command in self._jobs.commands(what, job, {}):
            self._slurm.change(command)

    def ping(self) -> None:
        self._jobs.listed(ended=False, limit=1)


class KubernetesSite:
    """The jobs of a namespace. Their folders are on volumes that are not seen from here."""

    saved_files = False

    def __init__(self, jobs: KubernetesJobs, *, image: str) -> None:
        self._jobs, self._image = jobs, image

    def submit(self, order: Order) -> str:
        given = {"job-name": order.name, **order.options, "token": order.token}
        given["export"] = ",".join(f"{name}={each}" for name, each in order.environment.items())
        if order.hold:
            given["hold"] = ""
        draft = kube_draft(
            order.argv, given, script="", image=order.image or self._image, volumes=order.volumes
        )
        return str(self._jobs.submit(draft)["id"])

    def show(self, job: str) -> Mapping[str, Any]:
        try:
            return self._jobs.show(job)
        except TemporaryError:
            raise
        except StewardError as fault:
            raise _unknown(fault, job) from fault

    def change(self, job: str, what: str) -> None:
        self._jobs.change(what, job, {})

    def ping(self) -> None:
        self._jobs.listed(ended=False, limit=1)


def _unknown(fault: StewardError, job: str) -> StewardError:
    """Return what an engine says of a job that it does not have, as such."""
    if _UNKNOWN.search(fault.problem):
        return UnknownJobError(fault.problem, where=f"job {job}")
    return fault
