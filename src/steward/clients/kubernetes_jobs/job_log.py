"""Reads what the pods of a job print, from the first to the newest that there is."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from steward.clients.job_logs import LogPart, whole_characters
from steward.clients.kubernetes.api import Api
from steward.clients.kubernetes.faults import MissingError, RejectedError, retryable_faults
from steward.clients.kubernetes.objects import Pod
from steward.clients.kubernetes_jobs.listed_job import KubeJob
from steward.errors import StewardError

__all__ = ["KubeLog"]

MOST_BYTES = 1 << 20
KNOWN_BYTES = 1024  # of what was read last: the server has no offsets
_ENDED = ("Succeeded", "Failed")
_NO_LOG = re.compile(
    r"waiting to start|does not have a host assigned|previous terminated container"
)


@dataclass(slots=True)
class _Position:
    """How far the log of one pod was read."""

    pod: Pod
    offset: int = 0
    last: bytes = b""
    begun: bool = False
    gone: bool = False


class KubeLog:
    """What one job prints, of several pods at a time that of index 0.

    `look` finds the job and the index that is meant. Kubernetes deletes the log of a pod with the
    pod, and a Job that is suspended has its pods deleted: what was not read by then is lost.
    """

    def __init__(self, api: Api, look: Callable[[], tuple[KubeJob, int | None]]) -> None:
        self._api = api
        self._look = look
        self._positions: dict[str, _Position] = {}
        self._first = True

    def read(self) -> LogPart:
        """Return the next part of the oldest pod that has one."""
        job, index = self._look()
        pods = job.runs(index)
        if not pods and job.ended and not self._positions:
            hint = "Kubernetes deletes logs with the pods"
            raise StewardError("its pods are gone", where=f"job {job.id}", hint=hint)
        notes = [*self._deleted_earlier(job, pods), *self._deleted_since(pods)]
        for pod in pods:
            at = self._positions.setdefault(pod.uid, _Position(pod))
            at.pod = pod
            with retryable_faults():
                data, note = self._next(at, job.container, over=job.ended or pod.phase in _ENDED)
            notes += [note] if note else []
            if data:
                text = data.decode("utf-8", "replace")
                return LogPart(text=text, over=False, note="; ".join(notes))
        return LogPart(text="", over=job.ended, note="; ".join(notes))

    def _deleted_earlier(self, job: KubeJob, pods: list[Pod]) -> list[str]:
        """Return a note, once, where pods of earlier runs were gone before the first read."""
        first, self._first = self._first, False
        start_s = job.job.start_s if job.job else None  # of this run; None while it is stopped
        earlier = [pod for pod in pods if start_s is None or pod.created_s < start_s]
        if not first or not job.was_preempted or earlier:
            return []
        return ["it was stopped: what its pods printed before was deleted with them"]

    def _deleted_since(self, pods: list[Pod]) -> list[str]:
        """Return a note, once, for each pod that was deleted while its log was read."""
        there = {pod.uid for pod in pods}
        found = []
        for uid, at in self._positions.items():
            if uid not in there and not at.gone and at.pod.phase not in _ENDED:
                found.append(f"pod {at.pod.name} is gone: its last lines may be missing")
            at.gone = uid not in there
        return found

    def _next(self, at: _Position, container: str, *, over: bool) -> tuple[bytes, str]:
        """Return what follows in one pod, and a note if lines may be missing before it."""
        first, at.begun = not at.begun, True
        if first and at.pod.restarts:
            before = self._printed(at.pod, container, previous=True)
            if before:
                return before, ""
        # Twice as much each time: all that was read comes again.
        most_bytes = at.offset + max(at.offset, MOST_BYTES)
        data = self._printed(at.pod, container, most_bytes=most_bytes)
        whole = over and len(data) < most_bytes
        note = ""
        if data[at.offset - len(at.last) : at.offset] != at.last:
            rest, note = self._rest_of_another(at, container)
            at.offset, at.last = 0, b""
            if rest:
                return rest, note
        data = data[at.offset :]
        if not whole:
            data = whole_characters(data)
        at.offset += len(data)
        at.last = (at.last + data)[-KNOWN_BYTES:]
        return data, note

    def _rest_of_another(self, at: _Position, container: str) -> tuple[bytes, str]:
        """Return what was not read of a log that was replaced: by a restart, or by rotation."""
        before = self._printed(at.pod, container, previous=True)
        if at.last and before[at.offset - len(at.last) : at.offset] == at.last:
            return before[at.offset :], ""
        return b"", f"the log of pod {at.pod.name} was rotated: lines may be missing here"

    def _printed(
        self, pod: Pod, container: str, *, most_bytes: int = 0, previous: bool = False
    ) -> bytes:
        query = {
            **({"container": container} if container else {}),
            **({"limitBytes": str(most_bytes)} if most_bytes else {}),
            **({"previous": "true"} if previous else {}),
        }
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/log"
        try:
            return self._api.text(path, query)
        except MissingError:  # deleted since the look
            return b""
        except RejectedError as fault:
            if _NO_LOG.search(fault.problem) is None:
                raise
            return b""
