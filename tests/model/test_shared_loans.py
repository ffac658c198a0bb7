"""Loans in which the owner works on, in the moment and in the action."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from factories import decision, job, moment, node, receipt, view
from steward.model.actions import Lend
from steward.model.identity import GpuId, JobId
from steward.model.view import ClusterView

GPU = GpuId("n1/gpu0")
SHARED = Lend(gpus=(GPU,), owner=JobId("j1"), borrower=JobId("j2"), way="shared")


def seen(busy: float) -> ClusterView:
    return view(jobs=[job("j1", on=(GPU,)), job("j2")], busy={GPU: busy})


def test_gpus_of_an_owner_that_works_can_be_shared_and_not_lent_beside_it() -> None:
    assert SHARED.unmet(seen(0.3)) == ""
    assert "uses them again" in replace(SHARED, way="beside").unmet(seen(0.3))


def test_nothing_is_shared_where_nobody_sees_the_use_or_memory_is_short() -> None:
    full = seen(0.3)
    unseen = replace(full.gpus, owner_busy_share=np.full(2, np.nan))
    assert SHARED.unmet(replace(full, gpus=unseen)) == "nobody can see how much j1 uses them"
    used = replace(full.gpus, memory_used_bytes=full.gpus.memory_bytes)
    assert "does not fit beside j1" in SHARED.unmet(replace(full, gpus=used))


@pytest.mark.parametrize("way", ["shared", "beside"])
def test_a_moment_knows_which_loans_are_shared(way: str) -> None:
    made = moment(node(), jobs=[job("j1", on=(GPU,)), job("j2")])
    lent = decision(action=replace(SHARED, way=way))

    made.apply(lent, replace(receipt(lent), gpus=(GPU,)))

    assert [each.shared for each in made.view(1000.0).loans] == [way == "shared"]
