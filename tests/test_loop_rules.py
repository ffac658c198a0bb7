"""RuleRecogniser in the loop: from lines and samples to findings, decisions, checks and trust."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from steward.act.guard import Guard, Limits
from steward.act.verify import ClusterVerifier
from steward.clock import ManualClock
from steward.decide.rules.live import RuleRecogniser
from steward.decide.treating.treat import Treat
from steward.inspection.series.recorded_meter import RecordedMeter
from steward.loop import Loop
from steward.model.actions import Preempt, Resume, Tell
from steward.model.decision import EFFECT_CHECK, Autonomy, DecisionState
from steward.model.event import LogLine, Observation
from steward.model.finding import Finding, Recurrence
from steward.model.outcome import Story
from steward.model.rules import Clause, MetricTerm, Rule, RuleNode, Term
from steward.model.treatment import Effect, Treatment
from steward.store.opinions import record_opinion
from tiny_world import TinyWorld, tiny_loop, turn_until

START_S = 1_700_000_000.0
BUSY = Effect(expr="gpu_busy_share", direction="up", at_least=0.2)
TELL = Treatment(action="tell", advice="use it", effect=BUSY, check_after_s=300.0)


def idle_rule(treatment: Treatment | None = TELL, *, for_s: float = 60.0) -> Rule:
    term = MetricTerm(expr='gpu_busy_share{job_id!=""} < 0.3', for_s=for_s)
    root = RuleNode(kind="set", clauses=(Clause(what=term),))
    return Rule(id="R-IDLE", key="k", hash="h", root=root, title="idle", treatment=treatment)


def line_rule() -> Rule:
    clause = Clause(what=Term(kind="value", text="fell off"))
    root = RuleNode(kind="set", clauses=(clause,), source="cre.log.kernel")
    return Rule(id="R-LOST", key="k", hash="h", root=root, title="lost")


class TalkingWorld(TinyWorld):
    """A world whose kernel writes a line every turn."""

    def collect(self, t_s: float) -> Observation:
        line = LogLine(t_s=t_s, entity="n1", source="kernel", text="it fell off")
        return replace(super().collect(t_s), lines=(line,))

    def close(self) -> None: ...


def ruled(folder: Path, world: TinyWorld, clock: ManualClock, *rules: Rule, **limits: Any) -> Loop:
    loop = tiny_loop(folder, world, clock)
    stages = replace(
        loop.stages,
        detectors=[],
        policies=[Treat()],
        recognisers=[RuleRecogniser(rules)],
        verifier=ClusterVerifier(meter=RecordedMeter(loop.telemetry)),
    )
    guard = Guard(Limits(autonomy=Autonomy.AUTO, **limits))
    stages.desk.guard = guard
    return Loop(stages, journal=loop.journal, recording=loop.recording, clock=clock)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_S)


def values(loop: Loop, kind: str) -> list[Any]:
    return [entry.value for entry in loop.journal.read(kinds=(kind,), limit=10_000)]


def stories(loop: Loop) -> list[Story]:
    return [story for _, story in loop.journal.stories()][::-1]


def test_a_rule_goes_from_samples_to_a_measured_outcome(tmp_path: Path, clock: ManualClock) -> None:
    world = TinyWorld()
    loop = ruled(tmp_path, world, clock, idle_rule())

    turn_until(loop, clock, START_S + 200)
    world.owner_busy = 0.9
    turn_until(loop, clock, START_S + 600)

    (found,) = values(loop, "finding")
    (story,) = stories(loop)
    assert isinstance(found, Finding)
    assert isinstance(story.decision.action, Tell)
    assert story.decision.findings == (found.id,)
    assert story.state is DecisionState.DONE
    (checked,) = story.outcomes
    assert checked.effect is not None
    assert checked.effect.met
    assert loop.view.findings == ()
    assert not loop.status.faults


def test_many_lines_are_one_finding_and_a_few_entries(tmp_path: Path, clock: ManualClock) -> None:
    loop = ruled(tmp_path, TalkingWorld(), clock, line_rule())

    turn_until(loop, clock, START_S + 2000)

    (found,) = values(loop, "finding")
    again = values(loop, "recurrence")
    assert all(isinstance(each, Recurrence) for each in again)
    assert len(again) == 3
    assert found.hits + sum(each.hits for each in again) == pytest.approx(181, abs=2)
    (now,) = loop.view.findings
    assert (now.id, now.hits) == (found.id, 200)


def test_what_people_say_changes_how_far_a_rule_is_trusted(
    tmp_path: Path, clock: ManualClock
) -> None:
    loop = ruled(tmp_path, TalkingWorld(), clock, line_rule())
    turn_until(loop, clock, START_S + 100)
    (found,) = values(loop, "finding")

    record_opinion(loop.journal, found.id, "dismiss", user="ann", t_s=clock.now_s())
    turn_until(loop, clock, START_S + 200)
    weights = loop._book.rules.weights(clock.now_s())

    assert weights["R-LOST"] == pytest.approx(1 / 3, abs=1e-4)


def test_what_made_things_worse_is_undone(tmp_path: Path, clock: ManualClock) -> None:
    worse = Effect(expr="gpu_busy_share", direction="up", at_least=0.2)
    preempt = Treatment(
        action="preempt", advice="stop it", effect=worse, check_after_s=300.0, undo="resume"
    )
    world = TinyWorld()
    world.owner_busy = 0.2
    loop = ruled(tmp_path, world, clock, idle_rule(preempt))

    turn_until(loop, clock, START_S + 100)
    world.owner_busy = 0.0
    turn_until(loop, clock, START_S + 500)

    first, back = stories(loop)
    assert isinstance(first.decision.action, Preempt)
    assert [choice.user for choice in first.choices] == [EFFECT_CHECK]
    assert first.outcomes[0].effect is not None
    assert first.outcomes[0].effect.worse
    assert isinstance(back.decision.action, Resume)


def test_a_check_survives_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    world = TinyWorld()
    loop = ruled(tmp_path, world, clock, idle_rule())
    turn_until(loop, clock, START_S + 200)
    loop.close()

    again = ruled(tmp_path, TinyWorld(), clock, idle_rule())
    turn_until(again, clock, START_S + 600)

    checks = [each for each in values(again, "outcome") if each.effect is not None]
    assert checks
    assert {each.decision for each in checks} <= {story.decision.id for story in stories(again)}


@pytest.mark.parametrize("method", ["recognise", "recurrences", "weigh"])
def test_a_recogniser_that_throws_costs_its_own_findings_alone(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    loop = ruled(tmp_path, TalkingWorld(), clock, line_rule())

    def broken(*_: object) -> None:
        raise RuntimeError("bug")

    monkeypatch.setattr(loop.stages.recognisers[0], method, broken)
    turn_until(loop, clock, START_S + 50)

    assert loop.status.turns == 5
    assert {fault.where for fault in loop.status.faults} == {"rules"}
