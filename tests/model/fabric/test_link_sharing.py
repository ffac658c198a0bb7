from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric_scenes import shared_link
from steward.model.fabric.contention import Contention, JobColumns, of_entries, reduced
from steward.model.fabric.link_sharing import always_on, share_links, share_links_without
from steward.model.fabric.link_signs import as_counted, no_signs


def drawn(seed: int, jobs: int = 6, links: int = 5) -> Contention:
    dice = np.random.default_rng(seed)
    entries = []
    for _ in range(jobs):
        chosen = np.sort(dice.permutation(links)[: dice.integers(1, links + 1)])
        entries.append((chosen.astype(np.int64), dice.integers(1, 4, len(chosen)).astype(float)))
    columns = JobColumns(
        compute_s=dice.uniform(0.1, 1.0, jobs),
        overlap_share=dice.uniform(0.0, 0.9, jobs),
        volume_bytes=dice.uniform(0.0, 5e9, jobs),
        rate_limit=np.full(jobs, 300e9),
    )
    return of_entries(columns, dice.uniform(5e9, 50e9, links), entries)


def test_a_job_alone_is_not_slowed_down() -> None:
    assert share_links(shared_link(0.5)).slowdown.tolist() == [1.0]


def test_two_jobs_that_send_all_the_time_take_twice_as_long() -> None:
    found = share_links(shared_link(1.0 - 1e-9, 1.0 - 1e-9))

    assert found.slowdown == pytest.approx([2.0, 2.0], rel=1e-3)
    assert found.bottleneck.tolist() == [0, 0]


def test_duty_counts_so_those_that_seldom_send_hardly_disturb() -> None:
    seldom = share_links(shared_link(0.5, 0.05)).slowdown[0]
    often = share_links(shared_link(0.5, 0.8)).slowdown[0]

    assert 1.0 < seldom < 1.05 < often
    assert always_on(shared_link(0.5, 0.05))[0] == pytest.approx(1.5)


def test_computing_that_goes_on_meanwhile_hides_what_sharing_costs() -> None:
    hidden = share_links(shared_link(0.3, 0.3, overlap=1.0)).slowdown

    assert hidden.tolist() == [1.0, 1.0]


def test_known_incast_makes_meetings_dearer() -> None:
    scene = shared_link(0.5, 0.5)

    assert (
        share_links(scene._replace(incast_share=0.3)).slowdown > share_links(scene).slowdown
    ).all()


def test_without_a_neighbour_a_job_is_as_fast_as_alone() -> None:
    scene = shared_link(0.5, 0.5)

    assert share_links_without(scene, 1).slowdown[0] == pytest.approx(1.0)


def test_counted_capacity_replaces_the_configured_one_only_where_it_is_known() -> None:
    scene = drawn(1)
    signs = no_signs(5)._replace(counted_share=np.array([0.5, np.nan, np.nan, np.nan, np.nan]))

    share = as_counted(scene, signs).capacity / scene.capacity

    assert share.tolist() == [0.5, 1.0, 1.0, 1.0, 1.0]


def test_no_jobs_are_no_fault() -> None:
    empty = of_entries(JobColumns(*[np.zeros(0)] * 4), np.ones(2), [])

    assert share_links(reduced(empty, 1.0)[0]).slowdown.tolist() == []
    assert empty.capacity.tolist() == [1.0, 1.0]


def test_a_job_that_sends_nothing_is_never_slowed_down() -> None:
    scene = shared_link(0.5, 0.5)._replace(volume_bytes=np.array([0.0, 1e9]))

    assert share_links(scene).slowdown.tolist() == [1.0, 1.0]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_leaving_out_links_that_cannot_fill_changes_nothing(seed: int) -> None:
    scene = drawn(seed)

    small, kept = reduced(scene, 1.0)

    assert share_links(small).slowdown == pytest.approx(share_links(scene).slowdown, rel=1e-4)
    assert always_on(small) == pytest.approx(always_on(scene), rel=1e-9)
    assert len(kept) == len(small.capacity) <= len(scene.capacity)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_slowdowns_are_finite_and_at_least_one_and_less_duty_never_hurts(seed: int) -> None:
    scene = drawn(seed)

    found = share_links(scene)

    assert np.isfinite(found.slowdown).all()
    assert (found.slowdown >= 1.0).all()
    assert ((found.duty >= 0.0) & (found.duty <= 1.0)).all()
    assert (always_on(scene) >= 1.0).all()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_max_min_fills_no_link_beyond_its_capacity_and_leaves_no_job_without_reason(
    seed: int,
) -> None:
    from steward.model.fabric.link_sharing import fill

    scene = drawn(seed)
    rate = np.zeros(len(scene.compute_s))

    fill(scene, np.ones(len(rate), np.bool_), scene.capacity, rate)

    job = np.repeat(np.arange(len(rate)), np.diff(scene.job_first))
    used = np.bincount(scene.link, rate[job] * scene.flows, minlength=len(scene.capacity))
    assert (used <= scene.capacity * (1 + 1e-9)).all()
    full = used >= scene.capacity * (1 - 1e-6)
    for row in range(len(rate)):
        own = scene.link[scene.job_first[row] : scene.job_first[row + 1]]
        assert full[own].any() or rate[row] == pytest.approx(scene.rate_limit[row])
