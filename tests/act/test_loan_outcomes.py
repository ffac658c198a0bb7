from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import (
    decision,
    gpu_row,
    job,
    loan,
    moment,
    node,
    outcome,
    receipt,
    samples,
    start,
    view,
)
from steward.act.loan_outcomes import LoanOutcomes
from steward.model.event import Observation
from steward.model.frame import share_entity
from steward.model.identity import GpuId, JobId
from steward.model.job import Job, JobState
from steward.model.moment import Moment
from steward.model.outcome import Outcome, Story
from steward.model.view import ClusterView

GPU = "n1/gpu0"
OWNER, BORROWER = job("j1", on=[GPU]), job("j2", on=[GPU])


class Scene:
    """A one-GPU node on which j1 lends to j2, told second by second."""

    def __init__(self, *, gpus: int = 1) -> None:
        self.gpus = [f"n1/gpu{i}" for i in range(gpus)]
        self.made: Moment = moment(node("n1", gpus), jobs=[job("j1", on=self.gpus), job("j2")])
        self.verifier = LoanOutcomes()
        self.say(1000.0, owner=0.0)
        decided = decision(gpus=tuple(self.gpus))
        self.verifier.begin(decided, receipt(decided), self.made.view(1000.0))
        self.made.apply(decided, receipt(decided))
        self.tell(job("j2", on=self.gpus))

    def tell(self, *jobs: Job) -> None:
        self.made.fold(Observation(jobs=jobs))

    def say(self, t_s: float, *, owner: float = 0.0, borrower: float | None = None) -> None:
        rows = {}
        for gpu in self.gpus:
            rows[gpu] = gpu_row(owner + (borrower or 0.0), watts=90.0)
            if borrower is not None:
                rows[share_entity(GpuId(gpu), JobId("j1"))] = {"share.busy_share": owner}
                rows[share_entity(GpuId(gpu), JobId("j2"))] = {"share.busy_share": borrower}
        self.made.fold(Observation(frame=samples(t_s, rows)))

    def look(self, t_s: float, **shares: float) -> list[Outcome]:
        if shares:
            self.say(t_s, **shares)
        return [outcome for _, outcome in self.verifier.follow(self.made.view(t_s))]


def test_an_outcome_is_written_at_the_check_time_from_what_the_borrower_used() -> None:
    scene = Scene()
    for t_s in range(1010, 1600, 10):
        assert scene.look(float(t_s), borrower=0.8) == []

    (found,) = scene.look(1600.0, borrower=0.8)

    assert found.gained.mid == pytest.approx(480.0)
    assert found.gained.low < 480.0 < found.gained.high
    assert (found.from_s, found.to_s, found.final) == (1000.0, 1600.0, False)
    assert found.lent == 600.0
    assert found.expected == 300.0
    assert found.counted_on == 600.0
    assert found.idle_watts == 90.0


def test_a_sample_speaks_of_its_whole_period_also_where_the_loan_began_in_it() -> None:
    scene = Scene()  # the last sample before the loan was at 1000; it is carried out at 1004
    case = scene.verifier._cases[decision().id]
    case.from_s = 1004.0
    scene.look(1010.0, borrower=0.6)  # a mean over 1000..1010: fully busy since 1004
    scene.say(1020.0, borrower=1.0)
    scene.look(1023.0)  # turned late: the sample is still of 1020

    (found,) = scene.verifier.settle(scene.made.view(1023.0))

    assert found.gained.mid == pytest.approx(16.0)
    assert found.lent == pytest.approx(16.0)
    assert (found.from_s, found.to_s) == (1004.0, 1020.0)


def test_a_loan_that_goes_on_is_checked_again_and_parts_do_not_overlap() -> None:
    scene = Scene()
    found = [each for t in range(1010, 2210, 10) for each in scene.look(float(t), borrower=0.5)]

    assert [(each.from_s, each.to_s) for each in found] == [(1000.0, 1600.0), (1600.0, 2200.0)]
    assert [each.expected for each in found] == [300.0, 0.0]  # it promised for its first check


def test_a_borrower_that_ends_between_two_looks_is_counted_to_its_end() -> None:
    scene = Scene()
    scene.look(1010.0, borrower=1.0)

    ended = replace(BORROWER, end_s=1014.0).changed(1014.0, JobState.COMPLETED, "done")
    scene.tell(ended)
    (found,) = scene.look(1020.0)

    assert found.final
    assert found.gained.mid == pytest.approx(14.0)
    assert found.expected == 300.0  # a loan that ends early still owes what it promised
    assert found.due_s == 1600.0  # and is judged with those that did not
    assert "completed" in found.text


