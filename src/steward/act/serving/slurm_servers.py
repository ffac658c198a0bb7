"""Instances that are jobs of a Slurm: submitted exactly once, announced by a file.

The job's script gets two variables: `STEWARD_INSTANCE`, its name, and `STEWARD_ENDPOINT_FILE`,
where it writes its address (`http://HOST:PORT`) once it listens. That folder has to be shared with
the nodes. The job is one of its tenant in the queue like any other: its GPUs are an allocation.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from steward.act.serving.fleet import FleetState, Order
from steward.act.serving.instance_records import InstanceRecords
from steward.clients.server_health import answers
from steward.clients.slurm import changes
from steward.clients.slurm.control import SlurmControl
from steward.clients.slurm.submission import Submission, submit_once
from steward.errors import StewardError
from steward.model.event import Availability

__all__ = ["SlurmServers"]


class SlurmServers:
    """Submits a batch script per instance, with options for sbatch such as account and GPUs."""

    name = "slurm"

    def __init__(
        self,
        script: str,
        *,
        slurm: SlurmControl,
        folder: Path,
        options: Sequence[str] = (),
        health: str = "/health",
        health_timeout_s: float = 2.0,
    ) -> None:
        self._script = script
        self._slurm = slurm
        self._records = InstanceRecords(folder)
        self._options = tuple(options)
        self._health = health
        self._health_timeout_s = health_timeout_s

    def available(self) -> Availability:
        """Say whether there are a script and a Slurm."""
        if not self._script or not Path(self._script).is_file():
            hint = "set `instances.NAME.script` to a batch script"
            reason = f"no script {self._script or 'is named'}"
            return Availability(status="missing", reason=reason, hint=hint)
        try:
            version = self._slurm.version()
        except StewardError as fault:
            return Availability(status="missing", reason=str(fault), hint=fault.hint)
        return Availability(status="ok", reason=f"submits {self._script} to slurm {version}")

    def start(self, order: Order, t_s: float) -> FleetState:
        """Submit the job unless it was, and look whether it has announced itself and answers."""
        record = self._records.read(order.instance)
        if record is None or record["decision"] != order.decision:
            record = {"decision": order.decision, "type": order.type, "begun_s": t_s}
            self._records.write(order.instance, record)
        if "job" not in record:
            record["job"] = submit_once(self._slurm, self._submission(order))
            self._records.write(order.instance, record)
        return self._looked_at(order, record)

    def stop(self, order: Order, t_s: float) -> FleetState:  # noqa: ARG002 - a fleet's form
        """Cancel the job, and wait until it holds nothing any more."""
        record = self._records.read(order.instance)
        if record is None or record["type"] != order.type:
            return FleetState(state="gone", text=f"no job of {order.instance} is known")
        if "job" not in record:  # it may have been submitted by a steward that ended there and then
            record["job"] = submit_once(self._slurm, self._submission(order, record["decision"]))
            self._records.write(order.instance, record)
        number = str(record["job"])
        job = self._slurm.jobs([number]).get(number)
        if job is None or job.ended:
            self._records.remove(order.instance)
            self._endpoint(record["decision"]).unlink(missing_ok=True)
            return FleetState(state="gone", text=f"job {number} has ended")
        if not record.get("cancelled"):
            self._slurm.change(changes.cancel(number))
            self._records.write(order.instance, record | {"cancelled": True})
        return FleetState(state="leaving", text=f"job {number} was cancelled")

    def _submission(self, order: Order, decision: str = "") -> Submission:
        token = decision or order.decision
        exported = (
            f"STEWARD_INSTANCE={order.instance},STEWARD_ENDPOINT_FILE={self._endpoint(token)}"
        )
        return Submission(
            token=token,
            script=self._script,
            name=order.instance,
            options=(*self._options, f"--export=ALL,{exported}"),
            comment=f"steward-instance={order.instance}",
        )

    def _looked_at(self, order: Order, record: dict[str, Any]) -> FleetState:
        number = str(record["job"])
        job = self._slurm.jobs([number]).get(number)
        if job is None or job.ended:
            state = "is not known any more" if job is None else f"is {job.state.lower()}"
            return FleetState(state="failed", text=f"job {number} of {order.instance} {state}")
        if job.waits:
            return FleetState(state="coming", text=f"job {number} waits: {job.reason or 'new'}")
        url = self._announced(record["decision"])
        if not url:
            return FleetState(state="coming", text=f"job {number} runs and names no address yet")
        if answers(url + self._health, timeout_s=self._health_timeout_s):
            return FleetState(state="ready", text=f"job {number} answers", url=url)
        return FleetState(state="coming", text=f"job {number} does not answer at {url} yet")

    def _endpoint(self, decision: str) -> Path:
        return self._records.folder / f"{decision}.endpoint"

    def _announced(self, decision: str) -> str:
        try:
            url = self._endpoint(decision).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return ""
        return url.rstrip("/") if url.startswith(("http://", "https://")) else ""
