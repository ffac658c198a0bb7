from __future__ import annotations

import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from factories import finding, job
from patience import LONG_S, until
from steward.clock import ManualClock
from steward.errors import StewardError
from steward.loop import Loop
from steward.model.actions import CallBack, Lend
from steward.model.decision import Autonomy, DecisionState
from steward.model.event import Availability, Event, Observation
from steward.model.finding import Finding, Pattern
from steward.model.identity import DecisionId, GpuId, TenantId
from steward.model.job import JobShape
from steward.model.layout import Block, Layout
from steward.model.outcome import Outcome, Story
from steward.model.site import TenantCeiling
from steward.model.view import ClusterView
from steward.observe.watch import Watch
from steward.store.choices import record_choice
from steward.store.explain import explain
from steward.store.journal import open_journal
from steward.store.telemetry import Telemetry
from tiny_world import GPU, TinyWorld, tiny_loop, turn_until

START_S = 1_700_000_000.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_S)


@pytest.fixture
def world() -> TinyWorld:
    return TinyWorld()


def stories(loop: Loop) -> list[Story]:
    """Return all decisions, oldest first."""
    return [story for _, story in loop.journal.stories()][::-1]


def values(loop: Loop, kind: str) -> list[object]:
    return [entry.value for entry in loop.journal.read(kinds=(kind,))]


def test_what_a_tenant_leaves_to_people_is_only_advised_until_it_does_not_any_more(
    tmp_path: Path, clock: ManualClock, world: TinyWorld
) -> None:
    strict = TenantCeiling(autonomy=Autonomy.ADVISE, source="OptimizationPolicy calm")
    world.ceilings = {TenantId("a"): strict}
    loop = tiny_loop(tmp_path, world, clock)

    turn_until(loop, clock, START_S + 1000)
    advised = stories(loop)
    carried_out = list(world.carried_out)
    world.ceilings = {}
    turn_until(loop, clock, START_S + 1100)

    assert carried_out == []
    why = "autonomy for a by its OptimizationPolicy calm is 'advise'"
    assert advised
    assert {each.verdicts[0].why for each in advised} == {why}
    assert world.carried_out


def test_an_idle_gpu_is_found_lent_called_back_and_its_worth_is_measured(
    tmp_path: Path, clock: ManualClock, world: TinyWorld
) -> None:
    loop = tiny_loop(tmp_path, world, clock)
    turn_until(loop, clock, START_S + 300)
    assert stories(loop) == []

    turn_until(loop, clock, START_S + 1000)
    (lent,) = stories(loop)
    assert isinstance(lent.decision.action, Lend)
    assert lent.state is DecisionState.ACTIVE
    assert [outcome.final for outcome in lent.outcomes] == [False]

    world.owner_busy = 0.5
    turn_until(loop, clock, START_S + 1100)
    lent, back = stories(loop)
    assert isinstance(back.decision.action, CallBack)
    assert lent.state is DecisionState.DONE
    seconds = lent.outcomes[-1].to_s - lent.receipts[0].t_s
    overlap_s, restore_s = 5.0, 30.0  # the owner woke, for all we know, in mid-turn
    assert lent.gained == pytest.approx(0.8 * (seconds - overlap_s) - restore_s, rel=0.01)


def test_a_loan_between_two_samples_is_followed_from_its_first_sample_on(
    tmp_path: Path, clock: ManualClock, world: TinyWorld
) -> None:
    loop = tiny_loop(tmp_path, world, clock)
    collect = world.collect
    world.collect = lambda t_s: collect(t_s - 4.0)  # type: ignore[method-assign]  # samples lag

    turn_until(loop, clock, START_S + 400)

    (lent,) = stories(loop)
    assert lent.state is DecisionState.ACTIVE