def test_a_call_back_costs_the_restore_and_the_lost_work() -> None:
    scene = Scene()
    scene.look(1100.0, borrower=1.0)

    scene.tell(job("j2").changed(1105.0, JobState.QUEUED, "called back", lost_s=20.0))
    (found,) = scene.look(1110.0)

    assert found.gained.mid == pytest.approx(105.0 - 20.0 - 30.0)
    assert "called back" in found.text


def test_when_the_owner_ends_the_borrower_keeps_the_gpus_and_the_loan_is_over() -> None:
    scene = Scene()
    scene.look(1010.0, borrower=1.0)

    scene.tell(replace(OWNER, end_s=1015.0).changed(1015.0, JobState.COMPLETED, "done"))
    (found,) = scene.look(1020.0)

    assert found.final
    assert found.gained.mid == pytest.approx(15.0)
    assert "owner ended" in found.text


def test_an_owner_that_lets_go_without_ending_ends_the_loan_too() -> None:
    scene = Scene()
    scene.look(1010.0, borrower=1.0)

    scene.tell(job("j1"))
    (found,) = scene.look(1020.0)

    assert "let go" in found.text


def test_while_the_owner_is_awake_the_loan_gains_nothing() -> None:
    scene = Scene()
    scene.look(1010.0, borrower=1.0)
    for t_s in (1020.0, 1030.0):
        scene.look(t_s, borrower=0.5, owner=0.5)

    (found,) = scene.verifier.settle(scene.made.view(1030.0))

    assert found.gained.mid == pytest.approx(10.0)
    assert found.counterfactual == pytest.approx(10.0)


@given(asks=st.floats(0.3, 1.0), awake_part=st.floats(0.15, 1.0), had_room=st.booleans())
def test_what_an_owner_loses_is_known_wherever_between_two_samples_it_woke(
    *, asks: float, awake_part: float, had_room: bool
) -> None:
    scene = Scene()
    speed = 1.0 / (1.0 + asks)  # of both, while both work
    scene.look(1010.0, borrower=asks)
    scene.verifier._cases[decision().id].had_room = had_room
    worked = (1.0 - awake_part + awake_part * speed) * asks
    scene.look(1020.0, borrower=worked, owner=awake_part * speed)

    (found,) = scene.verifier.settle(scene.made.view(1020.0))

    lost = awake_part * (1.0 - speed)
    since = -lost if had_room else worked - lost
    assert found.gained.mid == pytest.approx(10.0 * (asks + since))


def test_an_owner_that_works_beside_one_that_saves_itself_loses_nothing() -> None:
    scene = Scene()
    scene.look(1010.0, borrower=1.0)
    scene.look(1020.0, borrower=0.0, owner=1.0)

    (found,) = scene.verifier.settle(scene.made.view(1020.0))

    assert found.gained.mid == pytest.approx(10.0)


def test_a_borrower_that_was_called_back_saved_itself_at_the_end() -> None:
    scene = Scene()
    scene.look(1100.0, borrower=1.0)

    saves_s = job("j2").checkpointing.save_s
    scene.tell(job("j2").changed(1101.0 + saves_s, JobState.QUEUED, "called back"))
    (found,) = scene.look(1110.0 + saves_s)

    assert saves_s > 0
    assert found.gained.mid == pytest.approx(101.0 - 30.0)
    assert found.lent == pytest.approx(101.0 + saves_s)


def test_when_there_has_been_room_elsewhere_for_a_minute_the_loan_gains_nothing_more() -> None:
    scene = Scene()
    scene.look(1010.0, borrower=1.0)
    scene.made.fold(Observation(cluster=moment(node("n1", 1), node("n2", 1)).view(0.0).cluster))
    scene.made.fold(Observation(frame=samples(1015.0, {"n2/gpu0": gpu_row(0.0)})))

    for t_s in range(1020, 1101, 10):  # free at 1020, so there is room at 1080 and not before
        scene.look(float(t_s), borrower=1.0)
    (found,) = scene.verifier.settle(scene.made.view(1100.0))

    assert found.gained.mid == pytest.approx(80.0)
    assert found.counterfactual == pytest.approx(20.0)
    assert "room elsewhere" in found.text


def with_free_node(scene: Scene, *jobs: Job) -> None:
    """Add a node n2 of one GPU on which these jobs run."""
    scene.made.fold(Observation(cluster=moment(node("n1", 1), node("n2", 1)).view(0.0).cluster))
    scene.made.fold(Observation(frame=samples(1000.0, {"n2/gpu0": gpu_row(0.5)}), jobs=jobs))


