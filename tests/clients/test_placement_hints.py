from __future__ import annotations

import pytest

from steward.clients.kubernetes.placement_hints import (
    LEAF_LABEL,
    node_affinity,
    topology_affinity,
)
from steward.clients.slurm.placement_hints import sbatch_options, wait_text
from steward.errors import StewardError


def test_equal_nodes_are_asked_for_by_gpus_per_node_and_unequal_ones_by_their_sum() -> None:
    assert sbatch_options(["a", "b"], [8, 8], switches=1, wait_s=600) == (
        "--nodes=2",
        "--nodelist=a,b",
        "--gpus-per-node=8",
        "--switches=1@00:10:00",
    )
    assert sbatch_options(["a", "b"], [8, 4], switches=0)[-1] == "--gpus=12"


@pytest.mark.parametrize("nodes", [[], ["a b"], ["a;rm"], [""], ["a", "--x,y"]])
def test_what_is_no_name_of_a_node_never_reaches_a_command_line(nodes: list[str]) -> None:
    with pytest.raises(StewardError, match="not names of nodes"):
        sbatch_options(nodes, [8] * len(nodes), switches=1)


def test_times_are_written_as_slurm_reads_them() -> None:
    assert wait_text(59.9) == "00:00:59"


def test_kubernetes_prefers_nodes_or_requires_them() -> None:
    soft, hard = node_affinity(["a"]), node_affinity(["a"], required=True)

    preferred = soft["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]
    assert preferred["preference"]["matchExpressions"][0]["values"] == ["a"]
    assert "requiredDuringSchedulingIgnoredDuringExecution" in hard["nodeAffinity"]
    with pytest.raises(StewardError, match="no node"):
        node_affinity([])


def test_pods_of_a_job_attract_one_another_below_a_leaf() -> None:
    found = topology_affinity({"job": "a"})

    term = found["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]
    assert term["podAffinityTerm"]["topologyKey"] == LEAF_LABEL