def test_from_any_decision_the_way_leads_back_to_its_samples(
    tmp_path: Path, clock: ManualClock, world: TinyWorld
) -> None:
    loop = tiny_loop(tmp_path, world, clock)
    turn_until(loop, clock, START_S + 400)

    told = explain(loop.journal, loop.telemetry, stories(loop)[0].decision.id)

    assert told.findings[0].id == told.story.decision.findings[0]
    samples = told.samples[f"{GPU} gpu.busy_share"]
    assert samples["gpu.busy_share"].max() == 0.0
    assert samples["t_s"].min() == START_S
    assert samples.height >= 30


def test_a_finding_is_written_once_however_often_it_is_seen(
    tmp_path: Path, clock: ManualClock, world: TinyWorld
) -> None:
    loop = tiny_loop(tmp_path, world, clock, autonomy=Autonomy.OBSERVE)

    turn_until(loop, clock, START_S + 900)

    (found,) = values(loop, "finding")
    assert isinstance(found, Finding)
    assert found.gpus == (GPU,)


def test_a_site_that_only_observes_decides_nothing(
    tmp_path: Path, clock: ManualClock, world: TinyWorld
) -> None:
    loop = tiny_loop(tmp_path, world, clock, autonomy=Autonomy.OBSERVE)

    turn_until(loop, clock, START_S + 600)

    assert stories(loop) == []
    assert world.carried_out == []


def test_advice_is_given_and_not_carried_out(
    tmp_path: Path, clock: ManualClock, world: TinyWorld
) -> None:
    loop = tiny_loop(tmp_path, world, clock, autonomy=Autonomy.ADVISE)

    turn_until(loop, clock, START_S + 600)

    assert [story.state for story in stories(loop)] == [DecisionState.ADVISED]
    assert world.carried_out == []


def test_a_person_approves_and_undoes_through_the_journal(
    tmp_path: Path, clock: ManualClock, world: TinyWorld
) -> None:
    loop = tiny_loop(tmp_path, world, clock, autonomy=Autonomy.APPROVE)
    turn_until(loop, clock, START_S + 400)
    (waiting,) = stories(loop)
    id_ = waiting.decision.id
    assert waiting.state is DecisionState.WAITING

    record_choice(loop.journal, id_, "approve", user="ada", t_s=clock.now_s())
    turn_until(loop, clock, START_S + 450)
    assert stories(loop)[0].state is DecisionState.ACTIVE

    record_choice(loop.journal, id_, "undo", user="ada", t_s=clock.now_s(), note="mine")
    turn_until(loop, clock, START_S + 500)
    first, undo = stories(loop)[:2]
    assert first.state is DecisionState.UNDONE
    assert undo.decision.because == f"ada undid {id_}: mine"
    assert world.jobs["j2"].gpus == ()
    assert [choice.user for choice in first.choices] == ["ada", "ada"]


def test_a_rejected_decision_is_not_carried_out(
    tmp_path: Path, clock: ManualClock, world: TinyWorld
) -> None:
    loop = tiny_loop(tmp_path, world, clock, autonomy=Autonomy.APPROVE)
    turn_until(loop, clock, START_S + 400)

    record_choice(
        loop.journal, stories(loop)[0].decision.id, "reject", user="ada", t_s=clock.now_s()
    )
    turn_until(loop, clock, START_S + 420)

    assert stories(loop)[0].state is DecisionState.REJECTED
    assert world.carried_out == []


def test_patterns_are_kept_and_written_when_they_change(
    tmp_path: Path, clock: ManualClock, world: TinyWorld
) -> None:
    loop = tiny_loop(tmp_path, world, clock, autonomy=Autonomy.OBSERVE)

    turn_until(loop, clock, START_S + 1300)

    written = values(loop, "pattern")
    assert len(loop.patterns) == 1
    assert isinstance(written[-1], Pattern)
    assert written[-1].id == loop.patterns[0].id


# -- when things go wrong --------------------------------------------------------------------------


