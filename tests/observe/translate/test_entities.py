"""Entities become labels and labels entities, and nothing is lost on the way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.observe.translate import entity_of, labels_of

PARTS = ["gpu3", "gpu0/mig2", "cpu17", "disk:nvme0n1", "net:eth0", "ib:mlx5_0:1", "numa1"]
PATHS = ["fs:/", "fs:/var/lib", "mount:/data", "mount:scratch", "fs:/a:/b", "fs:/ann%40lab"]
nodes = st.from_regex(r"[a-z][a-z0-9.-]{0,12}", fullmatch=True)


@given(nodes, st.sampled_from(["", *PARTS, *PATHS]), st.sampled_from(["", "812", "pod:1f-2"]))
def test_every_entity_comes_back_from_its_labels(node: str, part: str, job: str) -> None:
    entity = "/".join(filter(None, (node, part))) + (f"@{job}" if job else "")

    assert entity_of(labels_of(entity), of_job=bool(job)) == entity


def test_a_job_is_not_called_job_since_prometheus_would_rename_it() -> None:
    assert labels_of("job:812") == {"job_id": "812"}
    assert entity_of({"job_id": "812"}, of_job=True) == "job:812"


@pytest.mark.parametrize("labels", [{}, {"gpu": "3"}])
def test_labels_without_a_node_name_nothing(labels: dict[str, str]) -> None:
    assert entity_of(labels, of_job=True) == ""


def test_a_file_system_has_its_path_as_a_label() -> None:
    assert labels_of("n01/fs:/var/lib") == {"node": "n01", "fs": "/var/lib"}
    assert labels_of("n01/mount:/data") == {"node": "n01", "mount": "/data"}
    assert labels_of("n01/fs:/home/ann%40lab%25") == {"node": "n01", "fs": "/home/ann@lab%"}
