"""A `TrainingJob`, the Job that is made for it, and what is said about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from steward.clients.kubernetes.annotations import (
    DOMAIN,
    ELASTIC,
    HELD,
    HOLD,
    SAVES,
    annotations_of,
)
from steward.clients.kubernetes.custom_resources import API_VERSION, TRAINING_JOBS
from steward.clients.kubernetes.job_template import job_spec
from steward.clients.kubernetes.objects import map_in

__all__ = ["TrainingJob", "training_job_from"]

LABEL = f"{DOMAIN}/training-job"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJob:
    """What its owner wants, and what was last said about it."""

    uid: str
    name: str
    namespace: str
    version: str
    generation: int
    leaving: bool
    spec: Mapping[str, Any]
    status: Mapping[str, Any] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        root = TRAINING_JOBS.rpartition("/")[0]
        return f"{root}/namespaces/{self.namespace}/trainingjobs/{self.name}"

    @property
    def jobs_path(self) -> str:
        return f"/apis/batch/v1/namespaces/{self.namespace}/jobs"

    @property
    def job_name(self) -> str:
        """Return the name of its Job: always the same, and another one where it is made anew."""
        return f"{self.name[:52].rstrip('.-')}-{self.uid.replace('-', '')[-8:]}"

    @property
    def job_uid(self) -> str:
        return str(self.status.get("jobUid") or "")

    @property
    def phase(self) -> str:
        return str(self.status.get("phase") or "")

    @property
    def changes(self) -> int:
        return int(self.status.get("changes") or 0)

    def job(self) -> dict[str, Any]:
        """Return the Job to create: suspended for steward, which decides when it starts."""
        spec, pods = self.spec, int(self.spec.get("pods") or 1)
        elastic = map_in(spec, "elastic")
        notes = {
            HOLD: "true",
            **({HELD: self.annotations[HELD]} if HELD in self.annotations else {}),
            **({SAVES: str(spec["saveSeconds"])} if "saveSeconds" in spec else {}),
            **({ELASTIC: f"{elastic['minPods']}-{elastic['maxPods']}"} if elastic else {}),
        }
        owner = {
            "apiVersion": API_VERSION,
            "kind": "TrainingJob",
            "name": self.name,
            "uid": self.uid,
            "controller": True,
        }
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": self.job_name,
                "namespace": self.namespace,
                "labels": {LABEL: self.name[:63].rstrip("._-")},
                "annotations": notes,
                "ownerReferences": [owner],
            },
            "spec": {
                **job_spec(self._template(), pods=pods, retries=int(spec.get("backoffLimit") or 0)),
                "suspend": True,
            },
        }

    def _template(self) -> dict[str, Any]:
        """Return the template of its pods, which do not have the annotations of their Job."""
        template = dict(self.spec["template"])
        if "saveSeconds" not in self.spec:
            return template
        meta = map_in(template, "metadata")
        notes = {SAVES: str(self.spec["saveSeconds"]), **map_in(meta, "annotations")}
        return {**template, "metadata": {**meta, "annotations": notes}}


def training_job_from(raw: Mapping[str, Any]) -> TrainingJob | None:
    """Read a TrainingJob; None when it is not one."""
    meta, spec = map_in(raw, "metadata"), map_in(raw, "spec")
    if not meta.get("uid") or not map_in(spec, "template"):
        return None
    return TrainingJob(
        uid=str(meta["uid"]),
        name=str(meta.get("name") or ""),
        namespace=str(meta.get("namespace") or ""),
        version=str(meta.get("resourceVersion") or ""),
        generation=int(meta.get("generation") or 0),
        leaving=bool(meta.get("deletionTimestamp")),
        spec=spec,
        status=map_in(raw, "status"),
        annotations=annotations_of(meta),
    )
