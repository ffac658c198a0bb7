"""A finding whose lines were read before steward was killed is decided on after the restart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from steward.act.guard import Guard, Limits
from steward.clock import ManualClock
from steward.decide.rules.live import RuleRecogniser
from steward.decide.treating.treat import Treat
from steward.loop import Loop
from steward.model.actions import Drain, Tell
from steward.model.decision import Autonomy
from steward.model.event import LogLine, Observation
from steward.model.rules import Clause, Rule, RuleNode, Term
from steward.model.treatment import Treatment
from steward.model.view import ClusterView
from tiny_world import TinyWorld, tiny_loop, turn_until

START_S = 1_700_000_000.0
DRAIN = Treatment(action="drain", advice="look at it")


class LoggedWorld(TinyWorld):
    """A world with a log. What was read is not read again after `resume`, as of a real file."""

    def __init__(self, log: list[LogLine]) -> None:
        super().__init__()
        self.log = log
        self.read = 0

    def collect(self, t_s: float) -> Observation:
        new = tuple(self.log[self.read :])
        self.read = len(self.log)
        return replace(super().collect(t_s), lines=new)

    def positions(self) -> dict[str, Any]:
        return {"read": self.read}

    def resume(self, positions: dict[str, Any]) -> None:
        self.read = positions["read"]


def failing(count: int = 1) -> Rule:
    clause = Clause(what=Term(kind="value", text="fell off"), count=count)
    window_ns = 300_000_000_000 if count > 1 else 0
    root = RuleNode(kind="set", clauses=(clause,), source="cre.log.kernel", window_ns=window_ns)
    return Rule(id="R-LOST", key="k", hash="h", root=root, title="lost", treatment=DRAIN)


def line(t_s: float) -> LogLine:
    return LogLine(t_s=t_s, entity="n1", source="kernel", text="it fell off")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_S)


@pytest.fixture
def log() -> list[LogLine]:
    return []


def started(
    folder: Path, log: list[LogLine], clock: ManualClock, rule: Rule, *, drain_after_s: float = 0.0
) -> Loop[ClusterView]:
    loop = tiny_loop(folder, LoggedWorld(log), clock)
    stages = replace(
        loop.stages,
        detectors=[],
        policies=[Treat(drain_after_s=drain_after_s)],
        recognisers=[RuleRecogniser([rule], patience_s=0.0)],
    )
    stages.desk.guard = Guard(Limits(autonomy=Autonomy.ADVISE))
    return Loop(stages, journal=loop.journal, recording=loop.recording, clock=clock)


def kill(loop: Loop[ClusterView]) -> None:
    """Leave a loop as SIGKILL would: with its lines and positions on disk, and nothing settled."""
    loop.recording.flush()
    loop.journal.close()


def actions(loop: Loop[ClusterView]) -> list[type]:
    return [type(story.decision.action) for _, story in loop.journal.stories()][::-1]


def test_lines_that_were_read_but_not_decided_on_are_decided_on_after_a_restart(
    tmp_path: Path, log: list[LogLine], clock: ManualClock
) -> None:
    loop = started(tmp_path, log, clock, failing())
    turn_until(loop, clock, START_S + 20)
    log.append(line(clock.now_s()))
    loop._observe(clock.now_s())
    kill(loop)

    again = started(tmp_path, log, clock, failing())
    turn_until(again, clock, START_S + 60)

    assert actions(again) == [Drain]


def test_a_decision_that_waits_for_its_finding_to_last_survives_a_restart(
    tmp_path: Path, log: list[LogLine], clock: ManualClock
) -> None:
    loop = started(tmp_path, log, clock, failing(), drain_after_s=120.0)
    log.append(line(START_S))
    turn_until(loop, clock, START_S + 60)
    assert actions(loop) == [Tell]
    kill(loop)

    again = started(tmp_path, log, clock, failing(), drain_after_s=120.0)
    turn_until(again, clock, START_S + 200)

    assert actions(again) == [Tell, Drain]
    assert len(again.journal.read(kinds=("finding",))) == 1


def test_lines_before_and_after_a_restart_are_counted_together(
    tmp_path: Path, log: list[LogLine], clock: ManualClock
) -> None:
    loop = started(tmp_path, log, clock, failing(count=3))
    log += [line(START_S), line(START_S + 1.0)]
    turn_until(loop, clock, START_S + 20)
    kill(loop)

    again = started(tmp_path, log, clock, failing(count=3))
    turn_until(again, clock, START_S + 40)
    assert actions(again) == []
    log.append(line(clock.now_s()))
    turn_until(again, clock, START_S + 60)

    assert actions(again) == [Drain]


def test_a_line_is_counted_once_though_it_was_recorded_and_is_read_again(
    tmp_path: Path, log: list[LogLine], clock: ManualClock
) -> None:
    loop = started(tmp_path, log, clock, failing(count=3))
    log += [line(START_S), line(START_S + 1.0)]
    loop._observe(clock.now_s())
    loop.recording.logs.table.flush()  # killed before its positions were written
    loop.journal.close()

    again = started(tmp_path, log, clock, failing(count=3))
    turn_until(again, clock, START_S + 60)

    assert actions(again) == []


def test_what_goes_on_for_long_is_the_same_finding_after_a_restart(
    tmp_path: Path, log: list[LogLine], clock: ManualClock
) -> None:
    loop = started(tmp_path, log, clock, failing())
    for _ in range(200):
        log.append(line(clock.now_s()))
        turn_until(loop, clock, clock.now_s() + 60)
    (before,) = loop.view.findings
    kill(loop)

    again = started(tmp_path, log, clock, failing())
    turn_until(again, clock, clock.now_s() + 60)

    (after,) = again.view.findings
    assert after.id == before.id
    assert actions(again) == [Drain]


def test_what_was_over_before_a_restart_is_not_found_again(
    tmp_path: Path, log: list[LogLine], clock: ManualClock
) -> None:
    loop = started(tmp_path, log, clock, failing())
    log.append(line(START_S))
    turn_until(loop, clock, START_S + 900)
    assert loop.view.findings == ()
    kill(loop)

    again = started(tmp_path, log, clock, failing())
    turn_until(again, clock, START_S + 960)

    assert again.view.findings == ()
    assert not again.status.faults


def test_what_comes_back_after_a_pause_and_a_restart_is_another_finding(
    tmp_path: Path, log: list[LogLine], clock: ManualClock
) -> None:
    loop = started(tmp_path, log, clock, failing())
    log.append(line(START_S))
    turn_until(loop, clock, START_S + 900)
    kill(loop)

    again = started(tmp_path, log, clock, failing())
    log.append(line(START_S + 900))
    turn_until(again, clock, START_S + 960)

    assert len(again.view.findings) == 1
    assert len(again.journal.read(kinds=("finding",))) == 2


def test_two_findings_of_one_rule_before_a_restart_stay_two(
    tmp_path: Path, log: list[LogLine], clock: ManualClock
) -> None:
    loop = started(tmp_path, log, clock, failing())
    log.append(line(START_S))
    turn_until(loop, clock, START_S + 700)
    log.append(line(clock.now_s()))
    loop._observe(clock.now_s())
    kill(loop)

    again = started(tmp_path, log, clock, failing())
    turn_until(again, clock, START_S + 760)

    assert len(again.view.findings) == 1
    assert len(again.journal.read(kinds=("finding",))) == 2
