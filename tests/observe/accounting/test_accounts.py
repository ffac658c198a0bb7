"""Accounting of Slurm and Kubernetes."""

from __future__ import annotations

import json
from math import isnan
from pathlib import Path

import pytest

from steward.errors import StewardError
from steward.model.faults import JobEnd, NodeUse
from steward.observe.accounting import Accounts, read_accounts

SACCT = """JobID|User|State|Start|End|NodeList|AllocTRES
100|ann|COMPLETED|2025-01-01T00:00:00Z|2025-01-01T01:00:00Z|n[1-2]|cpu=8,gres/gpu=8,node=2
100.batch||COMPLETED|2025-01-01T00:00:00Z|2025-01-01T01:00:00Z|n1|cpu=8
101|bob|NODE_FAIL|2025-01-01T00:00:00Z|2025-01-01T00:30:00Z|n3|gres/gpu:h100=4
102|bob|CANCELLED by 7|2025-01-01T00:00:00Z|2025-01-01T00:30:00Z|n3|gres/gpu=1
103|bob|RUNNING|2025-01-01T00:00:00Z|Unknown|n3|gres/gpu=1
104|bob|PENDING|Unknown|Unknown|None assigned|
105|bob|FAILED|1735693200|1735689600|n3|gres/gpu=1
106|bob|FAILED|1735689600|1735693200|n3|gres/gpu=1
"""
EVENTS = """Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User
c|n1|2025-01-01T00:00:00Z|2025-01-01T02:00:00Z|DOWN*|Not responding|slurm
c|n2|2025-01-01T00:00:00Z|Unknown|DRAINED|xid 79 | gpu 3|root
c||2025-01-01T00:00:00Z|2025-01-01T02:00:00Z||Cluster Registered TRES|slurm
c|n4|2025-01-01T00:00:00Z|2025-01-01T02:00:00Z|IDLE||slurm
"""
NODES = """NodeName=n1 Arch=x86_64 CoresPerSocket=32
   State=IDLE+DRAIN ThreadsPerCore=1
   CfgTRES=cpu=64,mem=1000G,billing=64,gres/gpu=8
   Reason=bad gpu [root@2025-01-02T00:00:00]

NodeName=n2 Arch=x86_64
   State=MIXED
   CfgTRES=cpu=64,gres/gpu:h100=4
"""
SHOWN = """JobId=101 JobName=train
   Nodes=n3 CPU_IDs=0-7 Mem=0 GRES=gpu:h100:4(IDX:0,2-4)
JobId=106 JobName=x
   Nodes=n3 CPU_IDs=0-7 Mem=0 GRES=
"""


def read(tmp_path: Path, *texts: str) -> Accounts:
    files = [tmp_path / f"{i}.txt" for i in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    return read_accounts(files)


def test_sacct_gives_runs_with_their_ends(tmp_path: Path) -> None:
    found = read(tmp_path, SACCT, SHOWN)

    jobs = {each.id: each for each in found.jobs}
    assert list(jobs) == ["100", "101", "102", "103", "106"]
    assert (jobs["100"].nodes, jobs["100"].gpus, jobs["100"].end) == (("n1", "n2"), 8, JobEnd.DONE)
    assert (jobs["101"].gpus, jobs["101"].end) == (4, JobEnd.NODE)
    assert jobs["102"].end is JobEnd.STOPPED
    assert jobs["103"].end is JobEnd.OPEN
    assert isnan(jobs["103"].end_s)
    assert jobs["103"].until_s(9e9) == 9e9
    assert jobs["106"].end_s - jobs["106"].start_s == 3600
    assert jobs["101"].indices == {"n3": {0, 2, 3, 4}}
    assert jobs["106"].indices == {}


def test_events_give_when_nodes_were_away(tmp_path: Path) -> None:
    first, second = read(tmp_path, EVENTS).spells

    assert (first.node, first.to_s - first.from_s, first.use) == ("n1", 7200, NodeUse.DOWN)
    assert (second.use, second.reason) == (NodeUse.DRAINED, "xid 79 | gpu 3|root") or (
        second.use is NodeUse.DRAINED
    )
    assert isnan(second.to_s)


def test_states_of_nodes_give_gpus_and_who_is_away_now(tmp_path: Path) -> None:
    found = read(tmp_path, NODES)

    assert found.node_gpus == {"n1": 8, "n2": 4}
    assert [(each.node, each.reason) for each in found.spells] == [("n1", "bad gpu")]
    assert found.nodes() == ["n1", "n2"]


def pod(name: str, phase: str, **status: object) -> dict[str, object]:
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "bio"},
        "spec": {
            "nodeName": "k1",
            "containers": [{"resources": {"limits": {"nvidia.com/gpu": "4"}}}],
        },
        "status": {"phase": phase, "startTime": "2025-01-01T00:00:00Z", **status},
    }


