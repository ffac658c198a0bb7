"""Collectives, background traffic, and a fabric that can be looked at and acted on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from steward.errors import PermanentError, StewardError
from steward.model.actions import Drain, Release, Throttle
from steward.model.decision import Decision
from steward.model.fabric import shapes
from steward.model.fabric.routes import Routes
from steward.model.identity import DecisionId, JobId, NodeId, TenantId
from steward.sim.fabric.background import SMALL_MIX, background, size_table
from steward.sim.fabric.collectives import COLLECTIVES, Wiring, messages_between, phases_of
from steward.sim.fabric.programs import drawn_jobs
from steward.sim.fabric.trial import Trial
from steward.sim.fabric.world import FabricWorld, SimulatedJob, Surroundings

FABRIC = shapes.leaf_spine(leaves=3, nodes_per_leaf=4, spines=2, oversubscription=2.0)
ROUTES = Routes.of(FABRIC)


def _wiring(**more: Any) -> Wiring:
    return Wiring(routes=ROUTES, rng=np.random.default_rng(0), **more)


def _nodes(count: int) -> np.ndarray:
    return FABRIC.rows([f"n{at}" for at in range(count)])


def _sent(kind: str, count: int, volume: float, **more: Any) -> float:
    """Return the bytes that all nodes send in a collective."""
    phases = phases_of(kind, _wiring(), _nodes(count), volume, **more)
    return sum(each.volume * each.flows for phase in phases for each in phase.bundles)


@pytest.mark.parametrize("count", [2, 5, 12])
def test_collectives_send_what_their_algorithms_send(count: int) -> None:
    assert _sent("ring", count, 1.0) == pytest.approx(2 * (count - 1))
    assert _sent("tree", count, 1.0) == pytest.approx(2 * (count - 1))
    assert _sent("all-to-all", count, 1.0) == pytest.approx(count - 1)
    assert _sent("pipeline", count, 1.0) == pytest.approx(count - 1)


def test_a_hierarchical_collective_crosses_the_spine_with_less() -> None:
    nodes = _nodes(12)
    groups = [nodes[at : at + 4] for at in (0, 4, 8)]
    inside, across, again = phases_of("hierarchical", _wiring(), nodes, 8.0, groups=groups)

    assert len(inside.bundles) == len(again.bundles) == 3
    assert len(across.bundles) == 4
    assert len(phases_of("hierarchical", _wiring(), nodes, 8.0, groups=[nodes])) == 1


def test_one_node_alone_sends_nothing_and_an_unknown_collective_is_named() -> None:
    for kind in COLLECTIVES:
        assert phases_of(kind, _wiring(), _nodes(1), 1e9) == ()
    assert messages_between(_wiring(), _nodes(1), 5.0) == ()
    with pytest.raises(StewardError, match="no collective 'rings'"):
        phases_of("rings", _wiring(), _nodes(3), 1.0)


def test_nodes_without_a_path_are_named() -> None:
    cut = FABRIC.without(range(0, len(FABRIC.links), 2))
    wiring = replace(_wiring(), routes=Routes.of(cut))
    with pytest.raises(StewardError, match="no path from n0 to n1"):
        phases_of("ring", wiring, _nodes(3), 1.0)


def test_detours_go_over_a_third_router_and_end_where_they_should() -> None:
    fabric = shapes.dragonfly()
    wiring = Wiring(routes=Routes.of(fabric), rng=np.random.default_rng(1), choices=2, detours=True)
    ends = fabric.rows(["n0"]), fabric.rows(["n39"])
    longer = 0
    for _ in range(20):
        straight, detour = wiring.bundle(*ends, 1.0, 0).variants
        assert fabric.links.source[detour[0]] == ends[0][0]
        assert fabric.links.target[detour[-1]] == ends[1][0]
        assert (fabric.links.target[detour[:-1]] == fabric.links.source[detour[1:]]).all()
        longer += len(detour) > len(straight)
    assert longer > 5


def test_background_traffic_loads_links_as_asked() -> None:
    rng = np.random.default_rng(0)
    flows, begin_s = background(ROUTES, SMALL_MIX, rng, load=0.001, seconds=5.0)
    total = sum(each.volume for each in flows)

    assert total == pytest.approx(0.001 * 12 * 12.5e9 * 5.0, rel=0.1)
    assert (np.diff(begin_s) >= 0).all()
    assert background(ROUTES, SMALL_MIX, rng, load=0.0, seconds=1.0)[0] == []


@pytest.mark.parametrize(
    ("text", "says"),
    [("0 0\nx 5", "line 2"), ("0 0\n5 50", "rise to 100"), ("5 50\n1 100", "rise"), ("", "rise")],
)
def test_a_table_of_sizes_that_is_wrong_is_named(text: str, says: str) -> None:
    with pytest.raises(StewardError, match=says):
        size_table(text)


def _jobs() -> tuple[SimulatedJob, ...]:
    talker = SimulatedJob(
        name="talker",
        application="pretrain",
        nodes=("n0", "n4", "n8", "n1"),
        compute_s=0.1,
        volume=6e8,
        overlap=0.9,
    )
    chatter = SimulatedJob(
        name="chatter",
        application="lattice",
        nodes=("n2", "n5", "n9", "n3"),
        compute_s=0.05,
        messages=600,
    )
    return talker, chatter


def _world(**more: Any) -> FabricWorld:
    return FabricWorld(FABRIC, _jobs(), Surroundings(buffer_bytes=1.5e6, noise=0.0, **more))


def _decision(action: Any, name: str = "d") -> Decision:
    return Decision(
        id=DecisionId(name),
        t_s=0.0,
        policy="p",
        action=action,
        because="x",
        check_after_s=1.0,
        tenant=TenantId("all"),
    )


def test_a_view_says_who_sends_how_much_over_which_link() -> None:
    world = _world()
    world.advance(5.0)
    view = world.view()
    sent = view.users_of(range(len(FABRIC.links)))

    assert view.row == {"talker": 0, "chatter": 1}
    assert sent[0] > 0 == sent[1]
    assert view.links.bytes_per_s.sum() == pytest.approx(sent.sum(), rel=0.1)
    assert (view.applications.slowdown == 1.0).all()
    assert view.applications.collective_share.tolist() == pytest.approx([1.0, 0.0], abs=0.01)


def test_a_cap_is_kept_to_and_comes_off_again() -> None:
    world = _world()
    cap = Throttle(job=JobId("talker"), bytes_per_s=1e9)
    world.advance(2.0)
    world.carry_out(_decision(cap), 2.0)
    assert world.progress(_decision(cap), 2.0).result == "done"
    world.view()
    world.advance(4.0)
    view = world.view()
    nodes = view.links.bytes_per_s[FABRIC.link_row["n0>leaf0"]]

    assert view.may_be_done(cap)
    assert nodes == pytest.approx(1e9, rel=0.05)
    assert view.applications.capped_since_s[0] == 2.0
    world.carry_out(_decision(Release(job=JobId("talker"), before=1e9), "d2"), 6.0)
    world.view()
    world.advance(2.0)
    again = world.view()
    assert again.applications.cap_bytes_per_s[0] == np.inf
    assert again.links.bytes_per_s[FABRIC.link_row["n0>leaf0"]] > 2e9


def test_what_a_fabric_cannot_do_is_refused() -> None:
    world = _world()
    with pytest.raises(PermanentError, match="cannot drain"):
        world.carry_out(_decision(Drain(node=NodeId("n1"), gpus=())), 0.0)
    with pytest.raises(PermanentError, match="ghost is not on the fabric"):
        world.carry_out(_decision(Release(job=JobId("ghost"), before=1.0)), 0.0)
    assert world.available().status == "ok"
    assert Throttle in world.actions()


def test_a_broken_cable_is_gone_around_and_steps_go_on_counting() -> None:
    world = _world()
    world.advance(2.0)
    before = world.steps.copy()
    world.cap(0, 2e9)
    cable = FABRIC.link_row["leaf0>spine0"]
    world.break_cable(cable)
    world.advance(2.0)
    view = world.view()

    assert (world.steps > before).all()
    assert view.links.bytes_per_s[cable] == 0
    assert view.applications.cap_bytes_per_s[0] == 2e9
    assert np.isfinite(world.mean_step_s).all()


def test_the_same_seed_is_the_same_run() -> None:
    runs = []
    for _ in range(2):
        world = _world(table=SMALL_MIX, background_load=1e-4, seconds=3.0, seed=5)
        world.advance(3.0)
        runs.append(world.mean_step_s.tolist())

    assert runs[0] == runs[1]


def test_a_trial_measures_what_its_decisions_brought() -> None:
    jobs = drawn_jobs(FABRIC, 4, np.random.default_rng(1))
    trial = Trial.of(FabricWorld(FABRIC, jobs, Surroundings(buffer_bytes=1.5e6)), "uniform")
    for _ in range(24):
        trial.turn(0.5)

    assert trial.done
    assert any(each.useful_after is not None for each in trial.done)
    assert trial.affected(trial.done[0].decision.action.affects or "")
    assert all(0 <= share <= 1 for _, share in trial.useful)
    with pytest.raises(StewardError, match="fabric_policy"):
        Trial.of(trial.world, "nobody")


def test_more_jobs_than_nodes_do_not_fit() -> None:
    with pytest.raises(StewardError, match="do not fit"):
        drawn_jobs(FABRIC, 13, np.random.default_rng(1))
