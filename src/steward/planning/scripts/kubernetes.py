"""A Job of Kubernetes as a manifest, and what creates it at a later start."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from math import ceil
from typing import Any

import yaml

from steward.clients.kubernetes.job_template import job_spec
from steward.errors import StewardError
from steward.planning.scripts.job import PlannedJob, Script, comment_lines, file_name
from steward.planning.scripts.shell import wait_lines

__all__ = ["kubernetes_scripts", "manifest_of"]

GPU_RESOURCE = "nvidia.com/gpu"
_GPU_LABEL = "nvidia.com/gpu.product"
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_MIB = 2**20
_LEAST_GRACE_S = 30
_LONGEST_NAME = 52  # Indexed Jobs add to it for their pods


def kubernetes_scripts(job: PlannedJob, place: int) -> tuple[Script, ...]:
    """Return the manifest; a later start has a script that waits and creates it then."""
    name = f"{file_name(job, place)}.yaml"
    dumped = yaml.safe_dump(manifest_of(job), sort_keys=False, allow_unicode=True)
    text = "\n".join([*comment_lines(job), dumped])
    create = f"kubectl create -f {shlex.quote(name)}"
    if not job.starts_later:
        return (Script(name=name, text=text, start=create),)
    submit = f"{file_name(job, place)}.submit.sh"
    lines = [
        "#!/bin/bash",
        "set -euo pipefail",
        'cd "$(dirname "$0")"',
        *wait_lines(job),
        f"exec {create}",
    ]
    return (
        Script(name=name, text=text),
        Script(name=submit, text="\n".join(lines) + "\n", start=f"bash {shlex.quote(submit)}"),
    )


def manifest_of(job: PlannedJob) -> dict[str, Any]:
    """Return the Job."""
    if not job.program.image:
        raise StewardError(
            "a Job of Kubernetes needs an image",
            where=job.choice.site,
            hint="name one with --image, as --image pytorch/pytorch:2.9",
        )
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": max(_LEAST_GRACE_S, ceil(2 * job.request.save_s)),
        "containers": [_container(job)],
    }
    labels = [name for name in job.gpu_names if _LABEL.fullmatch(name)]
    if labels:
        pod["affinity"] = {"nodeAffinity": _on_nodes_with(labels)}
    if job.queue.max_s is not None:
        pod["activeDeadlineSeconds"] = int(job.limit_s)
    spec = job_spec({"spec": pod}, pods=job.choice.nodes, retries=job.choice.links - 1)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"generateName": f"{_dns_name(job.request.name)}-"},
        "spec": spec,
    }


def _on_nodes_with(gpu_names: list[str]) -> dict[str, Any]:
    """Return the condition that a node has one of these GPUs, as NVIDIA's operator labels them."""
    term = {"key": _GPU_LABEL, "operator": "In", "values": gpu_names}
    terms = [{"matchExpressions": [term]}]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}


def _container(job: PlannedJob) -> Mapping[str, Any]:
    request = job.request
    asked = {"cpu": str(request.cores)}
    if request.memory_bytes:
        asked["memory"] = f"{ceil(request.memory_bytes / _MIB)}Mi"
    limits = {"memory": asked["memory"]} if "memory" in asked else {}
    if job.choice.way.gpus:
        limits[GPU_RESOURCE] = str(job.gpus_per_node)
    folder = {"workingDir": job.program.folder} if job.program.folder else {}
    return {
        "name": "main",
        "image": job.program.image,
        "command": [each.replace("$", "$$") for each in job.program.argv],
        **folder,
        "resources": {"requests": asked, **({"limits": limits} if limits else {})},
    }


def _dns_name(text: str) -> str:
    """Return a name that Kubernetes takes.

    >>> _dns_name("Train_ResNet 50"), _dns_name("λ")
    ('train-resnet-50', 'job')
    """
    plain = re.sub(r"[^a-z0-9-]+", "-", text.lower())[:_LONGEST_NAME].strip("-")
    return plain or "job"
