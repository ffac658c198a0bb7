"""What each rank-based policy is, as data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from steward.decide.scheduling.kernels.ordered import TieOrder, Walk
from steward.decide.scheduling.ordered import ORDERED
from steward.decide.scheduling.ordered.conservative_backfill import ConservativeBackfill
from steward.decide.scheduling.ordered.las import Las
from steward.decide.scheduling.ordered.qssf import Qssf
from steward.decide.scheduling.ordered.tiresias import Tiresias
from steward.decide.scheduling.ranking import Law, Ranking, Sharing
from steward.decide.scheduling.tenant_sharing import SHARED
from steward.decide.scheduling.tenant_sharing.commons import Commons
from steward.decide.scheduling.tenant_sharing.multifactor import Multifactor

POLICIES = {**ORDERED, **SHARED}
LEARNS = Ranking(law=Law.EXPERIENCE, preempts=True, ties=TieOrder.RUNNING, by_gpus=True)
LEVELS = Ranking(law=Law.LEVEL, preempts=True, ties=TieOrder.RUNNING, thresholds=(3250.0, 7200.0))
ARRIVAL = Ranking(law=Law.ARRIVAL)
KNOWS = Ranking(law=Law.REMAINING, preempts=True, knows_durations=True)

EXPECTED = {
    "fifo": replace(ARRIVAL, walk=Walk.STRICT),
    "fit-first": replace(ARRIVAL, walk=Walk.FIT),
    "easy-backfill": replace(ARRIVAL, walk=Walk.EASY),
    "conservative-backfill": replace(ARRIVAL, walk=Walk.CONSERVATIVE, depth=100, interval_s=30.0),
    "sjf": Ranking(law=Law.DURATION, walk=Walk.STRICT, knows_durations=True),
    "srtf": KNOWS,
    "srsf": replace(KNOWS, by_gpus=True),
    "las": LEVELS,
    "tiresias": replace(LEVELS, by_gpus=True),
    "gittins": replace(LEARNS, similar=False),
    "qssf": Ranking(law=Law.PREDICTED, walk=Walk.STRICT, by_gpus=True, strength=10.0, rolling=0.1),
    "static-quota": replace(ARRIVAL, sharing=Sharing.STATIC),
    "multifactor": replace(ARRIVAL, sharing=Sharing.FAIR_TREE, half_life_s=604_800.0),
    "kueue": replace(ARRIVAL, sharing=Sharing.BORROW),
    "drf": replace(ARRIVAL, sharing=Sharing.DOMINANT),
    "commons": replace(
        LEARNS,
        sharing=Sharing.COMMONS,
        lead=2.0,
        patience=0.05,
        class_weight=2.0,
        deadlines=True,
        moves=True,
    ),
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_is_what_its_description_says(name: str) -> None:
    policy: Any = POLICIES[name]()

    assert policy.name == name
    assert policy.ranking == EXPECTED[name]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (ConservativeBackfill(depth=7, interval_s=1.0), {"depth": 7, "interval_s": 1.0}),
        (Las(thresholds_s=(5.0,)), {"thresholds": (5.0,)}),
        (Tiresias(thresholds_gpu_s=(6.0,), promote=2.0), {"thresholds": (6.0,), "promote": 2.0}),
        (Qssf(strength=3.0), {"strength": 3.0}),
        (Multifactor(half_life_s=60.0), {"half_life_s": 60.0}),
        (
            Commons(lead=3.0, patience=0.1, strength=4.0, memory=50.0),
            {"lead": 3.0, "patience": 0.1, "strength": 4.0, "memory": 50.0},
        ),
    ],
)
def test_what_can_be_chosen_reaches_the_ranking(policy: Any, expected: dict[str, Any]) -> None:
    assert policy.ranking == replace(type(policy)().ranking, **expected)


def test_only_those_know_durations_that_say_so() -> None:
    made: dict[str, Any] = {name: make() for name, make in POLICIES.items()}

    assert {name for name, each in made.items() if each.ranking.knows_durations} == {
        "sjf",
        "srtf",
        "srsf",
    }
