"""What starts, stops, call-backs and drains bring or cost, as the views show it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from factories import call_back, cluster, decision, job, loan, node, preempt, receipt, start, view
from steward.act.verify import ClusterVerifier
from steward.model.actions import Drain, Undrain
from steward.model.event import Observation
from steward.model.identity import JobId, NodeId
from steward.model.job import JobState
from steward.model.moment import Moment
from steward.model.outcome import Outcome, Story
from steward.model.view import ClusterView
from steward.model.yardstick import RETURN_TIME, RUN, SERVICE, STOP_COST

GPU = "n1/gpu0"


def followed(verifier: ClusterVerifier, *views: ClusterView) -> list[Outcome]:
    return [outcome for seen in views for _, outcome in verifier.follow(seen)]


def running(t_s: float) -> ClusterView:
    return view(jobs=[job("j2", on=[GPU])], t_s=t_s)


def test_a_started_job_is_measured_by_how_long_it_held_its_gpus_until_the_check() -> None:
    verifier = ClusterVerifier()
    verifier.begin(start(), receipt(start()), running(1000.0))

    found = followed(verifier, *(running(1000.0 + 10 * i) for i in range(61)))

    (outcome,) = found
    assert (outcome.yardstick, outcome.final, outcome.to_s) == (RUN, True, 1600.0)
    assert outcome.gained.mid == pytest.approx(600.0)
    assert outcome.gained.low < 600.0 < outcome.gained.high
    assert outcome.kept_share == 1.0


def test_a_started_job_that_completes_early_has_kept_its_promise() -> None:
    verifier = ClusterVerifier()
    verifier.begin(start(), receipt(start()), running(1000.0))
    ended = replace(job("j2").changed(1100.0, JobState.COMPLETED, "done"), end_s=1100.0)

    found = followed(verifier, running(1050.0), replace(view(t_s=1110.0), ended=(ended,)))

    (outcome,) = found
    assert outcome.gained.mid == pytest.approx(100.0)
    assert outcome.kept_share == 1.0


def test_a_start_of_an_array_is_measured_by_the_task_that_it_started() -> None:
    done = replace(receipt(start()), job=JobId("j3"))
    waits = job("j2")  # the other tasks
    on_gpu = job("j3", on=[GPU])
    measured, after_restart = ClusterVerifier(), ClusterVerifier()
    measured.begin(start(), receipt(start()), view(jobs=[waits]))
    measured.begin(start(), done, view(jobs=[waits]))
    begun = replace(receipt(start()), result="begun")
    after_restart.resume(Story(decision=start(), receipts=(begun, done)))

    for verifier in (measured, after_restart):
        views = [view(jobs=[waits], t_s=1000.0)]  # before the collector has seen the task
        views += [view(jobs=[waits, on_gpu], t_s=1000.0 + 10 * i) for i in range(61)]
        (outcome,) = followed(verifier, *views)

        assert outcome.gained.mid == pytest.approx(600.0)


def test_a_started_job_that_is_stopped_again_or_never_runs_has_not() -> None:
    stopped, unseen = ClusterVerifier(), ClusterVerifier()
    stopped.begin(start(), receipt(start()), running(1000.0))
    unseen.begin(start(), receipt(start()), running(1000.0))
    waits = view(jobs=[job("j2")], t_s=1030.0)

    (first,) = followed(stopped, running(1020.0), waits)
    (second,) = followed(unseen, waits, view(jobs=[job("j2")], t_s=1700.0))
    third = ClusterVerifier()
    third.begin(start(), receipt(start()), running(1000.0))
    (gone,) = followed(third, view(t_s=1010.0))

    assert first.kept_share == pytest.approx(20.0 / 300.0)
    assert "stopped again" in first.text
    assert second.kept_share == 0.0
    assert "unknown" in gone.text


def test_a_job_that_another_decision_stops_is_not_held_against_its_start() -> None:
    verifier = ClusterVerifier()
    verifier.begin(start(), receipt(start()), running(1000.0))
    stop = preempt("d-stop", job="j2")
    followed(verifier, running(1020.0))
    verifier.begin(stop, receipt(stop, t_s=1020.0, result="begun"), running(1020.0))

    found = followed(verifier, view(jobs=[job("j2")], t_s=1030.0))

    (outcome,) = [each for each in found if each.yardstick == RUN]
    assert outcome.kept_share == 1.0
    assert "another decision" in outcome.text


def test_a_preemption_costs_saving_lost_work_and_restoring() -> None:
    verifier = ClusterVerifier()
    begun = receipt(preempt(), result="begun")
    verifier.begin(preempt(), begun, view(jobs=[job("j1", on=[GPU])]))
    still = view(jobs=[job("j1", on=[GPU])], t_s=1010.0)
    freed = job("j1").changed(1020.0, JobState.QUEUED, "preempted", lost_s=5.0)

    found = followed(verifier, still, view(jobs=[freed], t_s=1030.0))

    (outcome,) = found
    assert outcome.yardstick == STOP_COST
    assert outcome.gained.mid == -(20.0 + 5.0 + 30.0)
    assert outcome.gained.high <= 0.0


def test_a_call_back_is_measured_by_how_long_the_owner_waited() -> None:
    verifier = ClusterVerifier()
    back = call_back(decision())
    verifier.begin(back, receipt(back), view())
    lent = view(jobs=[job("j1", on=[GPU]), job("j2", on=[GPU])], loans=[loan()], t_s=1010.0)
    left = job("j2").changed(1025.0, JobState.QUEUED, "called back")

    found = followed(verifier, lent, view(jobs=[job("j1", on=[GPU]), left], t_s=1030.0))

    (outcome,) = found
    assert (outcome.yardstick, outcome.gained.mid) == (RETURN_TIME, -25.0)


def drained(moment: Moment, t_s: float, *, draining: bool) -> ClusterView:
    moment.fold(Observation(draining={NodeId("n1"): draining}))
    return moment.view(t_s)


def test_a_drain_counts_what_stands_unused_until_the_node_is_back() -> None:
    moment = Moment()
    moment.fold(Observation(cluster=cluster(node("n1", 2)), jobs=(job("j1", on=[GPU]),)))
    verifier = ClusterVerifier()
    made = decision("d-drain", action=Drain(node=NodeId("n1"), gpus=()))
    verifier.begin(made, receipt(made), drained(moment, 1000.0, draining=True))

    checked = followed(
        verifier, *(drained(moment, 1000.0 + 100 * i, draining=True) for i in range(7))
    )
    final = followed(verifier, drained(moment, 1700.0, draining=False))

    assert [(each.final, each.gained.mid) for each in checked] == [(False, -600.0)]
    assert [(each.final, each.gained.mid, each.yardstick) for each in final] == [
        (True, -100.0, SERVICE)
    ]


def test_a_node_that_is_back_counts_what_is_used_on_it() -> None:
    verifier = ClusterVerifier()
    made = decision("d-undrain", action=Undrain(node=NodeId("n1"), gpus=()))
    verifier.begin(made, receipt(made), view())

    found = followed(
        verifier, *(view(jobs=[job("j1", on=[GPU])], t_s=1000.0 + 100 * i) for i in range(8))
    )

    assert [(each.final, each.gained.mid) for each in found] == [(True, 600.0)]


def test_a_node_that_left_the_cluster_counts_nothing() -> None:
    verifier = ClusterVerifier()
    made = decision("d-undrain", action=Undrain(node=NodeId("gone"), gpus=()))
    verifier.begin(made, receipt(made), view())

    (outcome,) = followed(verifier, view(t_s=1600.0))

    assert outcome.gained.mid == 0.0


def test_after_a_restart_starts_and_drains_are_followed_on_and_measured_once() -> None:
    verifier = ClusterVerifier()
    story = Story(decision=start(), receipts=(receipt(start()),))
    drain = decision("d-drain", action=Drain(node=NodeId("n1"), gpus=()))
    verifier.resume(story)
    verifier.resume(Story(decision=drain, receipts=(receipt(drain),)))

    found = followed(verifier, running(1600.0))
    verifier.resume(replace(story, outcomes=tuple(found[:1])))

    assert {each.yardstick for each in found} == {RUN, SERVICE}
    assert followed(verifier, running(1700.0)) == []
    assert verifier.so_far(running(1700.0)) == ()
    assert verifier.settle(running(1700.0)) == []
