"""Jobs of a Kubernetes, through its API as the user who types. No steward has to run."""

from __future__ import annotations

import secrets
import weakref
from pathlib import Path
from typing import Any

from steward.cli.jobs.cluster_engine import ClusterEngine
from steward.cli.jobs.engines import SubmitRequest, Submitted
from steward.cli.jobs.submission import read_script
from steward.cli.options import read_settings
from steward.clients.kubernetes import Api, find_credentials
from steward.clients.kubernetes_jobs.engine import MANAGER, KubernetesJobs
from steward.clients.kubernetes_jobs.job_options import draft_of
from steward.errors import StewardError

__all__ = ["KubernetesEngine"]

_NAME = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"


class KubernetesEngine(ClusterEngine):
    """The cluster and namespace that `[plugs.kubernetes]` names, or those of the kubeconfig."""

    job_id = (
        rf"((trainingjob|job)/)?{_NAME}(_[0-9]{{1,6}})?",
        "an id is a name, as train-4f2a, of one of its pods NAME_INDEX",
    )

    def __init__(self, config: Path | None, data: Path | None) -> None:
        settings = read_settings(config, data)
        options = settings.plugs.get("kubernetes", {})
        access = find_credentials(
            str(options.get("kubeconfig", "")), context=str(options.get("context", ""))
        )
        if access is None:
            hint = "set KUBECONFIG or plugs.kubernetes.kubeconfig, or run it in the cluster"
            raise StewardError("no cluster is configured", where="kubernetes", hint=hint)
        self._image = settings.jobs.kubernetes_image
        api = Api(access, timeout_s=float(options.get("timeout_s", 10.0)), manager=MANAGER)
        weakref.finalize(self, api.close)
        self._jobs = KubernetesJobs(
            api,
            namespace=str(options.get("namespace", "")) or access.namespace or "default",
            gpu_resource=settings.jobs.kubernetes_gpu,
            save_within_s=settings.jobs.save_within_s,
        )
        hint = "a steward that observes the cluster has it: `steward report`"
        problem = "what jobs cost is not kept for Kubernetes"
        super().__init__(self._jobs, no_cost=StewardError(problem, where="cost", hint=hint))

    def submit(self, request: SubmitRequest, *, dry_run: bool) -> Submitted:
        if request.sbatch or request.as_is or request.inside:
            problem = "--sbatch, --as-is and --inside are for Slurm"
            raise StewardError(problem, where="--engine kubernetes", hint="leave them out")
        given = {"token": secrets.token_hex(8), **request.given}
        script = "" if request.as_command else read_script(Path(request.command[0]))
        draft = draft_of(
            request.command, given, script=script, image=self._image, volumes=request.volumes
        )
        if dry_run:
            made = self._jobs.manifest(draft)
            return Submitted(record=made, lines=_yaml(made), ignored=draft.ignored, wait=draft.wait)
        record = self._jobs.submit(draft)
        note = f"{record['kind']} {record['namespace']}/{record['id']}: {record['state']}"
        return Submitted(record=record, ignored=draft.ignored, wait=draft.wait, note=note)

    def planned_change(
        self, job: str, what: str, body: dict[str, Any]
    ) -> tuple[dict[str, Any], list[str]]:
        requests = self._jobs.requests(what, job, body)
        sent = [{"verb": x.verb, "path": x.path, "body": dict(x.body)} for x in requests]
        return {"requests": sent}, [each.typed for each in requests]


def _yaml(made: dict[str, Any]) -> list[str]:
    """Return the manifest as `kubectl apply -f -` reads it."""
    import yaml

    text: str = yaml.safe_dump(made, sort_keys=False, allow_unicode=True)
    return text.splitlines()
