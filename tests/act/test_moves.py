"""Starting and stopping jobs: what must hold for it, and how the desk keeps track of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from steward.act.preconditions import broken_precondition

from act.hands import Hand, desk, said
from factories import SAVES, call_back, decision, job, loan, moment, node, preempt, start, view
from steward.act.actuators.dry_run import DryRun
from steward.act.guard import Guard, Limits
from steward.cli.views.stories import what
from steward.errors import PermanentError, TemporaryError
from steward.model.actions import Preempt, Start
from steward.model.cluster import Health
from steward.model.decision import Autonomy, Decision, Receipt, Ruling, Verdict
from steward.model.event import Observation
from steward.model.identity import GpuId, JobId
from steward.model.job import Checkpointing, JobShape
from steward.model.outcome import Story
from steward.model.view import ClusterView
from steward.service.pages.wording import action_text
from steward.sim.scenario import demo
from steward.sim.world import World

GPU, OTHER = "n1/gpu0", "n1/gpu1"
AFTER = Start(job=JobId("j2"), gpus=(GpuId(GPU),), after=(JobId("j1"),))


def sick(health: Health) -> ClusterView:
    made = moment(node(), jobs=[job("j2")])
    made.fold(Observation(health={GpuId(GPU): health}))
    return made.view(1000.0)


@pytest.mark.parametrize(
    ("seen", "broken"),
    [
        (view(jobs=[job("j1")]), "j2 does not wait any more"),
        (view(jobs=[job("j2", on=[OTHER])]), "j2 does not wait any more"),
        (view(node("n2"), jobs=[job("j2")]), "not in the cluster"),
        (view(jobs=[job("j2", shape=JobShape(gpus=2))]), "j2 asks for 2 GPUs now"),
        (sick(Health.BAD), "not healthy"),
        (sick(Health.UNKNOWN), "not healthy"),
        (sick(Health.WORN), ""),
        (view(jobs=[job("j1", on=[GPU]), job("j2")]), "a job that does not make room"),
        (view(jobs=[job("j2")]), ""),
    ],
)
def test_a_start_needs_a_waiting_job_and_free_gpus(seen: ClusterView, broken: str) -> None:
    found = broken_precondition(start().action, seen)

    assert broken in found
    assert bool(found) == bool(broken)


def test_a_start_may_count_on_those_that_make_room() -> None:
    held = view(jobs=[job("j1", on=[GPU]), job("j2")])
    lent = view(
        jobs=[job("j1", on=[GPU]), job("j3", on=[GPU]), job("j2")], loans=[loan(borrower="j3")]
    )

    assert broken_precondition(AFTER, held) == ""
    assert "does not make room" in broken_precondition(AFTER, lent)


@pytest.mark.parametrize(
    ("seen", "broken"),
    [
        (view(jobs=[job("j2")]), "j1 does not run any more"),
        (view(jobs=[job("j1")]), "j1 does not run any more"),
        (view(jobs=[job("j1", on=[GPU], checkpointing=Checkpointing())]), "cannot save its work"),
        (view(jobs=[job("j1", on=[OTHER])]), "holds other GPUs now"),
        (
            view(jobs=[job("j1", on=[GPU]), job("j2", on=[GPU])], loans=[loan()]),
            "lends or borrows GPUs now",
        ),
        (view(jobs=[job("j1", on=[GPU], checkpointing=SAVES)]), ""),
    ],
)
def test_only_who_runs_and_can_save_itself_is_preempted(seen: ClusterView, broken: str) -> None:
    found = broken_precondition(preempt().action, seen)

    assert broken in found
    assert bool(found) == bool(broken)


def test_stops_and_starts_are_carried_out_in_their_order_and_can_be_undone() -> None:
    hand = Hand()
    table = desk(hand)
    seen = view(jobs=[job("j1", on=[GPU]), job("j2")])
    after = replace(start(), action=AFTER)

    table.receive([preempt(), after], (), seen)
    done = list(table.carry_out(1000.0))

    assert hand.done == ["d-stop", "d-start"]
    assert len(done) == 2
    runs = view(jobs=[job("j1"), job("j2", on=[GPU])], t_s=1010.0)
    new = table.receive([], [said("undo", "d-start")], runs)
    back = [each for each in new if isinstance(each, Decision)]
    assert [each.action for each in back] == [Preempt(job=JobId("j2"), gpus=(GpuId(GPU),))]
    assert [each.ruling for each in new if isinstance(each, Verdict)] == [Ruling.GO]


def test_jobs_and_gpus_of_open_moves_are_spoken_for() -> None:
    table = desk(autonomy=Autonomy.APPROVE)
    seen = view(jobs=[job("j1", on=[GPU]), job("j2")])

    table.receive([preempt(), replace(start(), action=AFTER)], (), seen)

    assert table.reserved(seen) == ({GPU}, {"j1", "j2"})


def test_a_job_that_a_person_kept_from_starting_is_left_alone_for_a_while() -> None:
    table = desk(autonomy=Autonomy.APPROVE)
    seen = view(jobs=[job("j2")])
    table.receive([start()], (), seen)

    table.receive([], [said("reject", "d-start")], seen)

    assert table.reserved(seen) == (set(), {"j2"})
    assert table.reserved(view(jobs=[job("j1")])) == (set(), set())
    verdict = table.guard.judge(start("d-again"), seen)
    assert verdict.ruling is Ruling.HOLD
    assert "j2 is left alone for 600 s more, a person said no" in verdict.why


@pytest.mark.parametrize(
    ("made", "under_way"),
    [
        (start(), view(jobs=[job("j2", on=[GPU])])),
        (preempt(), view(jobs=[job("j1")])),
    ],
    ids=["start", "preempt"],
)
def test_what_a_crash_left_half_done_is_asked_for_again_and_not_judged_again(
    made: Decision, under_way: ClusterView
) -> None:
    hand = Hand()
    table = desk(hand)
    go = Verdict(decision=made.id, t_s=1000.0, ruling=Ruling.GO, why="")

    table.resume([Story(decision=made, verdicts=(go,))])

    assert table.receive([], (), under_way) == []
    assert len(list(table.carry_out(1000.0))) == 1
    assert hand.done == [made.id]


def test_a_start_whose_gpus_are_not_free_yet_is_tried_again() -> None:
    def not_yet(made: Decision, t_s: float) -> Receipt:
        raise TemporaryError("j1 is still saving itself")

    table = desk(Hand(not_yet))
    table.receive([start()], (), view(jobs=[job("j2")]))

    assert isinstance(next(iter(table.carry_out(1000.0))), TemporaryError)
    assert isinstance(next(iter(table.carry_out(1010.0))), TemporaryError)
    (given_up,) = table.carry_out(1020.0)
    assert isinstance(given_up, Receipt)


def test_moves_are_not_returns_and_need_autonomy() -> None:
    seen = view(jobs=[job("j2")])

    assert not start().returns
    assert not preempt().returns
    assert Guard(Limits()).judge(start(), seen).ruling is Ruling.ADVISE
    assert Guard(Limits(autonomy=Autonomy.AUTO)).judge(start(), seen).ruling is Ruling.GO
    assert call_back(decision()).action.disturbs == "j1"
    assert call_back(decision()).action.moves == "j2"


def test_moves_are_put_into_words() -> None:
    assert what(start().action) == "start j2 on n1/gpu0"
    assert what(AFTER) == "start j2 on n1/gpu0 after j1"
    assert what(preempt().action) == "save j1, free n1/gpu0 and put it back into the queue"
    assert action_text(start().action) == "Start job j2 on 1 GPU"
    assert action_text(preempt().action).startswith("Save job j1, free its 1 GPU")
    assert "would start n1/gpu0 (job j2)" in DryRun().carry_out(start(), 1000.0).text


def test_a_cluster_with_a_scheduler_of_its_own_refuses_in_words() -> None:
    with pytest.raises(PermanentError, match="job j2 is not ours to start"):
        World(demo(), seed=1, start_s=1_000_000.0).carry_out(start(), 1_000_000.0)
