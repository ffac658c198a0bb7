"""Brings drained nodes back into service when what they were drained for is over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from steward.model.actions import Undrain
from steward.model.cluster import Health
from steward.model.decision import Decision
from steward.model.frame import steps_of
from steward.model.identity import DecisionId, NodeId, TenantId, stable_id
from steward.model.view import HEALTH_CODES, ClusterView

__all__ = ["UndrainRecovered"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndrainRecovered:
    """Undrains nodes that steward drained, never those that somebody else did.

    All GPUs of the node must be healthy, no finding may ask for its drain any more, and it must
    have been drained for `after_s`: a node that comes and goes disturbs more than one that stays
    away.
    """

    after_s: float = 600.0
    check_after_s: float = 600.0
    name: str = "undrain-recovered"

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        """Return what brings nodes back, in the cluster's order."""
        return tuple(self._decisions(view))

    def _decisions(self, view: ClusterView) -> Iterator[Decision]:
        troubled = {steps_of(finding.subject)[0] for finding in view.findings if finding.keeps_out}
        since_s = view.nodes.drained_since_s
        for row in np.flatnonzero(view.nodes.draining & (view.t_s - since_s >= self.after_s)):
            node = NodeId(str(view.nodes.ids[row]))
            good = view.gpus.health[view.gpus.node == row] == HEALTH_CODES[Health.GOOD]
            if node not in troubled and bool(good.all()):
                yield self._undrain(view, int(row), node)

    def _undrain(self, view: ClusterView, row: int, node: NodeId) -> Decision:
        since_s = float(view.nodes.drained_since_s[row])
        hours = (view.t_s - since_s) / 3600
        gpus = tuple(view.gpu_id(int(gpu)) for gpu in np.flatnonzero(view.gpus.node == row))
        return Decision(
            id=DecisionId(stable_id("d", self.name, node, since_s)),
            t_s=view.t_s,
            policy=self.name,
            action=Undrain(node=node, gpus=gpus),
            because=(
                f"all GPUs of {node} are healthy, and nothing that it was drained for "
                f"{hours:.1f} hours ago is found any more"
            ),
            check_after_s=self.check_after_s,
            tenant=TenantId(""),
            subject=node,
        )
