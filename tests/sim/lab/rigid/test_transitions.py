"""Jobs that move so that a gang gets a node: by hand, and what holds for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.lab.rigid.by_hand import jobs, nodes, replayed, spans
from sim.lab.rigid.laws import (
    as_bytes,
    assert_lawful,
    short_of_guarantee,
)
from sim.lab.rigid.small_cases import rows, trace_from
from steward.model.machines import Machines, machines_of
from steward.model.replay import Replay
from steward.model.trace import Trace, trace_of
from steward.sim.lab.run import replay
from steward.sim.lab.settings import LabSettings

# From 20 s on one small job is on either node of eight GPUs, and then a gang comes.
FIRST, ONE, TWO, GANG = range(4)
ROWS = ((0, 20, 7), (1, 5000, 1), (2, 5000, 2), (201, 50, 8))


def fragmented(*more: tuple[float, float, float], **settings: Any) -> Replay:
    prices = {"checkpoint_s": settings.pop("prices")} if "prices" in settings else {}
    trace = jobs(*ROWS, *more, **prices)
    return replayed(trace, nodes(2, gpus=8), "commons", placement="packed", **settings)


def test_the_job_with_the_fewest_gpus_moves_and_the_gang_gets_in_at_once() -> None:
    made = fragmented(checkpoint_s=5.0)

    assert spans(made, GANG) == [(201, 251, 0)]
    assert spans(made, ONE) == [(1, 201, 0), (201, 5006, 1)]
    assert spans(made, TWO) == [(2, 5002, 1)]
    assert made.preemptions.tolist() == [0, 1, 0, 0]
    assert made.lost_s.tolist() == [0, 5, 0, 0]


def test_where_nobody_may_move_the_gang_waits_for_a_node() -> None:
    made = fragmented(checkpoint_s=5.0, policy_options={"commons.moves": False})

    assert made.start_s[GANG] == 5001
    assert not made.preemptions.any()


def test_who_has_not_run_long_enough_for_what_a_stop_costs_does_not_move() -> None:
    made = fragmented(checkpoint_s=300.0)  # 5 % of 5000 s are less

    assert made.start_s[GANG] == 5001
    assert not made.preemptions.any()


@pytest.mark.parametrize(("price_s", "moves"), [(10.0, [1, 0]), (10.1, [0, 1])])
def test_when_one_is_shielded_another_moves(price_s: float, moves: list[int]) -> None:
    made = fragmented(prices=[0, price_s, 0, 0])  # it has run for 200 s

    assert made.start_s[GANG] == 201
    assert made.preemptions[[ONE, TWO]].tolist() == moves


@pytest.mark.parametrize(("t_s", "moves"), [(800, [1, 0, 1, 0, 0]), (801, [2, 1, 0, 0, 0])])
def test_every_stop_before_counts_when_a_job_is_to_move_again(t_s: float, moves: list[int]) -> None:
    first, one, two = ROWS[:3]
    other, gang = (501, 9000, 4), (t_s, 50, 8)  # gets the node that the first gang has left
    trace = jobs(
        first, one, two, (401, 50, 8), (500, 2, 5), other, gang, checkpoint_s=[0, 20, *[0] * 5]
    )

    made = replayed(trace, nodes(2, gpus=8), "commons", placement="packed")

    # To stop for a second time for 20 s it must have run 800 s; until then the other one moves.
    assert made.start_s[[3, 6]].tolist() == [401, t_s]
    assert made.preemptions[[1, 2, 5, 3, 6]].tolist() == moves


def test_jobs_move_for_two_gangs_at_the_same_instant() -> None:
    trace = jobs(
        (0, 20, 7), (1, 5000, 1), (2, 20, 6), (3, 5000, 2), (4, 5000, 3), (201, 50, 8), (201, 50, 8)
    )

    made = replayed(trace, nodes(3, gpus=8), "commons", placement="packed", checkpoint_s=5.0)

    assert made.start_s[-2:].tolist() == [201, 201]
    assert spans(made, 1) == [(1, 201, 0), (201, 5006, 2)]
    assert spans(made, 3) == [(3, 201, 1), (201, 5008, 2)]
    assert spans(made, 4) == [(4, 5004, 2)]


def test_a_gang_that_spans_nodes_does_not_move_and_moves_nobody() -> None:
    wide = jobs((0, 20, 7), (1, 5000, 1), (2, 5000, 2), (201, 50, 12))

    made = replayed(wide, nodes(2, gpus=8), "commons", placement="packed")

    assert made.start_s[GANG] == 5001  # when one node is wholly free
    assert not made.preemptions.any()


def test_where_gangs_may_be_split_nobody_moves() -> None:
    for placement in ("count", "spread", "topology"):
        made = replayed(jobs(*ROWS), nodes(2, gpus=8), "commons", placement=placement)

        assert made.start_s[GANG] == 201
        assert not made.preemptions.any()


# -- what holds for all of them --------------------------------------------------------------------


@st.composite
def small_clusters(draw: st.DrawFn) -> Machines:
    gpus = draw(st.integers(2, 4))
    return nodes(draw(st.integers(2, 4)), gpus=gpus)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Trace, Machines, LabSettings]:
    """Draw tenants' jobs for a small cluster, most of which want a node or a good part of it."""
    machines = draw(small_clusters())
    widest = int(machines.gpus.max())
    lengths_s = st.sampled_from([1, 5, 40, 300, 3000, 20_000])
    given = draw(
        rows(gaps_s=(0, 1, 20, 200), durations_s=lengths_s, most_gpus=widest).filter(
            lambda drawn: 5 <= len(drawn) <= 25
        )
    )
    wide = draw(st.sampled_from([widest, machines.total_gpus]))
    given[-1] = (*given[-1][:2], wide, given[-1][3])
    trace = trace_from(given, most_gpus=wide)
    quota, left = {}, machines.total_gpus - 1  # for what is added to each below
    for name in trace.tenants:
        quota[name] = draw(st.integers(0, left)) + 0.001
        left -= int(quota[name])
    told = LabSettings(
        placement="packed",
        checkpoint_s=draw(st.sampled_from([0.0, 30.0])),
        quota=draw(st.sampled_from([None, quota])),
    )
    return trace, machines, told


