"""The plugs and parts that a loop runs with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from steward.act.desk import Desk
from steward.observe.watch import Watch
from steward.ports import Detector, DomainState, Estimator, Miner, Policy, Recogniser, V, Verifier

__all__ = ["Stages"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages(Generic[V]):
    """The plugs and parts that a site runs with."""

    watch: Watch
    moment: DomainState[V]
    miners: Sequence[Miner[V]]
    estimators: Sequence[Estimator[V]]
    detectors: Sequence[Detector[V]]
    policies: Sequence[Policy[V]]
    desk: Desk
    verifier: Verifier[V]
    recognisers: Sequence[Recogniser[V]] = ()
    domain: str = "cluster"  # whose decisions these are: loops of several domains share a journal
