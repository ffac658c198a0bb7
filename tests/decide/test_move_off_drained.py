from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from factories import H200, finding, job, node, view
from steward.decide.health.move_off_drained import MoveOffDrained
from steward.model.actions import Preempt, Resume
from steward.model.cluster import Health
from steward.model.finding import Finding
from steward.model.identity import GpuId, JobId
from steward.model.job import Checkpointing, Job, JobShape
from steward.model.treatment import Treatment
from steward.model.view import HEALTH_CODES, ClusterView

OTHER = replace(H200, name="T4")
DRAIN = Treatment(action="drain", advice="drain it")
NODES = tuple(node(f"n{number}") for number in range(1, 4))


def trouble(subject: str = "n1/gpu0", treatment: Treatment | None = DRAIN) -> Finding:
    return replace(finding(), subject=subject, treatment=treatment, title="Xid 79")


def drained(
    *jobs: Job,
    findings: Iterable[Finding] | None = None,
    nodes: Iterable[Any] = NODES,
    since_s: float = 0.0,
    closed: Iterable[str] = ("n1",),
) -> ClusterView:
    """Return a moment in which steward has drained n1, for what is still found."""
    seen = view(*nodes, jobs=jobs, t_s=1000.0)
    shut = np.isin(np.asarray(seen.nodes.ids, dtype=str), [*closed])
    at_s = np.where(np.asarray(seen.nodes.ids, dtype=str) == "n1", since_s, np.nan)
    closed_nodes = replace(seen.nodes, draining=shut, drained_since_s=at_s)
    found = (trouble(),) if findings is None else tuple(findings)
    return replace(seen, nodes=closed_nodes).with_findings(found)


def moved(seen: ClusterView) -> list[tuple[JobId, tuple[GpuId, ...]]]:
    """Return where which job goes on."""
    made = MoveOffDrained().decide(seen)
    return [(each.action.job, each.action.gpus) for each in made if isinstance(each.action, Resume)]


def test_a_job_saves_and_goes_on_where_gpus_are_free() -> None:
    seen = drained(job("j1", on=("n1/gpu0",)))

    stop, go_on = MoveOffDrained().decide(seen)

    assert stop.action == Preempt(job=JobId("j1"), gpus=(GpuId("n1/gpu0"),))
    assert go_on.action == Resume(job=JobId("j1"), gpus=(GpuId("n2/gpu0"),))
    assert go_on.after == (stop.id,)
    assert "node n1 is drained (Xid 79)" in stop.because
    assert (stop.findings, stop.expects.mid < 0.0) == ((trouble().id,), True)
    assert MoveOffDrained().decide(seen) == (stop, go_on)


def test_each_job_has_gpus_of_its_own_to_go_on() -> None:
    jobs = (job("j1", on=("n1/gpu0",)), job("j2", on=("n1/gpu1",)))

    assert [gpus for _, gpus in moved(drained(*jobs))] == [("n2/gpu0",), ("n2/gpu1",)]


def test_a_job_on_several_nodes_keeps_those_that_are_well() -> None:
    wide = job("j1", on=("n1/gpu0", "n1/gpu1", "n2/gpu0", "n2/gpu1"))

    ((_, gpus),) = moved(drained(wide))

    assert {*gpus} == {"n2/gpu0", "n2/gpu1", "n3/gpu0", "n3/gpu1"}


@pytest.mark.parametrize(
    "seen",
    [
        drained(job("j1", on=("n1/gpu0",), checkpointing=Checkpointing())),
        drained(job("j1", on=("n2/gpu0",))),
        drained(job("j1")),
        drained(job("j1", on=("n1/gpu0",)), since_s=970.0),
        drained(job("j1", on=("n1/gpu0",)), since_s=np.nan),
        drained(job("j1", on=("n1/gpu0",)), closed=()),
        drained(job("j1", on=("n1/gpu0",)), findings=()),
        drained(job("j1", on=("n1/gpu0",)), findings=(trouble("n2/gpu0"),)),
        drained(job("j1", on=("n1/gpu0",)), findings=(trouble(treatment=None),)),
        drained(
            job("j1", on=("n1/gpu0",)),
            findings=(trouble(treatment=replace(DRAIN, action="tell")),),
        ),
        drained(job("j1", on=("n1/gpu0",)), closed=("n1", "n2", "n3")),
        drained(job("j1", on=("n1/gpu0", "n1/gpu1")), nodes=(NODES[0], node("n2", gpus=1))),
        drained(
            job("j1", on=("n1/gpu0",), shape=JobShape(gpus=1, gpu_models=(H200.name,))),
            nodes=(NODES[0], node("n2", model=OTHER)),
        ),
    ],
    ids=[
        "it cannot save",
        "it runs elsewhere",
        "it waits",
        "the engine may not know of the drain yet",
        "somebody else drained the node",
        "the node was brought back",
        "nothing is found any more",
        "what is found is elsewhere",
        "no rule says what to do",
        "a rule only tells",
        "all nodes are closed",
        "there is no room on one node",
        "other GPUs are not of its kind",
    ],
)
def test_a_job_stays_where_it_is(seen: ClusterView) -> None:
    assert MoveOffDrained().decide(seen) == ()


@pytest.mark.parametrize("what", ["in use", "reserved", "sick"])
def test_gpus_that_cannot_be_had_are_no_room(what: str) -> None:
    seen = drained(job("j1", on=("n1/gpu0",)))
    gpus, rows = seen.gpus, slice(2, None)
    columns = {name: getattr(gpus, name).copy() for name in ("users", "reserved", "health")}
    name, value = {
        "in use": ("users", 1),
        "reserved": ("reserved", True),
        "sick": ("health", HEALTH_CODES[Health.BAD]),
    }[what]
    columns[name][rows] = value

    assert moved(replace(seen, gpus=replace(gpus, **columns))) == []


def test_a_gpu_that_left_the_cluster_is_not_looked_for() -> None:
    seen = drained(job("j1", on=("n1/gpu0", "n9/gpu0")))

    assert [len(gpus) for _, gpus in moved(seen)] == [1]