@settings(max_examples=60)
@given(state=worlds())
def test_no_law_is_broken_by_moves(state: tuple[Trace, Machines, LabSettings]) -> None:
    trace, machines, told = state

    made = replay(trace, machines, "commons", told)

    assert_lawful(made)
    assert not np.isnan(made.end_s).any()
    assert (made.lost_s == made.preemptions * told.checkpoint_s).all()
    assert as_bytes(made) == as_bytes(replay(trace, machines, "commons", told))


@settings(max_examples=60)
@given(state=worlds())
def test_nobody_waits_for_a_guaranteed_place_that_is_there(
    state: tuple[Trace, Machines, LabSettings],
) -> None:
    made = replay(*state[:2], "commons", state[2])

    assert short_of_guarantee(made, placed=True) == []


@pytest.mark.parametrize("policy", ["las", "tiresias"])
@pytest.mark.parametrize("begins_s", [1.0, 1.2, 1.4, 1.7, 1.9])
def test_a_job_as_long_as_a_threshold_is_not_stopped_when_it_is_done(
    policy: str, begins_s: float
) -> None:
    trace = trace_of(
        "a job of just 7,200 s",
        submit_s=[0.0, begins_s, begins_s + 100.0],
        duration_s=[0.5, 7200.0, 9000.0],
        gpus=[1, 1, 1],
        tenant=["a", "a", "a"],
    )

    found = replay(trace, machines_of(1), policy, LabSettings())

    assert int(found.preemptions[1]) == 1
    assert float(found.end_s[1] - begins_s) == pytest.approx(10450.0)