def test_a_collector_that_throws_is_a_fault_and_the_loop_goes_on(
    tmp_path: Path, clock: ManualClock, world: TinyWorld
) -> None:
    loop = tiny_loop(tmp_path, world, clock)
    world.collect_fault = RuntimeError("no sensor")
    turn_until(loop, clock, START_S + 100)

    world.collect_fault = None
    turn_until(loop, clock, START_S + 500)

    assert loop.status.turns == 50
    faults = [e for e in values(loop, "event") if getattr(e, "kind", "") == "steward.fault"]
    assert len(faults) == 1  # the same fault every turn is one entry
    assert len(stories(loop)) == 1


def test_a_policy_that_throws_costs_only_its_own_answer(
    tmp_path: Path, clock: ManualClock, world: TinyWorld
) -> None:
    class Broken:
        name = "broken"

        def decide(self, view: ClusterView) -> tuple[()]:
            raise ZeroDivisionError(view.t_s)

    loop = tiny_loop(tmp_path, world, clock)
    object.__setattr__(loop.stages, "policies", [Broken(), *loop.stages.policies])

    turn_until(loop, clock, START_S + 400)

    assert world.carried_out
    assert loop.status.faults[-1].where == "broken"


def test_an_actuator_that_is_busy_is_tried_again(
    tmp_path: Path, clock: ManualClock, world: TinyWorld
) -> None:
    loop = tiny_loop(tmp_path, world, clock)
    world.busy_engine = True
    turn_until(loop, clock, START_S + 320)
    assert "the engine is busy" in loop.status.faults[-1].problem

    world.busy_engine = False
    turn_until(loop, clock, START_S + 360)

    assert stories(loop)[0].state is DecisionState.ACTIVE
    assert len(world.carried_out) == 1


def test_an_actuator_that_half_succeeds_is_followed_on_what_it_did(
    tmp_path: Path, clock: ManualClock, world: TinyWorld
) -> None:
    both = (GPU, GpuId("n1/gpu1"))
    world.jobs["j1"] = job("j1", on=both)
    world.jobs["j2"] = job("j2", tenant="b", shape=JobShape(gpus=2, gpu_memory_bytes=2**30))
    del world.jobs["j3"]
    world.changed = {"j1", "j2"}
    world.second_busy = 0.0
    world.works_on = 1
    loop = tiny_loop(tmp_path, world, clock)

    turn_until(loop, clock, START_S + 1000)

    (lent,) = stories(loop)
    assert lent.decision.action.gpus == both
    assert lent.receipts[0].result == "partly"
    assert [each.gpus for each in loop.view.loans] == [(GPU,)]
    assert lent.gained == pytest.approx(0.8 * 600, rel=0.02)  # of one GPU, not of two


@pytest.mark.parametrize("kind", [StewardError, NotADirectoryError])
def test_samples_that_cannot_be_stored_are_a_fault_and_the_loop_goes_on(
    tmp_path: Path, clock: ManualClock, world: TinyWorld, kind: type[Exception]
) -> None:
    loop = tiny_loop(tmp_path, world, clock)
    recording = loop.recording

    class Full:
        """The same telemetry on a full disk."""

        def __getattr__(self, name: str) -> object:
            return getattr(recording, name)

        def upkeep(self, _now_s: float) -> None:
            raise kind("no space left for samples")

    loop.recording = Full()  # type: ignore[assignment]
    turn_until(loop, clock, START_S + 400)
    full = loop.status.faults[-1]

    loop.recording = recording
    loop.telemetry.flush()

    assert "no space left for samples" in full.problem
    assert len(world.carried_out) == 1
    kept = loop.telemetry.read(entities=[GPU], from_s=START_S, to_s=START_S + 400)
    assert kept.height == 40  # nothing that was seen meanwhile is lost


