"""What the dispatcher of ours does in moments made by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from serving_moments import kind, view
from steward.decide.serving.demand import demand_of
from steward.decide.serving.qlm import Qlm, late_order
from steward.decide.serving.request_groups import fair_tags
from steward.decide.serving.scaling.slack import Slack
from steward.model.serving.forecasts import ServingForecasts
from steward.model.serving.view import OFF, RUNNING, SENT, SERVING, ServingView

LATE_ARRIVAL = np.full(10, 99.0)  # at 100 s


def fresh(seen: ServingView, **columns: object) -> ServingView:
    """Return a moment whose requests have come just now."""
    given = {"arrival_s": LATE_ARRIVAL, "deadline_s": LATE_ARRIVAL + 10, **columns}
    return replace(seen, requests=replace(seen.requests, **given))


def expecting(seen: ServingView, work_s: list[float], backlog_s: list[float]) -> ServingView:
    work = np.tile(np.array(work_s), (len(seen.types), 1))
    expected = ServingForecasts(
        output_tokens=np.full(10, 100.0),
        output_sd=np.zeros(10),
        work_s=work,
        work_sd_s=0 * work,
        first_token_s=np.full_like(work, 0.1),
        run_s=np.full_like(work, 5.0),
        bound_share=0.0,
        bound_sds=0.0,
        backlog_s=np.array(backlog_s),
        backlog_sd_s=np.zeros(len(backlog_s)),
    )
    return replace(seen, forecasts=expected)


def test_what_would_make_many_others_late_waits() -> None:
    seen = expecting(fresh(view(queue=[0, 1, 2, 3], room=[2])), [30.0] + [4.0] * 9, backlog_s=[0.5])

    assert [row for row, _ in Qlm().dispatch(seen).routes] == [1, 2]


def test_what_is_late_already_goes_last_but_goes() -> None:
    seen = view(queue=[0, 1, 2], room=[2])
    arrival_s = np.array([0.0, 99.0, 99.0] + [99.0] * 7)
    late = fresh(seen, arrival_s=arrival_s, deadline_s=arrival_s + 10)

    assert [row for row, _ in Qlm().dispatch(expecting(late, [9.0] * 10, [0.5])).routes] == [1, 2]
    assert [row for row, _ in Qlm().dispatch(replace(late, queue=np.array([0]))).routes] == [0]


def test_running_batch_work_makes_way_only_for_what_would_be_late() -> None:
    seen = view(queue=[0], room=[0], ranks=[0, 1, 1] + [0] * 7)
    state = np.array([1, RUNNING, SENT] + [1] * 7)
    where = np.array([-1, 0, 0] + [-1] * 7)
    full = fresh(seen, state=state, instance=where)

    assert Qlm().dispatch(expecting(full, [1.0] * 10, [30.0])).evict == (2,)
    assert Qlm().dispatch(expecting(full, [1.0] * 10, [3.0])).evict == ()
    assert Qlm(evicts=False).dispatch(expecting(full, [1.0] * 10, [30.0])).evict == ()


def test_an_answer_that_has_begun_still_owes_its_time_between_tokens() -> None:
    begun_s = np.array([np.nan, 95.0] + [np.nan] * 8)
    seen = fresh(view(queue=[1], room=[1]), arrival_s=np.full(10, 90.0), first_token_s=begun_s)
    expected = expecting(seen, [1.0] * 10, [0.0])

    # 100 tokens, 0.2 s between each two: 19.8 s from the first one on, 5 of them over, 5 to run
    assert abs(demand_of(expected, np.array([1])).slack_s[0] - 9.8) < 1e-9
    # 256 tokens without forecasts
    assert demand_of(seen, np.array([1])).slack_s[0] < 95.0 + 0.2 * 255 - 100.0


def test_an_answer_that_somebody_reads_is_not_interrupted_beyond_its_promise() -> None:
    seen = view(queue=[0], room=[0])
    state = np.array([1, RUNNING] + [1] * 8)
    where = np.array([-1, 0] + [-1] * 8)
    begun_s = np.array([np.nan, 99.5] + [np.nan] * 8)
    full = fresh(seen, state=state, instance=where, first_token_s=begun_s)

    assert Qlm().dispatch(expecting(full, [1.0] * 10, [30.0])).evict == ()


def test_a_wide_bound_alone_interrupts_nobody() -> None:
    seen = view(queue=[0], room=[0], ranks=[0, 1] + [0] * 8)
    state = np.array([1, RUNNING] + [1] * 8)
    full = fresh(seen, state=state, instance=np.array([-1, 0] + [-1] * 8))
    expected = expecting(full, [1.0] * 10, [3.0])
    assert expected.forecasts is not None
    doubtful = replace(expected.forecasts, bound_sds=9.0, backlog_sd_s=np.array([30.0]))

    assert Qlm().dispatch(replace(expected, forecasts=doubtful)).evict == ()


def test_a_bound_is_no_wider_than_chance_makes_it() -> None:
    seen = expecting(fresh(view(queue=[0], room=[1])), [1.0] * 10, [0.0])
    assert seen.forecasts is not None
    widened = replace(seen, forecasts=replace(seen.forecasts, bound_sds=40.0))
    narrow = replace(seen, forecasts=replace(seen.forecasts, bound_sds=0.7))

    assert demand_of(widened, seen.queue).sds == 1.3
    assert demand_of(narrow, seen.queue).sds == 0.7


def test_a_model_that_lacks_instances_gets_one_that_another_can_spare() -> None:
    types = (kind("m"), kind("n"))
    seen = view(
        queue=list(range(10)),
        room=[4, 4, 4, 0],
        types=types,
        type=[0, 0, 0, 1],
        model=[0, 0, 0, 1],
        models=[1] * 10,
        running=[1, 1, 1, 200],
    )

    chosen = Qlm().dispatch(expecting(fresh(seen), [20.0] * 10, [0.0, 0.0, 0.0, 9.0]))

    assert chosen.swaps == ((0, 1),)


def test_the_tenant_that_had_least_goes_first_among_equals() -> None:
    seen = fresh(
        view(queue=list(range(6)), room=[3]), tenant=np.array([0, 0, 0, 0, 1, 1] + [-1] * 4)
    )
    shared = replace(seen, tenants=("a", "b"), served_tokens=np.array([[0.0, 0.0], [0.0, 0.0]]))

    tags = fair_tags(shared, demand_of(shared, shared.queue))

    assert tags is not None
    assert tags[0] == tags[4] == 0.0  # each tenant's first
    assert tags[1] == tags[5] < tags[2] < tags[3]
    heavy = replace(shared, served_tokens=np.array([[1e6, 0.0], [0.0, 0.0]]))
    ordered = fair_tags(heavy, demand_of(heavy, heavy.queue))
    assert ordered is not None
    assert set(np.argsort(ordered)[:2].tolist()) == {4, 5}


def test_the_hopeless_are_ordered_by_their_tenants_counters() -> None:
    old = view(queue=[0, 1, 2], room=[1])
    tenants = replace(old.requests, tenant=np.array([0, 0, 1] + [-1] * 7))
    seen = replace(
        old, requests=tenants, tenants=("a", "b"), served_tokens=np.array([[9e5, 0.0]] * 2)
    )

    assert late_order(seen, demand_of(seen, seen.queue)) == [2, 0, 1]


def test_an_instance_is_started_only_if_it_comes_in_time() -> None:
    waiting = view(queue=list(range(10)), room=[0, 0], ranks=[1] * 10, state=[SERVING, OFF])
    soon = fresh(waiting, deadline_s=np.full(10, 130.0), arrival_s=np.full(10, 130.0 - 3600))
    later = fresh(waiting, arrival_s=np.full(10, 400.0 - 3600))

    in_time = Slack().scale(expecting(later, [60.0] * 10, [0.0, np.inf]))
    too_late = Slack().scale(expecting(soon, [60.0] * 10, [0.0, np.inf]))

    assert in_time.start == (0,)
    assert too_late.start == ()


def test_instances_without_work_go_away_down_to_none() -> None:
    idle = view(queue=[], room=[4, 4], ranks=[1] * 10)
    done = replace(idle, requests=replace(idle.requests, finish_s=np.full(10, 30.0)))

    assert sorted(Slack().scale(done).drain) == [0, 1]
    assert len(Slack(fewest=1).scale(done).drain) == 1


def test_starting_instances_has_to_be_worth_the_requests_that_are_in_time_for_it() -> None:
    waiting = view(queue=list(range(10)), room=[0, 0], ranks=[1] * 10, state=[SERVING, OFF])
    late = fresh(waiting, arrival_s=np.full(10, 400.0 - 3600))
    scaler = Slack(worth=0.1)

    few = scaler.scale(expecting(late, [60.0] * 10, [0.0, np.inf]))
    from_none = view(queue=[0], room=[0], ranks=[1] * 10, state=[OFF])

    assert few.start == ()
    assert scaler.scale(expecting(from_none, [60.0] * 10, [np.inf])).start == (0,)


def test_nothing_is_drained_before_anything_can_be_known() -> None:
    unused = view(queue=[], room=[4, 4], ranks=[1] * 10)

    assert Slack().scale(replace(unused, t_s=5.0)).drain == ()
    assert len(Slack().scale(replace(unused, t_s=4000.0)).drain) == 2
