from __future__ import annotations

from dataclasses import replace

import numpy as np

from factories import finding, node, view
from steward.decide.health.undrain_recovered import UndrainRecovered
from steward.model.actions import Undrain
from steward.model.cluster import Health
from steward.model.identity import NodeId
from steward.model.treatment import Treatment
from steward.model.view import HEALTH_CODES, ClusterView


def drained(*, since_s: float = 0.0, draining: bool = True) -> ClusterView:
    seen = view(node("n1"), node("n2"), t_s=1000.0)
    nodes = replace(
        seen.nodes,
        draining=np.array([draining, False]),
        drained_since_s=np.array([since_s, np.nan]),
    )
    return replace(seen, nodes=nodes)


def test_a_healthy_node_without_findings_comes_back() -> None:
    (made,) = UndrainRecovered().decide(drained())

    assert made.action == Undrain(node=NodeId("n1"), gpus=("n1/gpu0", "n1/gpu1"))
    assert "all GPUs of n1 are healthy" in made.because
    assert UndrainRecovered().decide(drained()) == (made,)


def test_a_node_drained_a_moment_ago_or_by_somebody_else_stays_as_it_is() -> None:
    assert UndrainRecovered().decide(drained(since_s=900.0)) == ()
    assert UndrainRecovered().decide(drained(since_s=np.nan)) == ()
    assert UndrainRecovered().decide(drained(draining=False)) == ()


def test_a_sick_gpu_or_a_finding_that_asks_for_the_drain_keeps_a_node_away() -> None:
    seen = drained()
    health = seen.gpus.health.copy()
    health[0] = HEALTH_CODES[Health.BAD]
    sick = replace(seen, gpus=replace(seen.gpus, health=health))
    treatment = Treatment(action="drain", advice="drain it")
    found = replace(finding(), subject="n1/gpu0", treatment=treatment)

    assert UndrainRecovered().decide(sick) == ()
    assert UndrainRecovered().decide(seen.with_findings((found,))) == ()
    other = replace(found, subject="n2/gpu0")
    assert len(UndrainRecovered().decide(seen.with_findings((other,)))) == 1
