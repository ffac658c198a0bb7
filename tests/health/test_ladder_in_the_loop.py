"""From a line of the kernel to a drained node, and back when it was proven well: the real loop."""

from __future__ import annotations

from pathlib import Path

from service.fleet_world import LOST, TEARDOWN, FleetWorld, fleet_loop
from steward.clock import ManualClock
from steward.loop import Loop
from steward.model.decision import Autonomy, Decision, DecisionState
from steward.model.finding import Finding
from steward.model.identity import NodeId
from steward.model.view import ClusterView

T_S = 1_700_000_000.0


def turns(loop: Loop[ClusterView], clock: ManualClock, for_s: float, every_s: float = 10.0) -> None:
    until_s = clock.now_s() + for_s
    while clock.now_s() < until_s:
        loop.turn()
        clock.set(clock.now_s() + every_s)


def test_a_lost_gpu_is_drained_restarted_tested_and_comes_back(tmp_path: Path) -> None:
    world, clock = FleetWorld(4, 2), ManualClock(T_S)
    loop = fleet_loop(tmp_path, world, clock)
    turns(loop, clock, 3 * 86_400.0, every_s=3600.0)

    began_s = clock.now_s()
    world.say("n01", LOST, began_s)
    turns(loop, clock, 600.0)

    steps = [kind for kind, subject in world.done if subject == "n01"]
    assert steps == ["drain", "reboot", "diagnose", "undrain"]
    assert not loop.view.is_draining(NodeId("n01"))
    assert [each for each in loop.view.findings if each.fault is not None] == []
    kept = [entry.value for entry in loop.journal.read(kinds=("finding", "decision"))]
    found = [each for each in kept if isinstance(each, Finding)]
    decided = [each for each in kept if isinstance(each, Decision)]
    assert found[0].fault is not None
    assert found[0].quotes[0].text.startswith("xid 79")
    assert all(each.findings == (found[0].id,) for each in decided[:3])
    assert "GPU-hours expected" in decided[0].because
    loop.close()


def test_a_node_that_is_not_proven_well_stays_away_and_its_part_is_told(tmp_path: Path) -> None:
    world, clock = FleetWorld(4, 2, tested_well=False), ManualClock(T_S)
    loop = fleet_loop(tmp_path, world, clock)
    turns(loop, clock, 86_400.0, every_s=3600.0)
    world.say("n01", LOST, clock.now_s())

    turns(loop, clock, 1200.0)

    kinds = [kind for kind, _ in world.done]
    assert "undrain" not in kinds
    assert kinds.count("diagnose") == 2  # one test may be wrong
    assert kinds[-1] == "tell"
    assert loop.view.is_draining(NodeId("n01"))
    loop.close()


def test_a_storm_of_secondary_codes_and_faults_of_programs_drain_nothing(tmp_path: Path) -> None:
    world, clock = FleetWorld(4, 2), ManualClock(T_S)
    loop = fleet_loop(tmp_path, world, clock)
    for k in range(360):
        world.say(f"n0{k % 4}", TEARDOWN.replace("pid=7", f"pid={k}"), T_S + 10.0 * k)
    world.say("n02", LOST.replace("79", "31"), T_S + 100.0)

    turns(loop, clock, 4000.0)

    assert world.done == []
    assert loop.view.findings == ()
    loop.close()


def test_an_outage_of_many_nodes_drains_none_of_them(tmp_path: Path) -> None:
    world, clock = FleetWorld(12, 2), ManualClock(T_S)
    loop = fleet_loop(tmp_path, world, clock)
    turns(loop, clock, 86_400.0, every_s=3600.0)
    now_s = clock.now_s()
    for row in range(8):
        world.say(f"n{row:02d}", LOST.replace("79", "74"), now_s + row)

    turns(loop, clock, 600.0)

    drained = [subject for kind, subject in world.done if kind == "drain"]
    assert drained == []
    assert {each.fault.together for each in loop.view.findings if each.fault} == {8}
    loop.close()


def test_at_advise_nothing_is_done_and_the_drain_is_said(tmp_path: Path) -> None:
    world, clock = FleetWorld(4, 2), ManualClock(T_S)
    loop = fleet_loop(tmp_path, world, clock, autonomy=Autonomy.ADVISE)
    world.say("n01", LOST, T_S)

    turns(loop, clock, 60.0)

    assert world.done == []
    states = [(s.decision.action.type, s.state) for _, s in loop.journal.stories(limit=9)]
    assert states == [("drain", DecisionState.ADVISED)]
    loop.close()


def test_the_budget_of_the_guard_holds_drains_back(tmp_path: Path) -> None:
    world, clock = FleetWorld(8, 2), ManualClock(T_S)
    loop = fleet_loop(tmp_path, world, clock, disturbed_gpus_per_hour=2)
    for row in range(3):  # far enough apart that they are no outage
        world.say(f"n0{row}", LOST, T_S + 400.0 * row)

    turns(loop, clock, 1500.0)

    assert [kind for kind, _ in world.done].count("drain") == 1
    loop.close()


def test_a_dump_that_is_read_again_after_a_restart_fires_nothing_new(tmp_path: Path) -> None:
    world, clock = FleetWorld(4, 2), ManualClock(T_S)
    loop = fleet_loop(tmp_path, world, clock)
    world.say("n01", LOST, T_S)
    turns(loop, clock, 600.0)
    before = len(world.done)
    loop.close()

    again = fleet_loop(tmp_path, world, clock)
    world._first = True
    world.say("n01", LOST, T_S)  # the same line, with its old time
    turns(again, clock, 600.0)

    assert [kind for kind, _ in world.done[before:] if kind == "drain"] == []
    again.close()
