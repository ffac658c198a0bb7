"""The compiled simulator against the slow one, and what each rule brings about."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.errors import StewardError
from steward.model.fabric import shapes
from steward.model.fabric.builder import TopologyBuilder
from steward.model.fabric.routes import Routes
from steward.sim.fabric.build import engine_of
from steward.sim.fabric.engine import (
    EngineRef,
    reshare,
    run,
    set_capacity,
    set_limit,
    settle,
    wait_s,
)
from steward.sim.fabric.reference import Reference
from steward.sim.fabric.traffic import LATENCY, Bundle, Job, Phase, Traffic

FABRIC = shapes.leaf_spine(leaves=3, nodes_per_leaf=3, spines=2, oversubscription=2.0)
ROUTES = Routes.of(FABRIC)
N = 2**62


def _flow(rng: np.random.Generator, *, variants: int = 1) -> Bundle:
    a, b = rng.choice(9, 2, replace=False)
    paths = ROUTES.paths(
        FABRIC.row[f"n{a}"], FABRIC.row[f"n{b}"], hashes=rng.integers(0, 99, variants)
    )
    limit = float(rng.choice([np.inf, 3e9 * rng.random() + 1e8]))
    return Bundle(
        volume=float(rng.uniform(1e6, 5e9)),
        variants=tuple(paths.of(at) for at in range(variants)),
        limit=limit,
    )


def _ring(rng: np.random.Generator) -> Bundle:
    nodes = [FABRIC.row[f"n{at}"] for at in rng.permutation(9)[: rng.integers(2, 6)]]
    paths = ROUTES.paths(nodes, nodes[1:] + nodes[:1], hashes=rng.integers(0, 99, len(nodes)))
    return Bundle(volume=float(rng.uniform(1e8, 3e9)), variants=(paths.links,), flows=len(nodes))


def _job(rng: np.random.Generator, at: int) -> Job:
    phases = []
    for _ in range(rng.integers(1, 4)):
        if rng.random() < 0.3:
            paths = tuple(_flow(rng).variants[0] for _ in range(2))
            phases.append(Phase(kind=LATENCY, messages=float(rng.integers(1, 9000)), paths=paths))
        else:
            phases.append(Phase(bundles=tuple(_ring(rng) for _ in range(rng.integers(0, 3)))))
    return Job(
        name=f"j{at}",
        compute_s=float(rng.uniform(0.01, 0.5)),
        overlap=float(rng.choice([0.0, rng.random()])),
        phases=tuple(phases),
        begin_s=float(rng.uniform(0, 1)),
        steps=int(rng.integers(1, 5)),
    )


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31), variants=st.integers(1, 3))
def test_it_agrees_with_the_slow_reference_on_every_end(seed: int, variants: int) -> None:
    rng = np.random.default_rng(seed)
    traffic = Traffic(
        jobs=[_job(rng, at) for at in range(rng.integers(0, 4))],
        flows=[_flow(rng, variants=variants) for _ in range(rng.integers(0, 15))],
        begin_s=np.zeros(0),
    )
    begin_s = np.sort(rng.uniform(0, 3, len(traffic.flows)))
    traffic = Traffic(jobs=traffic.jobs, flows=traffic.flows, begin_s=begin_s)
    slow = Reference(FABRIC, traffic)
    slow.run()
    engine = engine_of(FABRIC, traffic)
    record = EngineRef(*engine)
    run(record, np.inf, N)
    settle(record)

    assert engine.end_job_s == pytest.approx([each.end_s for each in slow.jobs], rel=1e-9)
    assert engine.step_count.tolist() == [len(each.steps) for each in slow.jobs]
    ends = engine.end_s[len(engine.end_s) - len(begin_s) :]
    assert ends == pytest.approx([slow.end_s[at] for at in range(len(begin_s))], rel=1e-9)
    assert engine.sent == pytest.approx(slow.bytes, rel=1e-6, abs=1.0)


def _engine(traffic: Traffic) -> tuple[Any, Any]:
    engine = engine_of(FABRIC, traffic)
    return engine, EngineRef(*engine)


def _path(a: str, b: str) -> Any:
    return ROUTES.paths(FABRIC.row[a], FABRIC.row[b], hashes=0).of(0)


def test_two_flows_over_one_link_have_half_of_it_each() -> None:
    volume = 12.5e9  # a second alone
    flows = [Bundle(volume=volume, variants=(_path("n0", "n1"),)) for _ in range(2)]
    engine, record = _engine(Traffic(flows=flows, begin_s=np.zeros(2)))
    assert run(record, np.inf, N) == 4

    assert engine.end_s == pytest.approx([2.0, 2.0])


def test_computing_hides_as_much_communication_as_its_overlap_says() -> None:
    bundle = Bundle(volume=12.5e9, variants=(_path("n0", "n1"),))
    for overlap, step_s in ((0.0, 3.0), (0.25, 2.5), (0.5, 2.0), (0.9, 2.0)):
        job = Job(
            name="j", compute_s=2.0, overlap=overlap, phases=(Phase(bundles=(bundle,)),), steps=3
        )
        engine, record = _engine(Traffic(jobs=[job]))
        run(record, np.inf, N)
        assert engine.end_job_s[0] == pytest.approx(3 * step_s)


def test_messages_wait_in_the_queues_of_loaded_links() -> None:
    path = _path("n0", "n1")
    chat = Job(
        name="chat",
        compute_s=0.1,
        phases=(Phase(kind=LATENCY, messages=1e4, paths=(path,)),),
        steps=1,
        begin_s=0.5,
    )
    took = {}
    for share in (0.0, 0.5, 1.0):
        limit = share * 12.5e9 if share else 1.0
        flows = [
            Bundle(volume=1e12, variants=(path,), limit=limit),
            Bundle(volume=1e12, variants=(path,), limit=1e6),
        ]
        engine, record = _engine(Traffic(jobs=[chat], flows=flows, begin_s=np.zeros(2)))
        run(record, 30.0, N)
        took[share] = engine.last_step_s[0]

    assert took[0.0] == pytest.approx(0.1 + 1e4 * 2 * 5e-7, rel=1e-4)
    assert took[0.0] < took[0.5] < took[1.0]
    assert took[1.0] == pytest.approx(0.1 + 1e4 * (2 * 5e-7 + 2 * 32e-6))


def test_a_saturated_link_is_seen_to_stall_and_to_carry_its_capacity() -> None:
    flow = Bundle(volume=1e12, variants=(_path("n0", "n1"),))
    engine, record = _engine(Traffic(flows=[flow, flow], begin_s=np.array([0.5, 1.0])))
    run(record, 3.0, N)
    settle(record)

    link = flow.variants[0][0]
    assert engine.sent[link] == pytest.approx(2.5 * 12.5e9)
    assert engine.stalled_s[link] == pytest.approx(2.0)
    assert wait_s(record, int(link)) == pytest.approx(32e-6)
    assert engine.now[0] == 3.0


def test_a_flow_inside_a_node_goes_at_its_own_limit() -> None:
    flow = Bundle(volume=6.0, variants=(np.zeros(0, np.int64),), limit=3.0)
    engine, record = _engine(Traffic(flows=[flow], begin_s=np.zeros(1)))
    run(record, np.inf, N)

    assert engine.end_s.tolist() == [2.0]


def test_a_link_that_gets_slower_slows_what_crosses_it_from_then_on() -> None:
    path = _path("n0", "n1")
    flow = Bundle(volume=12.5e9, variants=(path,))
    engine, record = _engine(Traffic(flows=[flow], begin_s=np.zeros(1)))
    run(record, 0.5, N)
    set_capacity(record, int(path[1]), 12.5e8)
    run(record, np.inf, N)

    assert engine.end_s.tolist() == pytest.approx([5.5])


def test_a_limit_holds_from_when_it_is_set_and_others_take_what_it_leaves() -> None:
    path = _path("n0", "n1")
    flows = [Bundle(volume=12.5e9, variants=(path,)) for _ in range(2)]
    engine, record = _engine(Traffic(flows=flows, begin_s=np.zeros(2)))
    run(record, 1.0, N)
    set_limit(record, 0, 1.25e9)
    reshare(record)
    run(record, np.inf, N)

    assert engine.end_s == pytest.approx([1 + 5.0, 1 + 0.5 / 0.9])


def test_it_stops_after_as_many_events_as_asked_and_goes_on_later() -> None:
    rng = np.random.default_rng(3)
    traffic = Traffic(flows=[_flow(rng) for _ in range(20)], begin_s=np.sort(rng.uniform(0, 2, 20)))
    whole, record = _engine(traffic)
    run(record, np.inf, N)
    parts, record = _engine(traffic)
    while run(record, np.inf, 7):
        pass

    assert parts.end_s == pytest.approx(whole.end_s, rel=1e-12)


def test_a_link_without_a_known_capacity_is_named() -> None:
    builder = TopologyBuilder("what.conf")
    builder.cable("a", "b")

    with pytest.raises(StewardError, match="capacity of a>b is not known"):
        engine_of(builder.build(), Traffic())
