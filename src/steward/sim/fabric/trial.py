"""A simulated fabric under a policy: turn by turn, with what was decided and what it brought."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from steward.decide.fabric import FABRIC_POLICIES
from steward.decide.fabric.netscope import Netscope
from steward.learn.estimators.delay_sensitivity import DelaySensitivity
from steward.model.decision import Decision
from steward.model.fabric.view import FabricView
from steward.model.identity import JobId
from steward.ports import Policy
from steward.registry import resolve
from steward.sim.fabric.world import FabricWorld

__all__ = ["Done", "Trial"]

Floats = NDArray[np.float64]
SETTLE_S = 5.0  # how long after a cap what it brought is measured


@dataclass(slots=True)
class Done:
    """A decision that was carried out, with the useful share of GPUs before and after."""

    decision: Decision
    useful_before: float
    useful_after: float | None = None


@dataclass(slots=True)
class Trial:
    """One world, one policy; `turn` lets time pass and decides."""

    world: FabricWorld
    policy: Policy[FabricView]
    estimator: DelaySensitivity = field(default_factory=DelaySensitivity)
    done: list[Done] = field(default_factory=list)
    useful: list[tuple[float, float]] = field(default_factory=list)  # time, share

    @classmethod
    def of(cls, world: FabricWorld, policy: str) -> Trial:
        """Return a trial of a policy by name."""
        if policy == "netscope":
            return cls(world, Netscope(hold_s=1.0, calm_s=5.0))
        return cls(world, resolve("fabric_policy", policy, FABRIC_POLICIES)())

    def turn(self, seconds: float) -> FabricView:
        """Let time pass, look, learn, decide, act; return what was seen."""
        self.world.advance(seconds)
        view = self.world.view()
        self.estimator.learn(view, ())
        view = view.with_forecasts(self.estimator.predict(view))
        self._judge(view)
        for decision in self.policy.decide(view):
            self.world.carry_out(decision, view.t_s)
            self.done.append(Done(decision, self.useful[-1][1]))
        return view

    def affected(self, job: str) -> list[Done]:
        """Return what was done to a job."""
        return [each for each in self.done if each.decision.action.affects == JobId(job)]

    def _judge(self, view: FabricView) -> None:
        """Note which share of GPUs does useful work, and what decisions brought that are due."""
        gpus = view.applications.gpus
        slow = view.applications.slowdown
        known = np.isfinite(slow)
        share = float((gpus[known] / slow[known]).sum() / max(gpus[known].sum(), 1.0))
        self.useful.append((view.t_s, min(share, 1.0)))
        for each in self.done:
            if each.useful_after is None and view.t_s - each.decision.t_s >= SETTLE_S:
                recent = [was for t_s, was in self.useful if t_s > each.decision.t_s]
                each.useful_after = float(np.mean(recent))
