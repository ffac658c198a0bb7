"""Every action: what it claims, when it cannot be done, how it is undone and described."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from factories import finding, job, loan, node, view
from steward.model.actions import (
    ACTIONS,
    FABRIC_ACTIONS,
    MEMORY_ACTIONS,
    PLANNING_ACTIONS,
    SERVING_ACTIONS,
    Budget,
    CallBack,
    CapPower,
    Diagnose,
    Drain,
    Lend,
    Migrate,
    Preempt,
    Reboot,
    Reprioritise,
    Reset,
    Resize,
    Resume,
    RightSize,
    Save,
    Start,
    Tell,
    Undrain,
)
from steward.model.identity import DecisionId, GpuId, JobId, NodeId
from steward.model.job import Checkpointing, JobShape
from steward.model.view import ClusterView
from steward.model.yardstick import YARDSTICKS

OTHERS = (*FABRIC_ACTIONS, *MEMORY_ACTIONS, *PLANNING_ACTIONS, *SERVING_ACTIONS)
OF_CLUSTERS = sorted(name for name, cls in ACTIONS.items() if cls not in OTHERS)
GPU, OTHER = GpuId("n1/gpu0"), GpuId("n1/gpu1")
J1, J2, N1 = JobId("j1"), JobId("j2"), NodeId("n1")
ELASTIC = JobShape(gpus=1, max_gpus=2)
RUNS = view(node("n1", 2), jobs=[job("j1", on=[GPU], shape=ELASTIC), job("j2")])
NOBODY = view(node("n1", 2))
FULL = view(
    node("n1", 2),
    jobs=[job("j1", on=[GPU], shape=ELASTIC), job("j3", on=[OTHER]), job("j2")],
)
LENT = view(node("n1", 2), jobs=[job("j1", on=[GPU]), job("j2", on=[GPU])], loans=[loan()])
SAMPLES: dict[str, Any] = {
    "lend": Lend(gpus=(GPU,), owner=J1, borrower=J2),
    "call-back": CallBack(loan=DecisionId("d-1"), gpus=(GPU,), owner=J1, borrower=J2),
    "start": Start(job=J2, gpus=(OTHER,)),
    "resume": Resume(job=J2, gpus=(OTHER,)),
    "preempt": Preempt(job=J1, gpus=(GPU,)),
    "migrate": Migrate(job=J1, source=(GPU,), target=(OTHER,)),
    "resize": Resize(job=J1, now=(GPU,), then=(GPU, OTHER)),
    "reprioritise": Reprioritise(job=J2, before=0, priority=5),
    "right-size": RightSize(job=J2, before=1, count=2),
    "save": Save(job=J1),
    "drain": Drain(node=N1, gpus=(GPU, OTHER)),
    "undrain": Undrain(node=N1, gpus=(GPU, OTHER)),
    "reset": Reset(gpus=(OTHER,)),
    "reboot": Reboot(node=N1, gpus=(GPU, OTHER)),
    "diagnose": Diagnose(node=N1, gpus=(GPU, OTHER)),
    "cap-power": CapPower(job=J1, gpus=(GPU,), before_watts=700.0, watts=500.0),
    "tell": Tell(to="ann", about="job:j1", text="use it", job=J1),
}


NOT_HERE = {"call-back", "undrain", "lend", "reboot", "diagnose"}  # they need another moment


@pytest.mark.parametrize("name", OF_CLUSTERS)
def test_an_action_describes_itself_and_names_its_budget_and_yardstick(name: str) -> None:
    action = SAMPLES[name]

    assert action.type == name
    assert action.sentence[0].isupper()
    assert action.budget in Budget
    assert action.yardstick in YARDSTICKS
    assert all(claim.partition(":")[0] in ("gpu", "job", "node") for claim in action.claims)
    assert action.affects in (None, J1, J2)
    assert action.acts_on in (None, J1, J2)


@pytest.mark.parametrize("name", sorted({*OF_CLUSTERS} - NOT_HERE))
def test_an_action_can_be_done_where_it_fits_and_says_why_where_it_does_not(name: str) -> None:
    action = SAMPLES[name]

    assert action.unmet(RUNS) == ""
    assert not action.may_be_done(RUNS)
    if name not in ("drain", "reset"):
        assert action.unmet(NOBODY)


@pytest.mark.parametrize("name", OF_CLUSTERS)
def test_undoing_twice_is_doing_it_again_or_cannot_be_done(name: str) -> None:
    undo = SAMPLES[name].undo(DecisionId("d-1"))

    assert undo is None or undo.type in ACTIONS
    if name in ("migrate", "resize", "reprioritise", "right-size", "cap-power"):
        assert undo.undo(DecisionId("d-2")) == SAMPLES[name]


def draining(seen: ClusterView) -> ClusterView:
    flags = seen.nodes.draining.copy()
    flags[0] = True
    return replace(seen, nodes=replace(seen.nodes, draining=flags))


@pytest.mark.parametrize(
    ("action", "seen", "why"),
    [
        (SAMPLES["start"], draining(RUNS), "draining"),
        (SAMPLES["start"], FULL, "in use"),
        (SAMPLES["drain"], draining(RUNS), "draining already"),
        (SAMPLES["undrain"], RUNS, "not draining"),
        (SAMPLES["undrain"], draining(RUNS), ""),
        (Drain(node=NodeId("n9"), gpus=()), RUNS, "not in the cluster"),
        (Undrain(node=NodeId("n9"), gpus=()), RUNS, "not in the cluster"),
        (
            SAMPLES["lend"],
            view(
                jobs=[
                    job("j1", on=[GPU]),
                    job("j2", shape=JobShape(gpus=1, gpu_memory_bytes=10**15)),
                ]
            ),
            "does not fit beside j1",
        ),
        (
            SAMPLES["lend"],
            view(jobs=[job("j1", on=(GPU,), user="ada"), job("j2", user="eve", borrows="own")]),
            "another user's",
        ),
        (
            replace(SAMPLES["lend"], way="suspended"),
            view(
                jobs=[
                    job("j1", on=[GPU]),
                    job("j2", shape=JobShape(gpus=1, gpu_memory_bytes=140 * 2**30)),
                ]
            ),
            "",
        ),
        (SAMPLES["migrate"], FULL, "in use"),
        (Migrate(job=J1, source=(OTHER,), target=(GPU,)), RUNS, "holds other GPUs"),
        (
            SAMPLES["migrate"],
            view(jobs=[job("j1", on=[GPU], checkpointing=Checkpointing())]),
            "cannot save",
        ),
        (SAMPLES["migrate"], LENT, "lends or borrows"),
        (SAMPLES["resize"], FULL, "in use"),
        (SAMPLES["resize"], LENT, "lends or borrows"),
        (SAMPLES["resize"], view(node("n1", 2), jobs=[job("j1", on=[GPU])]), "runs on 1 GPUs"),
        (
            SAMPLES["resize"],
            view(
                node("n1", 4),
                jobs=[job("j1", on=[GPU], shape=JobShape(gpus=4, min_gpus=3))],
            ),
            "runs on 3 to 4 GPUs",
        ),
        (
            SAMPLES["resize"],
            view(jobs=[job("j1", on=[GPU], checkpointing=Checkpointing())]),
            "cannot save",
        ),
        (
            SAMPLES["save"],
            view(jobs=[job("j1", on=[GPU], checkpointing=Checkpointing())]),
            "cannot save",
        ),
        (Resize(job=J1, now=(OTHER,), then=(GPU,)), RUNS, "holds other GPUs"),
        (Resize(job=J1, now=(GPU,), then=()), RUNS, "no GPU is left"),
        (Resize(job=J1, now=(GPU,), then=(GpuId("n9/gpu0"),)), RUNS, "not in the cluster"),
        (Reprioritise(job=J2, before=3, priority=5), RUNS, "has priority 0"),
        (RightSize(job=J2, before=4, count=2), RUNS, "asks for 1 GPUs"),
        (RightSize(job=J2, before=1, count=0), RUNS, "not a size"),
        (Reset(gpus=(GPU,)), RUNS, "in use"),
        (Reset(gpus=(GpuId("n9/gpu0"),)), RUNS, "not in the cluster"),
        (CapPower(job=J1, gpus=(GPU,), before_watts=700, watts=9000), RUNS, "not a limit"),
        (CapPower(job=J1, gpus=(GPU,), before_watts=700, watts=0.5), RUNS, "not a limit"),
        (SAMPLES["start"], view(node("n1", 1), jobs=[job("j2")]), "not in the cluster"),
    ],
)
def test_what_does_not_hold_any_more_is_named(action: Any, seen: ClusterView, why: str) -> None:
    found = action.unmet(seen)

    assert why in found
    assert bool(found) == bool(why)


def test_what_looks_done_already_is_recognised() -> None:
    moved = view(node("n1", 2), jobs=[job("j1", on=[OTHER]), job("j2", on=[GPU], priority=5)])

    assert SAMPLES["migrate"].may_be_done(moved)
    assert SAMPLES["start"].may_be_done(moved)
    assert SAMPLES["lend"].may_be_done(moved)
    assert SAMPLES["reprioritise"].may_be_done(moved)
    assert SAMPLES["drain"].may_be_done(draining(RUNS))
    assert SAMPLES["undrain"].may_be_done(RUNS)
    assert not SAMPLES["resize"].may_be_done(moved)
    assert not SAMPLES["right-size"].may_be_done(moved)
    # A loan may have ended in other ways: only a receipt says that it was given back.
    assert not SAMPLES["call-back"].may_be_done(moved)


def test_a_finding_leads_to_the_action_that_its_rule_names_where_it_fits() -> None:
    about = replace(finding("j1", GPU), subject=GPU)
    idle = replace(finding("j1", OTHER), gpus=(OTHER,))
    lent = view(jobs=[job("j1", on=[GPU]), job("j2", on=[GPU])], loans=[loan()])

    assert Drain.for_finding(about, RUNS) == SAMPLES["drain"]
    assert Drain.for_finding(about, draining(RUNS)) is None
    assert Undrain.for_finding(about, draining(RUNS)) == SAMPLES["undrain"]
    assert Undrain.for_finding(about, RUNS) is None
    assert Undrain.for_finding(replace(about, subject="n9"), RUNS) is None
    assert Preempt.for_finding(about, RUNS) == SAMPLES["preempt"]
    assert Save.for_finding(about, RUNS) == SAMPLES["save"]
    assert Save.for_finding(about, NOBODY) is None
    assert Save.for_finding(replace(about, job=None), RUNS) is None
    assert Reset.for_finding(idle, RUNS) == SAMPLES["reset"]
    assert Reset.for_finding(about, RUNS) is None
    assert Reset.for_finding(replace(about, gpus=()), RUNS) is None
    assert CallBack.for_finding(about, lent) is not None
    assert CallBack.for_finding(about, RUNS) is None
    for other in (Lend, Start, Resume, Migrate, Resize, Reprioritise, RightSize, CapPower):
        assert other.for_finding(about, RUNS) is None


@pytest.mark.parametrize("name", ["reboot", "diagnose"])
def test_only_a_drained_node_without_jobs_is_restarted_or_tested(name: str) -> None:
    action, empty = SAMPLES[name], draining(view())
    about = replace(finding("j1", GPU), subject=GPU)

    assert action.unmet(empty) == ""
    assert "is in service" in action.unmet(RUNS)
    assert "jobs run on node n1 still" in action.unmet(draining(RUNS))
    assert "not in the cluster" in replace(action, node=NodeId("n9")).unmet(empty)
    assert not action.may_be_done(empty)
    assert type(action).for_finding(about, empty) == action
    assert type(action).for_finding(about, draining(RUNS)) is None
    assert type(action).for_finding(replace(about, subject="n9"), empty) is None