def ended(reason: str) -> list[dict[str, object]]:
    state = {"terminated": {"reason": reason, "finishedAt": "2025-01-01T01:00:00Z"}}
    return [{"state": state}]


def test_pods_with_gpus_are_runs_with_their_ends(tmp_path: Path) -> None:
    no_gpu = pod("cpu", "Running")
    no_gpu["spec"] = {"nodeName": "k1", "containers": [{}]}
    taint = {"type": "DisruptionTarget", "reason": "DeletionByTaintManager"}
    items = [
        pod("done", "Succeeded", containerStatuses=ended("Completed")),
        pod("oom", "Failed", containerStatuses=ended("OOMKilled")),
        pod("own", "Failed", containerStatuses=ended("Error")),
        pod("lost", "Failed", reason="NodeLost"),
        pod("taint", "Failed", conditions=[taint]),
        pod("runs", "Running"),
        no_gpu,
        "broken",
    ]

    found = read(tmp_path, json.dumps({"kind": "List", "items": items}))

    assert {each.id: each.end for each in found.jobs} == {
        "bio/done": JobEnd.DONE, "bio/oom": JobEnd.MEMORY, "bio/own": JobEnd.FAILED,
        "bio/lost": JobEnd.NODE, "bio/taint": JobEnd.NODE, "bio/runs": JobEnd.OPEN,
    }  # fmt: skip
    assert found.jobs[0].end_s - found.jobs[0].start_s == 3600
    assert isnan(found.jobs[5].end_s)
    assert found.jobs[0].gpus == 4


def test_nodes_and_events_of_kubernetes_give_when_nodes_were_away(tmp_path: Path) -> None:
    ready = {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2025-01-01T00:00:00Z"}
    taint = {"key": "steward/health", "effect": "NoSchedule", "timeAdded": "2025-01-02T00:00:00Z"}
    node = {
        "kind": "Node",
        "metadata": {"name": "k1"},
        "spec": {"taints": [taint, {"key": "a", "effect": "NoSchedule"}]},
        "status": {"capacity": {"nvidia.com/gpu": "8"}, "conditions": [ready]},
    }
    events = [
        {"kind": "Event", "reason": reason, "lastTimestamp": f"2025-01-01T0{hour}:00:00Z",
         "involvedObject": {"kind": "Node", "name": "k2"}}
        for hour, reason in ((1, "NodeNotReady"), (2, "NodeNotReady"), (3, "NodeReady"),
                             (4, "NodeReady"))
    ]  # fmt: skip

    found = read(tmp_path, json.dumps({"kind": "List", "items": [node, *events]}))

    assert found.node_gpus == {"k1": 8}
    assert [(each.node, each.use) for each in found.spells] == [
        ("k1", NodeUse.DOWN), ("k1", NodeUse.DRAINED), ("k2", NodeUse.DOWN),
    ]  # fmt: skip
    assert found.spells[2].to_s - found.spells[2].from_s == 7200


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hello\n", "no accounting"),
        ("{", "JSON is broken"),
        ('{"a": 1}', "not of Kubernetes"),
        ("", "no acc"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(StewardError, match=said):
        read(tmp_path, text)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="cannot be read"):
        read_accounts([tmp_path / "no"])
