"""Limit the power that GPUs draw."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from steward.model.actions.checks import Budget, gpu_claims, plural
from steward.model.finding import Finding
from steward.model.identity import DecisionId, GpuId, JobId
from steward.model.view import ClusterView
from steward.model.yardstick import ENERGY

__all__ = ["CapPower"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CapPower:
    """Limit the power of the GPUs of one job."""

    job: JobId
    gpus: tuple[GpuId, ...]
    before_watts: float
    watts: float
    type: Literal["cap-power"] = "cap-power"

    budget: ClassVar = Budget.DISTURB
    yardstick: ClassVar = ENERGY
    returns: ClassVar = False
    lasts: ClassVar = False

    @property
    def acts_on(self) -> None:
        """No job starts or stops by it."""
        return

    @property
    def affects(self) -> JobId:
        """The job that may run slower."""
        return self.job

    @property
    def claims(self) -> frozenset[str]:
        """What no other open decision may be about."""
        return gpu_claims(self.gpus)

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        gpus = plural(len(self.gpus), "GPU")
        return (
            f"Limit {gpus} of job {self.job} to {self.watts:.0f} W ({self.before_watts:.0f} before)"
        )

    def undo(self, _: DecisionId) -> CapPower:
        """Return the way back."""
        return replace(self, before_watts=self.watts, watts=self.before_watts)

    def unmet(self, view: ClusterView) -> str:
        """Return why it cannot be done now, or an empty text."""
        job = view.details.get(self.job)
        if job is None or not {*self.gpus} <= {*job.gpus}:
            return f"{self.job} does not hold these GPUs any more"
        models = {gpu.id: gpu.model for gpu in view.cluster.gpus if gpu.id in self.gpus}
        fits = len(models) == len(self.gpus) and all(
            max(each.least_watts, 1.0) <= self.watts <= each.max_watts for each in models.values()
        )
        return "" if fits else f"{self.watts:.0f} W is not a limit that all of these GPUs take"

    def may_be_done(self, _: ClusterView) -> bool:
        """Return whether the view looks as if it had been carried out already."""
        return False

    @classmethod
    def for_finding(cls, _: Finding, __: ClusterView) -> None:
        """Return None: a finding does not say how much power a job needs."""
        return
