"""What jobs are charged, by the published rules of real sites."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.decide.planning.charges import Occupied, charge, occupied
from steward.model.planning.catalog import Basis, Charging, Queue

GB = 10**9
H = 3600.0
# OSC: cores, or the cores that the memory stands for, and GPUs; several nodes are paid whole.
OSC = Charging(
    basis=Basis.CORE_S,
    rate=0.003,
    gpu_rate=0.09,
    memory_per_core_bytes=4_200_000_000,
    whole_nodes_if_several=True,
)
TACC = Charging(basis=Basis.NODE_S, rate=4.0, unit="SU", usd_per_unit=None, minimum_s=900.0)
DELTA_GPU = Charging(
    basis=Basis.GPU_S,
    rate=1.0,
    unit="SU",
    usd_per_unit=None,
    cores_per_gpu=16,
    memory_per_gpu_bytes=62_500_000_000,
    minimum_units=1.0,
)


def queue(charging: Charging, **changes: Any) -> Queue:
    values: dict[str, Any] = {
        "name": "q",
        "cores_per_node": 40,
        "memory_bytes_per_node": 160 * GB,
        "gpus_per_node": 2,
        "charging": charging,
    }
    return Queue(**(values | changes))


def test_a_gpu_job_at_osc_pays_its_cores_and_its_gpu() -> None:
    # the example of HARP's author: 28 cores and a GPU for 2.4 hours
    cost = charge(queue(OSC), nodes=1, cores=28, gpus=1, run_s=2.4 * H)

    assert cost.usd == pytest.approx(0.4176)
    assert cost.unit == "USD"


def test_a_cpu_job_at_osc_pays_its_cores() -> None:
    cost = charge(queue(OSC, gpus_per_node=0), nodes=1, cores=28, gpus=0, run_s=9.2 * H)

    assert cost.usd == pytest.approx(0.7728)


def test_memory_drags_cores() -> None:
    held = occupied(queue(OSC), nodes=1, cores=1, gpus=0, memory_bytes=30 * GB)

    assert held == Occupied(nodes=1, cores=8, gpus=0)


def test_memory_drags_no_more_cores_than_a_node_has() -> None:
    held = occupied(queue(OSC, cores_per_node=28), nodes=1, cores=1, gpus=0, memory_bytes=160 * GB)

    assert held.cores == 28


def test_jobs_of_several_nodes_pay_whole_nodes_at_osc() -> None:
    held = occupied(queue(OSC), nodes=2, cores=4, gpus=2)

    assert held == Occupied(nodes=2, cores=80, gpus=4)


def test_tacc_charges_whole_nodes_and_a_quarter_of_an_hour_at_least() -> None:
    h100 = queue(TACC, shared_nodes=False, gpus_per_node=4)

    hours = charge(h100, nodes=2, cores=1, gpus=1, run_s=10 * H)
    short = charge(h100, nodes=2, cores=1, gpus=1, run_s=60.0)

    assert (hours.units, hours.unit, hours.usd) == (80.0, "SU", None)
    assert short.units == 2.0
    assert occupied(h100, nodes=2, cores=1, gpus=1) == Occupied(nodes=2, cores=80, gpus=8)


@pytest.mark.parametrize(
    ("gpus", "cores", "memory", "units"),
    [
        (4, 64, 250 * GB, 4.0),  # "a node-exclusive job on a 4-way GPU node for one hour: 4 SUs"
        (1, 16, 62 * GB, 1.0),
        (1, 17, 0, 2.0),  # cores of a second GPU
        (1, 1, 200 * GB, 4.0),  # memory of four
        (1, 1, 900 * GB, 4.0),  # there are not more
    ],
)
def test_delta_charges_gpus_or_what_blocks_them(
    gpus: int, cores: int, memory: int, units: float
) -> None:
    a100 = queue(DELTA_GPU, gpus_per_node=4, cores_per_node=64)

    assert (
        charge(a100, nodes=1, cores=cores, gpus=gpus, memory_bytes=memory, run_s=H).units == units
    )


def test_delta_charges_one_unit_at_least() -> None:
    assert charge(queue(DELTA_GPU), nodes=1, cores=1, gpus=1, run_s=60.0).units == 1.0


def test_delta_counts_cores_or_memory_whichever_is_larger() -> None:
    rule = Charging(
        basis=Basis.CORE_S, rate=1.0, unit="SU", usd_per_unit=None, memory_per_core_bytes=2 * GB
    )
    cpu = queue(rule, cores_per_node=128, memory_bytes_per_node=256 * GB, gpus_per_node=0)

    assert charge(cpu, nodes=1, cores=128, gpus=0, run_s=H).units == 128.0
    assert charge(cpu, nodes=1, cores=4, gpus=0, memory_bytes=100 * GB, run_s=H).units == 50.0


def test_what_is_free_costs_nothing_and_what_is_unknown_stays_unknown() -> None:
    free = queue(Charging())
    unknown = queue(Charging(usd_per_unit=None))

    assert charge(free, nodes=1, cores=1, gpus=1, run_s=H).usd == 0.0
    assert charge(unknown, nodes=1, cores=1, gpus=1, run_s=H).usd is None


rules = st.builds(
    Charging,
    basis=st.sampled_from(Basis),
    rate=st.floats(0, 100),
    gpu_rate=st.floats(0, 100),
    memory_per_core_bytes=st.sampled_from([0, 2 * GB, 4_200_000_000]),
    memory_per_gpu_bytes=st.sampled_from([0, 62_500_000_000]),
    cores_per_gpu=st.sampled_from([0, 16]),
    whole_nodes_if_several=st.booleans(),
    minimum_s=st.sampled_from([0.0, 900.0]),
    minimum_units=st.sampled_from([0.0, 1.0]),
)
queues = st.builds(
    Queue,
    name=st.just("q"),
    cores_per_node=st.integers(0, 128),
    memory_bytes_per_node=st.sampled_from([0, 256 * GB]),
    gpus_per_node=st.integers(0, 8),
    shared_nodes=st.booleans(),
    charging=rules,
)
amounts = {
    "nodes": st.integers(1, 8),
    "cores": st.integers(1, 200),
    "gpus": st.integers(0, 64),
    "memory_bytes": st.integers(0, 10**12),
    "run_s": st.floats(0, 1e7),
}
jobs = st.fixed_dictionaries(amounts)


@given(place=queues, job=jobs, more=jobs, name=st.sampled_from(["run_s", "gpus", "cores"]))
def test_asking_for_more_never_costs_less(
    place: Queue, job: dict[str, Any], more: dict[str, Any], name: str
) -> None:
    less, greater = sorted([job[name], more[name]])

    low, high = charge(place, **(job | {name: less})), charge(place, **(job | {name: greater}))

    assert low.units <= high.units


@given(place=queues, job=jobs)
def test_no_less_is_charged_than_was_asked_for(place: Queue, job: dict[str, Any]) -> None:
    del job["run_s"]

    held = occupied(place, **job)

    assert held.cores >= job["cores"] * job["nodes"]
    assert held.gpus >= job["gpus"]
