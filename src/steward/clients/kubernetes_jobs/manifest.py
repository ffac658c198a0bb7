"""The object that a submission creates: a TrainingJob where they are installed, or else a Job."""

from __future__ import annotations

import getpass
import math
import shlex
from typing import Any

from steward.clients.kubernetes.annotations import DOMAIN, HELD, SAVES
from steward.clients.kubernetes.batch_job import QUEUE
from steward.clients.kubernetes.custom_resources import API_VERSION
from steward.clients.kubernetes.job_template import job_spec
from steward.clients.kubernetes_jobs.job_options import KubeDraft, token_digest
from steward.clients.kubernetes_jobs.request_file import request_file

__all__ = ["ARRAY", "JOB_NAME", "TOKEN", "USER", "account", "manifest_of"]

TOKEN = f"{DOMAIN}/token"  # label: the digest of the token of a submission
USER = f"{DOMAIN}/user"
JOB_NAME = f"{DOMAIN}/job-name"
ARRAY = f"{DOMAIN}/array"
INDEX = "batch.kubernetes.io/job-completion-index"
KEPT_S = 7 * 86_400  # of a Job that is over
_EXTRA_GRACE_S = 10
_LEAST_GRACE_S = 30

# The script is not the first process of the container: that one alone would be sent TERM, and a
# shell does not hand it on. TERM goes to all others, and the container ends when they have ended.
_AROUND = """\
f=$(mktemp) && printf '%s' "$1" >"$f" || exit 75
shift
{start} "$f" "$@" &
p=$!
trap 't=1; if [ $$ = 1 ]; then kill -TERM -1; else kill -TERM $p; fi' TERM
wait $p; s=$?
while kill -0 $p 2>/dev/null; do wait $p; s=$?; done
while [ -n "$t" ] && [ $$ = 1 ] && kill -0 -1 2>/dev/null; do sleep 1; done
exit $s
"""


def account() -> str:
    """Return who types, for people: Kubernetes itself keeps no owner."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def manifest_of(
    draft: KubeDraft, *, namespace: str, training: bool, gpu_resource: str
) -> dict[str, Any]:
    """Return the object. Arrays and what waits in a queue of Kueue are Jobs in any case."""
    training = training and not draft.array and not draft.queue
    user = account()
    notes = {
        USER: user,
        JOB_NAME: draft.name,
        **({ARRAY: "true"} if draft.array else {}),
        **({HELD: f"by {user}, since it was submitted"} if draft.hold else {}),
    }
    saves = {SAVES: str(draft.save_s)} if draft.save_s is not None else {}
    template = {
        **({"metadata": {"annotations": saves}} if saves else {}),
        "spec": _pod(draft, gpu_resource),
    }
    notes |= {} if training else saves  # the operator writes them on the Job that it makes
    labels = {TOKEN: token_digest(draft.token), **({QUEUE: draft.queue} if draft.queue else {})}
    meta = {
        "name": draft.object_name,
        "namespace": namespace,
        "labels": labels,
        "annotations": notes,
    }
    if training:
        spec: dict[str, Any] = {"pods": draft.pods, "template": template}
        spec |= {"backoffLimit": draft.retries} if draft.retries else {}
        spec |= {"saveSeconds": draft.save_s} if draft.save_s is not None else {}
        return {"apiVersion": API_VERSION, "kind": "TrainingJob", "metadata": meta, "spec": spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta,
        "spec": _job(draft, template),
    }


def _job(draft: KubeDraft, template: dict[str, Any]) -> dict[str, Any]:
    spec = job_spec(template, pods=draft.pods, retries=draft.retries)
    if draft.array:  # a task that fails must not end the others
        spec |= {"backoffLimitPerIndex": spec.pop("backoffLimit")}
    return {
        **spec,
        "suspend": draft.hold or bool(draft.queue),
        "ttlSecondsAfterFinished": KEPT_S,
    }


def _pod(draft: KubeDraft, gpu_resource: str) -> dict[str, Any]:
    grace_s = max(_LEAST_GRACE_S, (draft.save_s or 0) + _EXTRA_GRACE_S)
    claims = [
        {"name": f"volume-{i}", "persistentVolumeClaim": {"claimName": claim}}
        for i, (claim, _) in enumerate(draft.volumes)
    ]
    asked = [request_file()[0]] if draft.save_s is not None else []
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": grace_s,
        **({"activeDeadlineSeconds": draft.time_limit_s} if draft.time_limit_s else {}),
        **({"priorityClassName": draft.priority_class} if draft.priority_class else {}),
        "containers": [_container(draft, gpu_resource)],
        **({"volumes": [*claims, *asked]} if claims or asked else {}),
    }


def _container(draft: KubeDraft, gpu_resource: str) -> dict[str, Any]:
    limits = {
        **({gpu_resource: str(draft.gpus_per_pod)} if draft.gpus_per_pod else {}),
        **({"cpu": str(draft.cpus)} if draft.cpus else {}),
        **({"memory": f"{math.ceil(draft.memory_bytes / 2**20)}Mi"} if draft.memory_bytes else {}),
    }
    mounts = [
        {"name": f"volume-{i}", "mountPath": path} for i, (_, path) in enumerate(draft.volumes)
    ]
    more: list[dict[str, Any]] = [{"name": "STEWARD_JOB_ID", "value": draft.object_name}]
    if draft.save_s is not None:
        _, mount, variable = request_file()
        mounts, more = [*mounts, mount], [*more, variable]
    index = {"fieldPath": f"metadata.annotations['{INDEX}']"}
    more += [{"name": "STEWARD_ARRAY_TASK_ID", "valueFrom": {"fieldRef": index}}] * draft.array
    return {
        "name": "main",
        "image": draft.image,
        "command": _command(draft),
        **({"workingDir": draft.folder} if draft.folder else {}),
        "env": [
            *({"name": name, "value": _literal(value)} for name, value in draft.environment),
            *more,
        ],
        **({"resources": {"limits": limits}} if limits else {}),
        **({"volumeMounts": mounts} if mounts else {}),
    }


def _command(draft: KubeDraft) -> list[str]:
    """Return what the container runs."""
    words = list(draft.argv)
    if draft.script:
        program, _, argument = (
            draft.script.splitlines()[0].removeprefix("#!").strip().partition(" ")
        )
        start = shlex.join([program, *([argument.strip()] if argument.strip() else [])])
        words = ["/bin/sh", "-c", _AROUND.format(start=start), "steward", draft.script, *words]
    return [_literal(each) for each in words]


def _literal(text: str) -> str:
    """Return a text that Kubernetes leaves as it is: it expands $(NAME), and $$ is one $."""
    return text.replace("$", "$$")