def test_nothing_is_carried_out_that_could_not_be_written_down_first(
    tmp_path: Path, clock: ManualClock, world: TinyWorld
) -> None:
    loop = tiny_loop(tmp_path, world, clock)
    journal = loop.journal

    class Full:
        """The same journal on a full disk."""

        def __getattr__(self, name: str) -> object:
            return getattr(journal, name)

        def append(self, _values: object) -> None:
            raise StewardError("no space left", hint="make room")

    loop._book.journal = Full()  # type: ignore[assignment]
    turn_until(loop, clock, START_S + 350)
    assert world.carried_out == []
    assert loop.status.faults[-1].problem == "no space left"

    loop._book.journal = journal
    turn_until(loop, clock, START_S + 370)

    assert len(world.carried_out) == 1
    assert len(values(loop, "finding")) == 1  # what could not be written then is written now


def test_time_goes_on_when_the_clock_jumps_back(
    tmp_path: Path, clock: ManualClock, world: TinyWorld
) -> None:
    loop = tiny_loop(tmp_path, world, clock)
    turn_until(loop, clock, START_S + 200)

    clock.set(START_S - 5000.0)
    times = []
    for _ in range(30):
        loop.turn()
        times.append(loop.view.t_s)
        clock.set(clock.now_s() + 10.0)

    assert times == sorted(set(times))
    assert times[0] > START_S + 190
    assert "jumped back" in loop.status.faults[-1].problem
    assert len(world.carried_out) == 1  # five idle minutes are still five minutes


def test_running_goes_round_until_it_is_told_to_stop_and_survives_a_bug(
    tmp_path: Path, clock: ManualClock, world: TinyWorld
) -> None:
    loop = tiny_loop(tmp_path, world, clock)
    stop = threading.Event()
    stages = loop.stages
    turns = 0

    class Counting:
        def __getattr__(self, name: str) -> object:
            return getattr(stages.watch, name)

        def look(self, t_s: float) -> object:
            nonlocal turns
            turns += 1
            if turns == 2:
                raise ValueError("a bug of ours")
            if turns == 5:
                stop.set()
            return stages.watch.look(t_s)

    loop.stages = type(stages)(
        **{name: getattr(stages, name) for name in stages.__slots__} | {"watch": Counting()}
    )
    loop.run(stop)

    assert turns == 5
    assert loop.status.turns == 4
    assert any("a bug of ours" in fault.problem for fault in loop.status.faults)
    assert clock.now_s() == START_S + 40.0


def test_what_an_engine_has_due_between_two_turns_does_not_wait_for_the_next(
    tmp_path: Path, clock: ManualClock, world: TinyWorld
) -> None:
    loop = tiny_loop(tmp_path, world, clock)
    stop, desk, looks = threading.Event(), loop.stages.desk, list[float]()

    class Timed:
        def __getattr__(self, name: str) -> object:
            return getattr(world, name)

        def next_s(self) -> float | None:
            looks.append(clock.now_s() - START_S)
            if len(looks) == 4:
                stop.set()
            return START_S + 3.0  # and still the same when it is over

    desk.actuator = Timed()
    loop.run(stop)

    assert looks == [0.0, 3.0, 13.0, 23.0]


# -- stopping and starting -------------------------------------------------------------------------


def test_after_a_restart_open_loans_are_followed_on_and_nothing_is_lost(
    tmp_path: Path, clock: ManualClock, world: TinyWorld
) -> None:
    first = tiny_loop(tmp_path, world, clock)
    turn_until(first, clock, START_S + 450)
    first.close()
    clock.set(START_S + 500)

    world.changed = set(world.jobs)
    world._first = True
    second = tiny_loop(tmp_path, world, clock)
    turn_until(second, clock, START_S + 700)
    world.owner_busy = 0.9
    turn_until(second, clock, START_S + 800)

    (lent, _back) = stories(second)
    assert lent.state is DecisionState.DONE
    parts = [(outcome.from_s, outcome.to_s) for outcome in lent.outcomes]
    assert len(parts) > 1
    assert all(a[1] == b[0] for a, b in pairwise(parts))
    assert len(world.carried_out) == 2
    assert len(values(second, "finding")) == 1


