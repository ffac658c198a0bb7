"""A cluster from a file: what it may say, and how its mistakes are told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steward.errors import StewardError
from steward.sim.lab.cluster_file import read_cluster

TWO_KINDS = """
[[nodes]]
count = 5
gpus = 8
type = "A100"
price_per_gpu_h = 3.5
cpus = 64

[[nodes]]
gpus = 4
type = "T4"
cluster = "edge"
spot = true
up = false

[[changes]]
t_s = 200
node = 0
up = false

[[changes]]
t_s = 100
node = 5
up = true
why = "bought"
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "cluster.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_nodes_of_several_kinds_follow_each_other(tmp_path: Path) -> None:
    found = read_cluster(written(tmp_path, TWO_KINDS))

    assert found.gpus.tolist() == [8, 8, 8, 8, 8, 4]
    assert found.types == ("A100", "T4")
    assert found.clusters == ("main", "edge")
    assert found.rack.tolist() == [0, 0, 0, 0, 1, 2]
    assert found.total_gpus == 40
    assert np.isnan(found.cpus[5])
    assert found.price_per_gpu_h[0] == 3.5
    assert found.spot.tolist() == [False] * 5 + [True]
    assert [(each.t_s, each.node, each.up, each.why) for each in found.changes] == [
        (100, 5, True, "bought"),
        (200, 0, False, ""),
    ]


TERMS = """
[[nodes]]
gpus = 8

[[nodes]]
count = 2
gpus = 4
on_demand = true
boot_s = 90

[[changes]]
t_s = 50
node = 1
up = false
warning_s = 120
"""


def test_terms_of_rent_and_warnings_are_read(tmp_path: Path) -> None:
    found = read_cluster(written(tmp_path, TERMS))

    assert found.on_demand.tolist() == [False, True, True]
    assert found.boot_s.tolist() == [0, 90, 90]
    assert [each.warning_s for each in found.changes] == [120]


def test_without_a_word_machines_are_ones_own_and_go_without_warning(tmp_path: Path) -> None:
    found = read_cluster(written(tmp_path, TWO_KINDS))

    assert not found.on_demand.any()
    assert not found.boot_s.any()
    assert [each.warning_s for each in found.changes] == [0, 0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "nodes: field required"),
        ("[[nodes]]\ngpus=8\non_demand=3\nboot_s=-1", "nodes.0.on_demand.*nodes.0.boot_s"),
        ("[[nodes]]\ngpus=8\n[[changes]]\nt_s=1\nnode=0\nup=true\nwarning_s=-1", "warning_s"),
        ("[[nodes]]\ncount = 0\ngpu = 1", r"nodes.0.count: .*nodes.0.gpus: .*nodes.0.gpu: extra"),
        ("nodes = 3", "nodes: input should be a valid list"),
        ("[[nodes]\n", "is not TOML"),
        ("[[nodes]]\ngpus = inf", "nodes.0.gpus"),
        (
            "[[nodes]]\ngpus=8\n[[changes]]\nt_s=1\nnode=7\nup=true",
            "changes name node 7, but there",
        ),
    ],
)
def test_all_mistakes_are_told_at_once(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(StewardError, match=says) as caught:
        read_cluster(written(tmp_path, text))

    assert caught.value.where.endswith("cluster.toml")
    assert caught.value.hint