def test_room_counts_from_when_the_last_job_left_though_turns_are_slow() -> None:
    scene = Scene()
    other = job("j3", on=["n2/gpu0"])
    with_free_node(scene, other)
    scene.look(1010.0, borrower=1.0)

    scene.tell(replace(other, end_s=1012.0).changed(1012.0, JobState.COMPLETED, "done"))
    for t_s in (1030.0, 1060.0, 1090.0):  # samples come every ten seconds, one in three is seen
        scene.look(t_s, borrower=1.0)
    (found,) = scene.verifier.settle(scene.made.view(1090.0))

    assert found.gained.mid == pytest.approx(80.0)  # to the first sample from 1072 on
    assert found.counterfactual == pytest.approx(10.0)


def test_room_counts_from_when_a_job_was_stopped_there() -> None:
    scene = Scene()
    other = job("j3", on=["n2/gpu0"])
    with_free_node(scene, other)
    scene.look(1010.0, borrower=1.0)

    scene.tell(replace(other.changed(1012.0, JobState.QUEUED, "preempted"), gpus=()))
    for t_s in (1030.0, 1060.0, 1090.0):
        scene.look(t_s, borrower=1.0)
    (found,) = scene.verifier.settle(scene.made.view(1090.0))

    assert found.gained.mid == pytest.approx(80.0)


def test_a_gpu_on_which_a_job_ran_between_two_looks_was_not_free_all_the_time() -> None:
    scene = Scene()
    with_free_node(scene)
    scene.tell(replace(job("j9"), submit_s=0.0).changed(0.0, JobState.QUEUED, "submitted"))
    for t_s in range(1010, 1050, 10):
        scene.look(float(t_s), borrower=1.0)

    started = start(job="j9", gpus=("n2/gpu0",))
    scene.verifier.begin(started, receipt(started, t_s=1050.0), scene.made.view(1050.0))
    scene.look(1050.0, borrower=1.0)  # of the same turn: the job is not in this view yet
    failed = replace(job("j9"), end_s=1055.0).changed(1055.0, JobState.FAILED, "exit code 1")
    scene.tell(failed)
    for t_s in range(1060, 1120, 10):
        scene.look(float(t_s), borrower=1.0)
    (found,) = scene.verifier.settle(scene.made.view(1110.0))

    assert found.gained.mid == pytest.approx(110.0)
    assert found.counterfactual == 0.0


def test_what_nobody_saw_widens_the_range_and_is_filled_with_the_mean() -> None:
    scene = Scene()
    scene.look(1060.0, borrower=0.6)
    scene.made.fold(Observation(frame=samples(1120.0, {GPU: gpu_row(0.6)})))  # no rows of the jobs
    scene.look(1120.0)

    (found,) = scene.verifier.settle(scene.made.view(1120.0))

    assert found.gained.mid == pytest.approx(0.6 * 120)
    assert found.gained.low <= 0.6 * 60
    assert found.gained.high >= 0.6 * 60 + 60
    assert "unseen" in found.text


def test_a_loan_of_which_nothing_was_seen_gains_nothing_and_says_so() -> None:
    scene = Scene()
    scene.made.fold(Observation(frame=samples(1060.0, {GPU: gpu_row(0.6)})))
    scene.look(1060.0)

    (found,) = scene.verifier.settle(scene.made.view(1060.0))

    assert found.gained.mid == 0.0
    assert found.gained.high >= 60.0


def test_looking_at_what_a_loan_brought_so_far_settles_nothing() -> None:
    scene = Scene()
    scene.look(1100.0, borrower=0.5)
    seen = scene.made.view(1100.0)

    (first,), (second,) = scene.verifier.so_far(seen), scene.verifier.so_far(seen)
    (settled,) = scene.verifier.settle(seen)

    assert first == second
    assert first.gained == settled.gained
    assert first.gained.mid == pytest.approx(50.0)


def test_settling_right_after_a_check_writes_nothing_twice() -> None:
    scene = Scene()
    for t_s in range(1010, 1610, 10):
        scene.look(float(t_s), borrower=0.8)

    assert scene.verifier.settle(scene.made.view(1600.0)) == []