def test_a_decision_that_a_crash_left_without_a_receipt_is_carried_out_again(
    tmp_path: Path, clock: ManualClock, world: TinyWorld
) -> None:
    first = tiny_loop(tmp_path, world, clock, autonomy=Autonomy.APPROVE)
    turn_until(first, clock, START_S + 400)
    (story,) = stories(first)
    record_choice(first.journal, story.decision.id, "approve", user="ada", t_s=clock.now_s())
    desk = first.stages.desk
    choices = first._book.choices(desk.guard)
    first.journal.append(desk.receive((), choices, first.view))  # and here the power went
    first.journal.close()

    world.changed = set(world.jobs)
    world._first = True
    second = tiny_loop(tmp_path, world, clock, autonomy=Autonomy.APPROVE)
    turn_until(second, clock, START_S + 450)

    assert world.carried_out == [story.decision.id]
    assert stories(second)[0].state is DecisionState.ACTIVE


def test_closing_writes_down_what_open_loans_brought(
    tmp_path: Path, clock: ManualClock, world: TinyWorld
) -> None:
    loop = tiny_loop(tmp_path, world, clock)
    turn_until(loop, clock, START_S + 400)
    loop.close()

    again = tiny_loop(tmp_path, TinyWorld(), clock)
    (outcome,) = values(again, "outcome")

    assert isinstance(outcome, Outcome)
    assert outcome.gained.mid > 0
    assert not outcome.final


@pytest.mark.parametrize("forgotten", [False, True], ids=["it goes on", "the world forgot it"])
def test_a_crash_costs_at_most_a_minute_of_what_open_loans_brought(
    tmp_path: Path, clock: ManualClock, world: TinyWorld, *, forgotten: bool
) -> None:
    first = tiny_loop(tmp_path, world, clock)
    turn_until(first, clock, START_S + 700)
    shown = sum(outcome.gained.mid for outcome in first.unsettled)
    assert shown > 200
    first.journal.close()  # and nothing else: it was killed
    world.changed, world._first = set(world.jobs), True

    second = tiny_loop(tmp_path, TinyWorld() if forgotten else world, clock)
    second.turn()

    settled = [each for each in values(second, "outcome") if isinstance(each, Outcome)]
    again = sum(each.gained.mid for each in (*settled, *second.unsettled))
    assert shown - 60.0 <= again <= shown + 60.0


def test_a_loan_of_three_weeks_is_followed_on_and_can_be_undone_after_a_restart(
    tmp_path: Path, clock: ManualClock, world: TinyWorld
) -> None:
    first = tiny_loop(tmp_path, world, clock)
    turn_until(first, clock, START_S + 400)
    (lent,) = stories(first)
    first.close()
    clock.set(START_S + 21 * 86400)
    world.changed, world._first = set(world.jobs), True

    second = tiny_loop(tmp_path, world, clock)
    second.turn()
    asked_s = clock.now_s()
    record_choice(second.journal, lent.decision.id, "undo", user="ada", t_s=asked_s)
    turn_until(second, clock, asked_s + 30)

    assert world.carried_out == [lent.decision.id, lent.decision.undo_id(asked_s)]
    assert stories(second)[0].state is DecisionState.UNDONE


def test_the_budget_and_the_breaker_outlive_a_restart(
    tmp_path: Path, clock: ManualClock, world: TinyWorld
) -> None:
    first = tiny_loop(tmp_path, world, clock)
    turn_until(first, clock, START_S + 400)
    first.close()

    second = tiny_loop(tmp_path, TinyWorld(), clock)

    assert [gpus for _, _, _, gpus in second.stages.desk.guard._done] == [1]
    assert len(second.stages.desk.guard._recent) == 0  # not before the loan's check is due
    turn_until(second, clock, START_S + 1000)
    assert len(second.stages.desk.guard._recent) == 0  # and a part that we cut short not at all


