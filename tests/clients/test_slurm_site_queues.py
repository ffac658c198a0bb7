"""What Slurm's commands print becomes queues, whatever the version and the form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.clients.slurm.site_queues import SlurmSite, read_slurm_site
from steward.errors import StewardError
from steward.model.planning.catalog import Basis, Charging, Source

RECORDED = Path(__file__).parents[1] / "data"
SOURCE = Source(text="scontrol", as_of="2026-11-19")
MIB = 2**20


def recorded(*files: str) -> SlurmSite:
    texts = [(RECORDED / file).read_text(encoding="utf-8") for file in files]
    return read_slurm_site(texts, source=SOURCE, where="f")


def read(*answers: dict[str, Any]) -> SlurmSite:
    return read_slurm_site([json.dumps(each) for each in answers], source=SOURCE, where="f")


def test_recorded_partitions_and_nodes_become_queues_with_their_limits() -> None:
    found = recorded("slurm-22.05/scontrol-partitions.txt", "slurm-22.05/scontrol-nodes.txt")

    queues = {queue.name: queue for queue in found.queues}
    assert list(queues) == ["gpu", "pool", "debug", "whole", "scavenge"]
    gpu, pool, debug, whole = (queues[name] for name in ("gpu", "pool", "debug", "whole"))
    assert (gpu.cores_per_node, gpu.memory_bytes_per_node) == (16, 20000 * MIB)
    assert (gpu.gpus_per_node, gpu.gpu_model, gpu.nodes) == (8, "a100", 4)
    assert (gpu.max_s, gpu.max_nodes, gpu.interruptible, gpu.shared_nodes) == (
        None,
        None,
        False,
        True,
    )
    assert (pool.max_s, pool.interruptible) == (86400.0, True)
    assert (debug.max_s, debug.max_nodes, debug.nodes) == (1800.0, 1, 1)
    assert (whole.min_nodes, whole.max_nodes, whole.shared_nodes) == (2, 2, False)
    assert gpu.source == SOURCE


def test_billing_weights_become_units_without_a_price_and_the_rest_is_unknown() -> None:
    found = recorded("slurm-22.05/scontrol-partitions.txt", "slurm-22.05/scontrol-nodes.txt")

    queues = {queue.name: queue for queue in found.queues}
    assert queues["whole"].charging == Charging(
        basis=Basis.CORE_S, rate=1.0, gpu_rate=16.0, unit="billing-hour", usd_per_unit=None
    )
    assert queues["gpu"].charging == Charging(usd_per_unit=None)


def test_closed_partitions_and_those_without_nodes_are_left_out_by_name() -> None:
    found = recorded("slurm-22.05/scontrol-partitions.txt", "slurm-22.05/scontrol-nodes.txt")

    assert "partition closed is closed: left out" in found.notes
    assert "partition empty has no node that is known: left out" in found.notes


def test_records_of_several_lines_say_the_same() -> None:
    one = recorded("slurm-22.05/scontrol-partitions.txt", "slurm-22.05/scontrol-nodes.txt")

    several = recorded(
        "slurm-22.05/scontrol-partitions-multiline.txt", "slurm-22.05/scontrol-nodes.txt"
    )

    assert several == one


def test_partitions_alone_give_the_mean_of_their_nodes() -> None:
    found = recorded("slurm-22.05/scontrol-partitions.txt")

    gpu = found.queues[0]
    assert (gpu.cores_per_node, gpu.gpus_per_node, gpu.nodes) == (16, 8, 4)
    assert gpu.memory_bytes_per_node == 20000 * MIB
    assert "nodes of gpu are not in it: each is taken to be as their mean" in found.notes


def test_sinfo_of_22_05_has_nodes_and_no_limits() -> None:
    found = recorded("slurm-22.05/sinfo.json")

    assert [(each.name, each.nodes, each.max_s) for each in found.queues] == [
        ("gpu", 4, None),
        ("pool", 4, None),
    ]
    assert "limits of partitions are not in it: add `scontrol show partition`" in found.notes


def test_nodes_of_several_shapes_are_queues_of_one_partition() -> None:
    found = recorded("slurm-23.11/nodes.json")

    queues = {queue.name: queue for queue in found.queues}
    assert {name: each.nodes for name, each in queues.items()} == {
        "gpu:8xh100-64c-502g": 4,
        "gpu:64c-502g": 1,
    }
    assert {each.submit_as for each in queues.values()} == {"gpu"}


PARTITION = {  # as the schema v0.0.40 has it
    "name": "gpu",
    "nodes": {"configured": "g[1-2]", "total": 2},
    "cpus": {"total": 128},
    "maximums": {
        "time": {"set": True, "infinite": False, "number": 2880},
        "nodes": {"set": True, "infinite": False, "number": 2},
        "oversubscribe": {"jobs": 0, "flags": []},
        "partition_memory_per_node": {"set": True, "infinite": False, "number": 100_000},
    },
    "minimums": {"nodes": 1},
    "tres": {"billing_weights": "CPU=0.5,GRES/gpu=8", "configured": "cpu=128,gres/gpu:h100=8"},
    "partition": {"state": ["UP"]},
    "priority": {"tier": 1},
    "preempt_mode": ["REQUEUE"],
}
ROW = {  # of sinfo since 23.11
    "node": {"state": ["IDLE"]},
    "nodes": {"total": 2, "nodes": ["g1", "g2"]},
    "cpus": {"minimum": 64, "maximum": 64},
    "memory": {"minimum": 515_000, "maximum": 515_000},
    "gres": {"total": "gpu:h100:4(S:0-1)"},
    "partition": PARTITION,
}


def test_json_of_later_versions_has_limits_and_shapes() -> None:
    over = {**PARTITION, "name": "over", "priority": {"tier": 2}, "preempt_mode": ["OFF"]}

    found = read({"sinfo": [ROW]}, {"partitions": [over]})

    gpu = found.queues[0]
    assert (gpu.name, gpu.nodes, gpu.cores_per_node, gpu.gpus_per_node, gpu.gpu_model) == (
        "gpu",
        2,
        64,
        4,
        "h100",
    )
    assert (gpu.max_s, gpu.max_nodes, gpu.shared_nodes) == (172_800.0, 2, False)
    assert gpu.memory_bytes_per_node == 100_000 * MIB  # the limit of a job
    assert gpu.interruptible  # by jobs of `over` on the same nodes
    assert (gpu.charging.rate, gpu.charging.gpu_rate) == (0.5, 8.0)


def test_a_partition_in_json_without_nodes_gives_their_mean() -> None:
    (queue,) = read({"partitions": [PARTITION]}).queues

    assert (queue.cores_per_node, queue.gpus_per_node, queue.gpu_model) == (64, 4, "h100")


def test_partitions_whose_jobs_need_more_nodes_than_there_are_of_a_kind_are_named() -> None:
    big = {**PARTITION, "minimums": {"nodes": 5}}

    found = read({"sinfo": [{**ROW, "partition": big}]})

    assert found.queues == ()
    assert "gpu has 2 nodes of a kind, fewer than a job's least" in found.notes


def test_what_people_wrote_in_a_reason_is_no_field() -> None:
    text = (
        "NodeName=n1 CPUTot=4 RealMemory=1000 State=IDLE Partitions=a OS=Linux 6.1 x\n"
        "NodeName=n2 CPUTot=4 RealMemory=1000 State=DOWN Partitions=a "
        "Reason=was CPUTot=99 Partitions=b [root@2026]\n"
        "NodeName=n3 State=FUTURE CPUTot=1 Partitions=a\n"
    )

    found = read_slurm_site([text], source=SOURCE, where="f")

    assert [(each.name, each.nodes, each.cores_per_node) for each in found.queues] == [("a", 2, 4)]


@pytest.mark.parametrize(
    "text", ["", "slurm_load_partitions error: Unable to contact slurm controller", "{}", "[1]"]
)
def test_what_has_no_partition_and_no_node_is_refused(text: str) -> None:
    with pytest.raises(StewardError, match="no partition and no node") as caught:
        read_slurm_site([text], source=SOURCE, where="f")

    assert "scontrol show partition" in caught.value.hint


def test_cut_json_is_refused() -> None:
    with pytest.raises(StewardError, match="this is no JSON"):
        read_slurm_site(['{"nodes": ['], source=SOURCE, where="f")


scalars = st.none() | st.integers(-5, 10**6) | st.text(max_size=8) | st.booleans()
hostile = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*PARTITION, *ROW, "number", "x"]), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(name=st.sampled_from([*PARTITION]), inner=hostile, row=st.sampled_from([*ROW]))
def test_hostile_json_gives_queues_or_an_error(name: str, inner: object, row: str) -> None:
    partition = {**PARTITION, name: inner}

    for answer in ({"partitions": [partition]}, {"sinfo": [{**ROW, row: inner}]}):
        try:
            read(answer)
        except StewardError as fault:
            assert fault.problem


@given(st.text(max_size=200))
def test_hostile_lines_give_queues_or_an_error(text: str) -> None:
    try:
        read_slurm_site([f"PartitionName=p Nodes={text}\n{text}"], source=SOURCE, where="f")
    except StewardError as fault:
        assert fault.problem