def test_a_loan_of_an_earlier_run_is_followed_on_and_its_gap_is_unknown() -> None:
    decided = decision()
    story = Story(
        decision=decided,
        receipts=(receipt(decided, t_s=0.0),),
        outcomes=(outcome(to_s=600.0, idle_watts=77.0),),
    )
    verifier = LoanOutcomes()
    verifier.resume(story)
    made = moment(node("n1", 1), jobs=[OWNER, BORROWER])
    made.apply(decided, story.receipts[-1])
    rows = {
        GPU: gpu_row(0.9),
        share_entity(GpuId(GPU), JobId("j1")): {"share.busy_share": 0.0},
        share_entity(GpuId(GPU), JobId("j2")): {"share.busy_share": 0.9},
    }
    made.fold(Observation(frame=samples(1200.0, rows)))

    ((_, found),) = verifier.follow(made.view(1200.0))

    assert (found.from_s, found.to_s) == (600.0, 1200.0)
    assert found.gained.mid == 0.0
    assert found.gained.high >= 600.0
    assert found.idle_watts == 77.0


def test_what_was_measured_is_taken_up_where_the_journal_ends() -> None:
    scene = Scene()
    for t_s in range(1010, 1300, 10):
        scene.look(float(t_s), borrower=0.8)
    saved = scene.verifier.save_state()
    (before,) = scene.verifier.so_far(scene.made.view(1290.0))
    story = Story(decision=decision(), receipts=(receipt(decision(), t_s=1000.0),))
    later = replace(story, outcomes=(outcome(to_s=1290.0),))
    crashed, written = LoanOutcomes(), LoanOutcomes()
    crashed.resume(story)
    written.resume(later)

    for each in (crashed, written, LoanOutcomes()):
        each.restore_state(saved)

    (after,) = crashed.so_far(scene.made.view(1290.0))
    assert after.gained.mid == before.gained.mid > 200
    assert (after.lent, after.idle_watts) == (before.lent, before.idle_watts)
    assert written.so_far(scene.made.view(1290.0)) == ()  # no part is counted twice


def test_a_state_that_does_not_fit_changes_nothing() -> None:
    verifier = LoanOutcomes()
    verifier.resume(Story(decision=decision(), receipts=(receipt(decision(), t_s=1000.0),)))
    before = verifier.save_state()

    with pytest.raises(KeyError):
        verifier.restore_state({"d-1": {"from_s": 1000.0}})

    assert verifier.save_state() == before


def test_a_loan_that_the_world_has_forgotten_is_closed_with_what_is_known() -> None:
    verifier = LoanOutcomes()
    verifier.resume(Story(decision=decision(), receipts=(receipt(decision(), t_s=0.0),)))

    ((_, found),) = verifier.follow(view(node()))

    assert found.final
    assert found.gained.mid == 0.0
    assert "it is unknown" in found.text


def test_only_loans_that_were_made_are_followed() -> None:
    verifier = LoanOutcomes()
    seen = view(jobs=[OWNER, BORROWER], loans=[loan()])

    assert verifier.resume(Story(decision=decision())) is None
    assert (
        verifier.begin(replace(decision(), action=decision().undo), receipt(decision()), seen)
        is None
    )  # type: ignore[arg-type]
    assert verifier.follow(seen) == []


def test_a_borrower_that_ended_without_saying_when_is_counted_to_the_look() -> None:
    scene = Scene()
    scene.look(1010.0, borrower=1.0)

    scene.tell(BORROWER.changed(1014.0, JobState.FAILED, "crash"))
    (found,) = scene.look(1020.0)

    assert found.gained.mid == pytest.approx(20.0)


@given(
    shares=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=40),
    step_s=st.integers(1, 60),
    gpus=st.integers(1, 4),
)
def test_the_gain_is_the_sum_of_shares_times_seconds_over_all_parts(
    shares: list[float], step_s: int, gpus: int
) -> None:
    scene = Scene(gpus=gpus)
    found: list[Outcome] = []
    for i, share in enumerate(shares, start=1):
        found += scene.look(1000.0 + i * step_s, borrower=share)

    seen: ClusterView = scene.made.view(1000.0 + len(shares) * step_s)
    found += scene.verifier.settle(seen)

    assert sum(each.gained.mid for each in found) == pytest.approx(sum(shares) * step_s * gpus)
    assert all(each.gained.low <= each.gained.mid <= each.gained.high for each in found)
    assert found[-1].to_s == seen.t_s


def test_a_loan_that_ended_before_a_restart_is_not_measured_again() -> None:
    verifier = LoanOutcomes()
    ended = outcome(final=True)
    verifier.resume(Story(decision=decision(), receipts=(receipt(decision()),), outcomes=(ended,)))

    assert verifier.follow(view(node())) == []