def test_a_closed_loop_without_turns_writes_nothing(tmp_path: Path, clock: ManualClock) -> None:
    tiny_loop(tmp_path, TinyWorld(), clock).close()

    again = tiny_loop(tmp_path, TinyWorld(), clock)

    assert again.journal.newest() == 0
    assert again.status.turns == 0
    assert DecisionId("x") not in again.stages.desk._closed


class Meter:
    """A sampler with one value."""

    name, vocabulary = "meter", "canonical"
    what = Layout(blocks=(Block(entity="n1", names=("host.load_1m",)),))

    def available(self) -> Availability:
        return Availability(status="ok", reason="always")

    def collect(self, t_s: float) -> Observation:
        return Observation()

    def close(self) -> None: ...

    def layout(self) -> Layout:
        return self.what

    def sample(self, into: NDArray[np.float64]) -> None:
        into[0] = 1.5


def test_the_last_ticks_are_kept_when_the_loop_ends(tmp_path: Path, clock: ManualClock) -> None:
    loop = tiny_loop(tmp_path, TinyWorld(), clock)
    loop.stages = replace(
        loop.stages, watch=Watch([Meter()], sample_every_s=0.05, timeout_s=LONG_S)
    )
    loop.turn()
    until(lambda: loop.stages.watch.pace["meter"].ticks >= 3)
    ticks = loop.stages.watch.pace["meter"].ticks

    loop.close()

    kept = Telemetry(tmp_path / "telemetry").read(entities=["n1"], from_s=0.0, to_s=1e11)
    assert kept.height >= ticks


def test_what_happens_before_the_end_is_found_and_journaled_too(
    tmp_path: Path, clock: ManualClock, world: TinyWorld
) -> None:
    class Recogniser:
        name = "lines"

        def weigh(self, _weights: object) -> None: ...

        def resume(self, _found: object, _lines: object) -> None: ...

        def recognise(self, seen: Observation, view: ClusterView) -> tuple[Finding, ...]:
            return tuple(replace(finding(each.kind), t_s=view.t_s) for each in seen.events)

        def recurrences(self, _t_s: float) -> tuple[()]:
            return ()

    loop = tiny_loop(tmp_path, world, clock)
    loop.stages = replace(
        loop.stages,
        watch=Watch([world, Meter()], sample_every_s=3600.0, timeout_s=LONG_S),
        recognisers=[Recogniser()],
    )
    loop.turn()
    fatal = Event(t_s=clock.now_s(), kind="gpu.fault", subject=GPU, text="Xid 79", source="kernel")
    world.events = (fatal,)

    loop.close()

    after = open_journal(f"sqlite:///{tmp_path / 'journal.sqlite3'}")
    assert fatal in [entry.value for entry in after.read(kinds=("event",))]
    assert len(after.read(kinds=("finding",))) == 1


def test_a_damaged_telemetry_file_is_a_fault_in_the_journal_and_the_loop_goes_on(
    tmp_path: Path, clock: ManualClock, world: TinyWorld
) -> None:
    first = tiny_loop(tmp_path, world, clock)
    turn_until(first, clock, START_S + 60)
    first.close()
    file = next(tmp_path.rglob("telemetry/**/*.parquet"))
    content = bytearray(file.read_bytes())
    content[-20] ^= 1
    file.write_bytes(content)

    again = tiny_loop(tmp_path, world, clock)
    turn_until(again, clock, START_S + 120)

    assert any(file.name in fault.problem for fault in again.status.faults)
    texts = [value.text for value in values(again, "event") if isinstance(value, Event)]
    assert any(file.name in text and "is damaged" in text for text in texts)
    assert again.telemetry.read(entities=[GPU], from_s=START_S + 60, to_s=START_S + 120).height > 0
    again.close()
