"""A save without a stop: asked for by an annotation of the pod, answered in its log.

The kubelet copies the annotation into a file of the pod (a volume of the downward API), where the
training looks. So no right to run commands in pods is needed, only to change them and to read logs.
"""

from __future__ import annotations

import json
import re
import secrets
import shlex
import time
from collections.abc import Callable, Mapping
from typing import Any

from steward.clients.kubernetes.api import Api
from steward.clients.kubernetes.faults import (
    ForbiddenError,
    KubernetesError,
    MissingError,
    RejectedError,
    UnauthorizedError,
)
from steward.clients.kubernetes.objects import Pod
from steward.clients.kubernetes_jobs.job_request import JobRequest
from steward.clients.kubernetes_jobs.listed_job import KubeJob
from steward.clients.kubernetes_jobs.request_file import SAVE_REQUESTED
from steward.errors import StewardError
from steward.training.protocol import ANSWER_LINE

__all__ = ["SaveWait", "answer_in", "read_answer", "save_requests"]

_POLL_S = 1.0
_REFRESH_S = 60  # what a kubelet may take until a file has the new annotation
_LINES, _LOG_BYTES = 5000, 1 << 24
_NOT_STARTED = re.compile(r"waiting to start|does not have a host assigned")


def save_requests(job: KubeJob) -> tuple[str, tuple[JobRequest, ...]]:
    """Return the id of a new request, and what puts it into the pods that run."""
    id_ = secrets.token_hex(8)
    value = json.dumps({"id": id_, "do": "save", "reason": "steward jobs save"})
    return id_, tuple(_request(pod, value) for pod in job.live if not pod.leaving)


def _request(pod: Pod, value: str) -> JobRequest:
    # Not by version: the kubelet writes the status of a pod at any time.
    body = {"metadata": {"uid": pod.uid, "annotations": {SAVE_REQUESTED: value}}}
    note = shlex.quote(f"{SAVE_REQUESTED}={value}")
    typed = f"kubectl -n {pod.namespace} annotate --overwrite pod {pod.name} {note}"
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
    return JobRequest(verb="patch", path=path, body=body, typed=typed)


class SaveWait:
    """Reads the logs of the pods that were asked until they have answered.

    The pods of a job save together, and one answers for all; each task of an array answers alone.
    """

    def __init__(
        self,
        api: Api,
        job: KubeJob,
        id_: str,
        *,
        within_s: float,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._api = api
        self._job = job
        self._id = id_
        self._within_s = within_s
        self._sleep = sleep
        self._answers: dict[str, dict[str, Any]] = {}
        self._trouble = ""

    def answered(self) -> str:
        """Return how it went, in words; raise where a pod could not save or did not answer."""
        pods = [each for each in self._job.live if not each.leaving]
        gone: set[str] = set()
        began_s = time.monotonic()
        while not self._complete(pods):
            waited_s = time.monotonic() - began_s
            if waited_s > self._within_s or len(gone) == len(pods):
                raise self._silent(pods, gone, waited_s)
            self._sleep(_POLL_S)
            for pod in pods:
                if pod.name not in self._answers and pod.name not in gone:
                    self._look(pod, gone, since_s=int(waited_s) + _REFRESH_S)
        for name, answer in sorted(self._answers.items()):
            if answer.get("result") != "saved":
                why = answer.get("why") or answer.get("result")
                raise self._fault(f"pod {name} could not save: {why}; it goes on")
        return "; ".join(dict.fromkeys(_text(each) for _, each in sorted(self._answers.items())))

    def _complete(self, pods: list[Pod]) -> bool:
        wanted = len(pods) if self._job.array else 1
        return len(self._answers) >= wanted

    def _look(self, pod: Pod, gone: set[str], *, since_s: int) -> None:
        try:
            answer = read_answer(
                self._api, pod, self._id, since_s=since_s, container=self._job.container
            )
        except MissingError:
            gone.add(pod.name)
            return
        except (ForbiddenError, UnauthorizedError, RejectedError) as fault:
            if _NOT_STARTED.search(fault.problem) is None:
                problem = f"it was asked to save, and its answer cannot be read: {fault.problem}"
                raise self._fault(problem) from fault
            return
        except KubernetesError as fault:
            self._trouble = fault.problem  # a server that is away may be back in time
            return
        if answer is not None:
            self._answers[pod.name] = answer

    def _silent(self, pods: list[Pod], gone: set[str], waited_s: float) -> StewardError:
        known = [f"{len(self._answers)} of {len(pods)} pods have answered in their logs"]
        known += [f"{len(gone)} are gone"] if gone else []
        known += [self._trouble] if self._trouble else []
        late = (
            ": a kubelet takes up to about a minute until a pod sees the request"
            if waited_s < 2 * _REFRESH_S
            else ""
        )
        problem = (
            f"whether it saves is not known: within {waited_s:.0f} s {', '.join(known)}{late}; "
            "it goes on, and may still save"
        )
        return self._fault(problem)

    def _fault(self, problem: str) -> StewardError:
        hint = (
            "its program needs steward.training (docs/jobs/checkpoints.md) and has to print to the "
            f"container's log: `steward jobs logs {self._job.id}`"
        )
        return StewardError(problem, where=f"job {self._job.id}", hint=hint)


def read_answer(
    api: Api, pod: Pod, id_: str, *, since_s: int, container: str = ""
) -> dict[str, Any] | None:
    """Return the answer to a request in the log of a pod; None while there is none."""
    query = {
        "tailLines": str(_LINES),
        "sinceSeconds": str(since_s),
        "limitBytes": str(_LOG_BYTES),
        **({"container": container} if container else {}),
    }
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/log"
    return answer_in(api.text(path, query).decode("utf-8", "replace"), id_)


def answer_in(text: str, id_: str) -> dict[str, Any] | None:
    """Return the answer to a request in a log: its line may follow a progress bar's."""
    for part in text.split(ANSWER_LINE)[1:]:
        try:
            found, _ = json.JSONDecoder().raw_decode(part)
        except ValueError:
            continue
        if isinstance(found, dict) and found.get("id") == id_:
            return found
    return None


def _text(answer: Mapping[str, Any]) -> str:
    return f"saved at step {answer.get('step')}, {answer.get('checkpoint') or 'place unknown'}"
