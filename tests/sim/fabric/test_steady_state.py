from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric_scenes import shared_link
from steward.model.fabric.contention import JobColumns, of_entries
from steward.model.fabric.link_sharing import share_links
from steward.model.fabric.link_signs import as_counted
from steward.sim.fabric.scenes import WORLDS, SceneSize, make_scene
from steward.sim.fabric.steady_state import Losses, measured_slowdown


def test_a_job_alone_measures_what_it_takes() -> None:
    assert measured_slowdown(shared_link(0.5), seed=1) == pytest.approx([1.0], abs=0.03)


def test_two_jobs_that_only_send_share_the_link() -> None:
    found = measured_slowdown(shared_link(0.999, 0.999), seed=1)

    assert found == pytest.approx([2.0, 2.0], rel=0.03)


def test_no_jobs_measure_nothing() -> None:
    empty = of_entries(JobColumns(*[np.zeros(0)] * 4), np.ones(1), [])

    assert measured_slowdown(empty, seed=1).tolist() == [1.0] or not len(empty.compute_s)


def test_losses_make_it_worse_and_none_is_the_plain_world() -> None:
    scene = shared_link(0.6, 0.6, 0.6)
    plain = measured_slowdown(scene, seed=1)

    assert (measured_slowdown(scene, seed=1, losses=Losses(0.3, 0.0)) > plain).all()
    assert measured_slowdown(scene, seed=1, losses=Losses(0.0, 0.0)).tolist() == plain.tolist()


def test_pauses_on_a_full_link_cost_all_who_share_anything_with_it() -> None:
    columns = JobColumns(np.full(3, 0.1), np.zeros(3), np.full(3, 10e9), np.full(3, np.inf))
    one, two = (np.array([0]), np.ones(1)), (np.array([0, 1]), np.ones(2))
    victim = (np.array([1]), np.full(1, 0.6))
    scene = of_entries(columns, np.array([10e9, 10e9]), [one, two, victim])

    free = measured_slowdown(scene, seed=1, losses=Losses(0.01, 0.0))
    held = measured_slowdown(scene, seed=1, losses=Losses(0.01, 0.9))

    assert held.sum() > free.sum()


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000))
def test_the_same_seed_measures_the_same_and_nobody_gains_by_sharing(seed: int) -> None:
    scene = make_scene(seed)

    first = measured_slowdown(scene.true, seed=seed, iterations=12)

    assert first.tolist() == measured_slowdown(scene.true, seed=seed, iterations=12).tolist()
    assert (first > 0.93).all()


def test_the_mean_field_is_near_the_measured_slowdown_on_contended_jobs() -> None:
    off: list[float] = []
    for seed in range(40):
        scene = make_scene(500 + seed)
        truth = measured_slowdown(scene.true, seed=seed)
        predicted = share_links(scene.seen).slowdown
        off += np.abs(predicted / truth - 1.0)[truth > 1.05].tolist()

    assert len(off) > 20
    assert np.mean(off) < 0.07


@pytest.mark.parametrize("world", WORLDS)
def test_scenes_are_the_same_for_a_seed_and_show_what_their_world_is(world: str) -> None:
    one, other = make_scene(3, world=world), make_scene(3, world=world)

    assert one.true.link.tolist() == other.true.link.tolist()
    assert one.true.capacity.tolist() == other.true.capacity.tolist()
    slower = one.true.capacity < one.seen.capacity
    assert slower.any() == (world == "gray")
    assert (one.losses.pause_share > 0.0) == (world == "losses")
    counted = as_counted(one.seen, one.signs).capacity
    assert (counted <= one.seen.capacity).all()


def test_larger_scenes_have_more_nodes() -> None:
    small, large = make_scene(1), make_scene(1, size=SceneSize().times(4))

    assert large.nodes.sum() > 2 * small.nodes.sum()
    assert (small.nodes >= 2).all()
