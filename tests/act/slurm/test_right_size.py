"""What a waiting job asks for is changed in the field in which it asks, or not at all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.act.slurm.right_size import right_size
from steward.clients.slurm.asked_gpus import AskedGpus, read_asked_gpus
from steward.clients.slurm.job_mark import JobMark
from steward.clients.slurm.queue_entry import QueueEntry
from steward.model.actions import RightSize
from steward.model.identity import JobId

WAITS = QueueEntry(
    id="35",
    address="35",
    state="PENDING",
    reason="Resources",
    user="ada",
    partition="gpu",
    submit_s=1000,
    restarts=0,
    batch=True,
    requeue=True,
    nice=0,
    priority=7,
    nodes=(),
    name="train",
    mark=JobMark.read(""),
)
TO_TWO = RightSize(job=JobId("35"), before=4, count=2)
# Lines of a real Slurm 22.05; the last two are of newer ones, by their documentation.
SHOWN = {
    "--gres=gpu:4": (1, "TresPerNode=gres:gpu:4", "TresPerNode=gres:gpu:2"),
    "--gpus=4": (1, "TresPerJob=gres:gpu:4", "TresPerJob=gres:gpu:2"),
    "--gpus=a100:4": (1, "TresPerJob=gres:gpu:a100:4", "TresPerJob=gres:gpu:a100:2"),
    "--gpus-per-node=2 -N2": (2, "TresPerNode=gres:gpu:2", "TresPerNode=gres:gpu:1"),
    "newer --gres": (1, "TresPerNode=gres/gpu:4", "TresPerNode=gres/gpu:2"),
    "newer --gpus": (1, "TresPerJob=gres/gpu=4", "TresPerJob=gres/gpu=2"),
}


def asked(nodes: int, *fields: str) -> AskedGpus | None:
    lines = [f"   NumNodes={nodes} NumCPUs=4 NumTasks=1", *(f"   {each}" for each in fields)]
    return read_asked_gpus("\n".join(["JobId=35 JobName=train", *lines, "   Command=/x"]))


@pytest.mark.parametrize("how", SHOWN)
def test_the_field_in_which_it_asks_is_changed(how: str) -> None:
    nodes, field, then = SHOWN[how]

    plan = right_size(WAITS, TO_TWO, asked(nodes, field))

    assert (plan.result, plan.commands) == ("done", (("scontrol", "update", "JobId=35", then),))
    again = right_size(WAITS, TO_TWO, asked(nodes, then))
    assert (again.result, again.commands) == ("done", ())


@pytest.mark.parametrize(
    ("job", "found", "why"),
    [
        (replace(WAITS, state="RUNNING"), asked(1, "TresPerJob=gres:gpu:4"), "is running"),
        (replace(WAITS, address="35_[2-3]"), asked(1, "TresPerJob=gres:gpu:4"), "wait together"),
        (WAITS, asked(1), "in a way that depends on more"),
        (WAITS, asked(1, "TresPerTask=gres:gpu:2"), "in a way that depends on more"),
        (WAITS, asked(1, "TresPerJob=gres:gpu:a:2,gres:gpu:b:2"), "in a way that depends on more"),
        (
            WAITS,
            asked(1, "TresPerJob=gres:gpu:4", "TresPerNode=gres:gpu:4"),
            "in a way that depends on more",
        ),
        (WAITS, asked(1, "TresPerJob=gres:gpu:8"), "asks for 8 GPUs now: not 4"),
        (WAITS, asked(4, "TresPerNode=gres:gpu:1"), "2 do not divide among 4 nodes"),
    ],
)
def test_anything_else_stays_as_it_is(job: QueueEntry, found: AskedGpus | None, why: str) -> None:
    plan = right_size(job, TO_TWO, found)

    assert (plan.result, plan.commands) == ("failed", ())
    assert why in plan.text


@given(st.integers(1, 64), st.integers(1, 8), st.integers(1, 512))
def test_what_is_asked_for_instead_is_what_is_read_again(
    count: int, nodes: int, wanted: int
) -> None:
    before = AskedGpus(field="TresPerNode", kind="gres:gpu:", count=count, nodes=nodes)

    then = before.instead(wanted)

    found = asked(nodes, then) if then else None
    assert (found is None) == bool(wanted % nodes or wanted < nodes)
    assert found is None or found.total == wanted
