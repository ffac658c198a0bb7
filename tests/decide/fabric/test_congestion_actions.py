from __future__ import annotations

import numpy as np

from fabric_scenes import GB, cluster, heavy, job_on, light, load_of, shared_link
from steward.decide.fabric.congestion_actions import Congestions, slow_links
from steward.decide.fabric.least_contention import NetworkLoad
from steward.decide.fabric.moves import MovableJob
from steward.model.fabric.placed_job import TrafficProfile

FACTS = MovableJob(slowdown=1.8, left_s=1e5, move_s=120.0)
CROSSING = ((0, 4, 8, 12), (1, 5, 9, 13))


def pair(one: TrafficProfile, other: TrafficProfile, leaves: int = 5) -> NetworkLoad:
    place = cluster(leaves, 4, over=4.0, spines=1)
    return load_of(place, job_on("a", CROSSING[0], one), job_on("b", CROSSING[1], other))


def test_moving_the_job_or_the_neighbour_away_is_priced() -> None:
    found = Congestions().options(pair(heavy(), heavy()), "a", {"a": FACTS, "b": FACTS})

    kinds = {each.kind for each in found}
    assert {"move", "separate"} <= kinds
    assert all(each.net_gpu_s > 0.0 and each.helps == "a" and each.because for each in found)
    assert [each.net_gpu_s for each in found] == sorted(
        (each.net_gpu_s for each in found), reverse=True
    )


def test_two_jobs_with_the_same_period_and_room_for_both_can_send_in_turn() -> None:
    part = TrafficProfile(compute_s=1.0, node_bytes=6 * GB)

    found = Congestions().options(pair(part, part), "a", {})

    assert "shift" in {each.kind for each in found}


def test_periods_that_do_not_fit_are_not_shifted() -> None:
    found = Congestions().options(
        pair(
            TrafficProfile(compute_s=1.0, node_bytes=6 * GB),
            TrafficProfile(compute_s=1.37, node_bytes=6 * GB),
        ),
        "a",
        {},
    )

    assert "shift" not in {each.kind for each in found}


def test_who_computes_nearly_all_the_time_is_worth_throttling_for_only_if_it_gains() -> None:
    hidden = TrafficProfile(compute_s=1.0, node_bytes=10 * GB, overlap_share=1.0)

    found = Congestions().options(pair(heavy(), hidden), "a", {})

    assert any(each.kind == "throttle" and each.job == "b" for each in found)
    assert all(each.gain_gpu_s > 0.0 for each in found)


def test_nothing_is_done_for_a_job_that_is_not_on_the_network() -> None:
    assert Congestions().options(pair(heavy(), heavy()), "other", {}) == ()


def test_a_job_waits_where_it_would_cost_the_others_more_than_it_computes() -> None:
    place = cluster(2, 8, over=4.0, spines=1)
    talker = TrafficProfile(compute_s=0.01, node_bytes=100 * GB)
    jobs = [job_on(f"j{i}", (i, 8 + i)) for i in range(6)]
    load = load_of(place, *jobs)
    new = job_on("new", (6, 14), talker)

    found = Congestions().wait_or_start(load, new, 600.0)

    assert found is not None
    assert found.kind == "wait"
    assert found.gain_gpu_s > 0.0
    assert Congestions().wait_or_start(load, job_on("new", (6, 14), light()), 600.0) is None


def test_a_link_that_three_jobs_find_slower_than_sharing_explains_is_named() -> None:
    scene = shared_link(0.2, 0.2, 0.2, 0.2)
    names = ["a", "b", "c", "d"]

    found = slow_links(scene, {0: 2.6, 1: 2.5, 2: 2.4}, names)

    assert [(each.link, each.jobs) for each in found] == [(0, ("a", "b", "c"))]
    assert found[0].ratio > 1.5
    assert slow_links(scene, {0: 2.6, 1: 2.5}, names) == ()
    assert slow_links(scene, {0: 2.6, 1: 1.1, 2: 2.5}, names) == ()


def test_jobs_that_share_nothing_have_no_neighbours_to_throttle() -> None:
    place = cluster()
    load = load_of(place, job_on("a", (0, 1)), job_on("b", (4, 5)))

    assert Congestions().options(load, "a", {}) == ()


def test_options_are_the_same_for_the_same_load() -> None:
    load = pair(heavy(), heavy())

    first = Congestions().options(load, "a", {"a": FACTS})

    assert first == Congestions().options(load, "a", {"a": FACTS})
    assert np.isfinite([each.gain_gpu_s for each in first]).all()


def test_a_job_about_to_end_is_not_moved() -> None:
    ending = MovableJob(slowdown=1.8, left_s=1.0, move_s=120.0)

    found = Congestions().options(pair(heavy(), heavy()), "a", {"a": ending, "b": ending})

    assert not {"move", "separate"} & {each.kind for each in found}
