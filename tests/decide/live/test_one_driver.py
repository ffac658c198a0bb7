"""Node sizes, placements, limits and options of live policies: as in the lab, or refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from decide.live.queues import queue, running, starts, waiting
from factories import moment, node, view
from steward.decide.placement import PLACEMENTS
from steward.decide.scheduling.kernels.commons import entitlements
from steward.decide.scheduling.kernels.queue_state import empty_queue_state
from steward.decide.scheduling.ordered.easy_backfill import EasyBackfill
from steward.decide.scheduling.ordered.fit_first import FitFirst
from steward.decide.scheduling.tenant_sharing.commons import Commons
from steward.errors import StewardError


def test_a_gang_is_not_split_because_a_gpu_of_each_node_is_reserved() -> None:
    made = moment(node("n1", 8), node("n2", 8), jobs=[waiting("gang", 8)])
    made.reserve(["gpu:n1/gpu0", "gpu:n2/gpu0"])

    assert starts(FitFirst().decide(made.view(1000.0))) == []


def test_a_gang_wider_than_any_node_is_split() -> None:
    seen = view(node("n1", 4), node("n2", 4), jobs=[waiting("gang", 8)])

    assert starts(FitFirst().decide(seen)) == ["gang"]


@pytest.mark.parametrize("placement", sorted(PLACEMENTS))
def test_every_placement_of_the_lab_places_live(placement: str) -> None:
    seen = view(
        node("n1", 4),
        node("n2", 4),
        jobs=[running("r", 0, 1), waiting("a", 2), waiting("b", 3, since_s=1.0)],
    )

    decisions = FitFirst(placement=placement).decide(seen)

    assert starts(decisions) == ["a", "b"] or placement == "spread"
    assert len({gpu for each in decisions for gpu in each.action.gpus}) in (2, 5)


def test_packed_fills_the_fuller_node_and_spread_the_emptier() -> None:
    seen = view(node("n1", 4), node("n2", 4), jobs=[running("r", 0, 1), waiting("a", 1)])

    nodes = {
        each: FitFirst(placement=each).decide(seen)[0].action.gpus[0].partition("/")[0]
        for each in ("packed", "spread")
    }

    assert nodes == {"packed": "n1", "spread": "n2"}


def test_an_unknown_placement_is_refused_with_those_that_exist() -> None:
    with pytest.raises(StewardError, match="no placement called 'sprad'"):
        FitFirst(placement="sprad")


def test_backfill_goes_by_the_time_limit_that_the_engine_knows() -> None:
    busy = replace(running("busy", 0, 1, 2, 3), time_limit_s=5000.0)
    head = waiting("head", 8, since_s=1.0)
    short = replace(waiting("short", 4, since_s=2.0), time_limit_s=600.0)
    long = replace(short, time_limit_s=50_000.0)

    assert starts(EasyBackfill().decide(queue(8, busy, head, short))) == ["short"]
    assert starts(EasyBackfill().decide(queue(8, busy, head, long))) == []


@pytest.mark.parametrize("option", ["strength", "memory"])
def test_options_that_only_the_lab_learns_by_are_refused_live(option: str) -> None:
    policy = Commons(**{option: 7.0})

    with pytest.raises(StewardError, match=f"{option} of commons counts in the lab only"):
        policy.decide(queue(1, waiting("j")))


def entitled(*, quota: list[int], weight: list[float], active: int) -> list[float]:
    made = empty_queue_state(
        jobs=1, queues=np.zeros(len(quota), int), tenants=len(quota), types=1, most_running=1
    )
    made.capacity[0] = 8000
    made.quota[:], made.weight[:] = quota, weight
    made.held[:active] = 1000
    return entitlements(made).tolist()


def test_a_tenant_is_entitled_to_its_guarantee_and_its_part_of_the_rest_by_weight() -> None:
    assert entitled(quota=[2000, 0], weight=[1.0, 2.0], active=2) == [4000.0, 4000.0]


def test_a_tenant_without_a_guarantee_is_entitled_to_a_gpu_where_all_are_guaranteed() -> None:
    assert entitled(quota=[8000, 0], weight=[1.0, 1.0], active=2) == [8000.0, 1000.0]


def test_guarantees_of_tenants_without_jobs_are_shared_by_those_that_have_some() -> None:
    assert entitled(quota=[0, 8000], weight=[1.0, 1.0], active=1)[0] == 8000.0
