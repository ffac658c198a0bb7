from __future__ import annotations

import numpy as np
import pytest

from fabric_scenes import cluster, heavy, job_on, light
from steward.decide.fabric.candidates import Candidate
from steward.decide.fabric.least_contention import LeastContention, NetworkLoad
from steward.decide.fabric.moves import NetworkMoves
from steward.model.fabric.placed_job import TrafficProfile
from steward.sim.fabric.placement_replay import (
    MOVE_S,
    ReplayJob,
    TrueSpeeds,
    replay_placements,
)
from steward.sim.fabric.steady_state import Losses

PLACE = cluster(2, 4, over=4.0)


def best(load: NetworkLoad, job: str, profile: TrafficProfile, gpus: int) -> Candidate | None:
    ranked = LeastContention().rank(load, job, profile, gpus)
    return ranked[0].candidate if ranked else None


def crossing(load: NetworkLoad, job: str, profile: TrafficProfile, gpus: int) -> Candidate | None:
    nodes = [node for node in (0, 4, 1, 5, 2, 6, 3, 7) if load.free[node] == 8][: gpus // 8]
    return Candidate(kind="crossing", nodes=tuple(nodes), gpus=(8,) * len(nodes)) if nodes else None


def come(
    name: str, gpus: int, t_s: float = 0.0, profile: TrafficProfile | None = None
) -> ReplayJob:
    return ReplayJob(job=name, submit_s=t_s, gpus=gpus, work_s=1000.0, profile=profile or heavy())


def test_a_job_alone_in_the_best_place_takes_its_work() -> None:
    found = replay_placements(PLACE, [come("a", 16)], best, speeds=TrueSpeeds(place=PLACE, seed=1))

    assert found.end_s.tolist() == pytest.approx([1000.0])
    assert found.refused == found.moves == 0


def test_jobs_in_leaves_of_their_own_do_not_meet_and_those_that_cross_do() -> None:
    jobs = [come("a", 32), come("b", 32)]

    apart = replay_placements(PLACE, jobs, best, speeds=TrueSpeeds(place=PLACE, seed=1))
    across = replay_placements(PLACE, jobs, crossing, speeds=TrueSpeeds(place=PLACE, seed=1))

    assert apart.end_s == pytest.approx([1000.0, 1000.0])
    assert (across.end_s > 1050.0).all()


def test_who_does_not_fit_waits_and_who_never_fits_is_left_out() -> None:
    jobs = [come("a", 64), come("b", 64, 10.0), come("c", 72, 20.0)]

    found = replay_placements(PLACE, jobs, best, speeds=TrueSpeeds(place=PLACE, seed=1))

    assert found.start_s[1] == pytest.approx(found.end_s[0])
    assert np.isnan(found.start_s[2])


def test_a_later_job_that_fits_goes_before_one_that_does_not() -> None:
    jobs = [come("a", 56), come("b", 16, 1.0), come("c", 8, 2.0, light())]

    found = replay_placements(PLACE, jobs, best, speeds=TrueSpeeds(place=PLACE, seed=1))

    assert found.start_s[2] == pytest.approx(2.0)
    assert found.start_s[1] > 2.0


def test_a_move_pays_its_price_and_helps_when_a_leaf_becomes_free() -> None:
    jobs = [
        ReplayJob(job="short", submit_s=0.0, gpus=32, work_s=1500.0, profile=light()),
        ReplayJob(job="long", submit_s=1.0, gpus=32, work_s=50_000.0, profile=heavy()),
    ]

    def first(load: NetworkLoad, job: str, profile: TrafficProfile, gpus: int) -> Candidate | None:
        return crossing(load, job, profile, gpus)

    stays = replay_placements(PLACE, jobs, first, speeds=TrueSpeeds(place=PLACE, seed=1))
    moves = replay_placements(
        PLACE, jobs, first, speeds=TrueSpeeds(place=PLACE, seed=1), moves=NetworkMoves()
    )

    assert moves.moves == 1
    assert moves.end_s[1] < stays.end_s[1]
    assert moves.end_s[1] > 50_000.0 + MOVE_S


def test_speeds_are_remembered_and_losses_slow_down() -> None:
    jobs = [job_on("a", (0, 4, 1, 5)), job_on("b", (2, 6, 3, 7))]
    speeds = TrueSpeeds(place=PLACE, seed=1)

    first = speeds.slowdowns(jobs)

    assert first == speeds.slowdowns(jobs)
    lossy = TrueSpeeds(place=PLACE, seed=1, losses=Losses(0.3, 0.3)).slowdowns(jobs)
    assert sum(lossy.values()) > sum(first.values())
    assert speeds.slowdowns([]) == {}
