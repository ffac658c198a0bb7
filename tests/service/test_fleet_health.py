"""The health of the fleet by the API, and as the page draws it."""

from __future__ import annotations

from pathlib import Path

from service.bed import MakeBed
from service.fleet_world import LOST, TEARDOWN, FleetWorld, fleet_loop
from steward.clock import ManualClock
from steward.model.decision import Autonomy
from steward.service.fleet_health import FleetSummary, fleet_summary
from steward.service.pages.health import (
    fleet_map,
    incident_table,
    rate_table,
    timeline,
    unit_table,
)

T_S = 1_700_000_000.0


def summary(
    folder: Path, *, autonomy: Autonomy = Autonomy.AUTO, for_s: float = 120.0
) -> FleetSummary:
    world, clock = FleetWorld(3, 2, tested_well=False), ManualClock(T_S)
    loop = fleet_loop(folder, world, clock, autonomy=autonomy)
    for _ in range(48):
        loop.turn()
        clock.set(clock.now_s() + 3600.0)
    now_s = clock.now_s()
    world.say("n01", LOST, now_s)
    world.say("n01", TEARDOWN, now_s + 1.0)
    world.failed.add("n02/gpu1")
    while clock.now_s() < now_s + for_s:
        loop.turn()
        clock.set(clock.now_s() + 10.0)
    found = fleet_summary(loop)
    loop.close()
    return found


def test_states_incidents_and_rates_are_those_of_the_recogniser(tmp_path: Path) -> None:
    found = summary(tmp_path)

    states = {gpu.id: gpu.state for node in found.nodes for gpu in node.gpus}
    assert states == {
        "n00/gpu0": "well",
        "n00/gpu1": "well",
        "n01/gpu0": "drained",
        "n01/gpu1": "drained",
        "n02/gpu0": "well",
        "n02/gpu1": "failed",
    }
    assert [(each.code, each.primary, each.fatal) for each in found.incidents] == [
        (45, False, False),
        (79, True, True),
    ]
    (unit,), (rate,) = found.units, found.rates
    assert (unit.node, unit.faults, unit.state) == ("n01", 1, "drained")
    assert unit.low < unit.mid < unit.high
    assert (rate.code, rate.count) == ("xid 79", 1)
    assert rate.low < rate.mid < rate.high


def test_a_node_with_a_fault_in_service_is_said_to_be_so(tmp_path: Path) -> None:
    found = summary(tmp_path, autonomy=Autonomy.ADVISE)

    assert {gpu.state for gpu in found.nodes[1].gpus} == {"faulty"}
    assert "reboot-node" in found.nodes[1].text


def test_what_is_drawn_is_said_in_words_too(tmp_path: Path) -> None:
    found = summary(tmp_path)

    assert 'aria-label="n01: drained, reboot-node; 1 faults in 2.0 days"' in fleet_map(found.nodes)
    assert 'role="img"' in timeline(found.incidents, found.t_s)
    assert "the GPU has fallen off the bus" in incident_table(found.incidents)
    assert "n01" in unit_table(found.units)
    assert "exact (Poisson)" in rate_table(found.rates, found.exposure_days)


def test_an_empty_fleet_is_explained() -> None:
    assert "No GPUs yet" in fleet_map(())
    assert "No node has had a fault" in unit_table(())
    assert "No code has come" in rate_table((), 0.0)
    assert (timeline((), T_S), incident_table(())) == ("", "")


def test_the_api_says_that_faults_are_not_looked_for_and_needs_a_token(make_bed: MakeBed) -> None:
    bed = make_bed(run_s=100)

    answer = bed.client.get("/api/v1/health")

    assert (answer.status_code, answer.json()["enabled"]) == (200, False)
    assert answer.json()["nodes"][0]["gpus"][0]["id"] == "n1/gpu0"
    assert bed.anonymous.get("/api/v1/health").status_code == 401
    assert bed.client.get("/api/v1/health?more=1").status_code == 422
