"""Nodes are drained with our reason, and nobody else's reason is touched."""

from __future__ import annotations

from typing import Any

from factories import decision, drain
from steward.act.slurm import node_plans
from steward.clients.slurm.control import NodeEntry
from steward.model.actions import Reboot, Undrain
from steward.model.identity import NodeId

BACK = decision("d-back", action=Undrain(node=NodeId("n1"), gpus=()))


def node(**changes: Any) -> NodeEntry:
    values = {"name": "n1", "state": "idle", "reason": "", "set_by": "Unknown"}
    return NodeEntry(**{**values, **changes})


def test_a_drain_carries_the_decision_and_why() -> None:
    plan = node_plans.drain(node(), drain())

    expected = (
        "scontrol",
        "update",
        "NodeName=n1",
        "State=DRAIN",
        "Reason=steward d-drain: it is idle",
    )
    assert plan.commands == (expected,)


def test_a_drain_that_was_done_is_done() -> None:
    plan = node_plans.drain(
        node(state="draining", reason="steward d-drain: it is idle", set_by="root"), drain()
    )

    assert (plan.result, plan.commands) == ("done", ())


def test_a_foreign_reason_is_neither_overwritten_nor_taken_back() -> None:
    theirs = node(state="drained", reason="bad ECC", set_by="eve")

    drained, back = node_plans.drain(theirs, drain()), node_plans.undrain(theirs, BACK)

    assert (drained.result, drained.commands) == ("failed", ())
    assert (back.result, back.commands) == ("failed", ())
    assert "by eve (bad ECC)" in drained.text
    assert "by eve (bad ECC)" in back.text


def test_what_steward_drained_comes_back_and_only_that() -> None:
    ours = node(state="drained", reason="steward d-7: ECC", set_by="root")

    assert node_plans.undrain(ours, BACK).commands == (
        ("scontrol", "update", "NodeName=n1", "State=RESUME"),
    )
    assert node_plans.undrain(node(), BACK).result == "done"
    assert node_plans.undrain(node(state="down", reason="gone"), BACK).result == "failed"


def test_a_node_that_is_down_is_left_as_it_is() -> None:
    assert node_plans.drain(node(state="down", reason="Not responding"), drain()).result == "failed"


RESTART = decision("d-boot", action=Reboot(node=NodeId("n1"), gpus=()))


def test_only_a_node_that_steward_drained_and_that_is_empty_is_restarted() -> None:
    ours = node(state="drained", reason="steward d-7: ECC", set_by="root")
    busy = node(state="draining", reason="steward d-7: ECC", set_by="root")
    theirs = node(state="drained", reason="bad ECC", set_by="eve")

    plan = node_plans.reboot(ours, RESTART)

    expected = ("scontrol", "reboot", "reason=steward d-boot: restarted; it is idle", "n1")
    assert (plan.result, plan.commands) == ("begun", (expected,))
    assert [node_plans.reboot(each, RESTART).result for each in (busy, theirs, node())] == [
        "failed",
        "failed",
        "failed",
    ]


def test_a_restart_is_begun_until_slurm_has_the_node_back_and_is_asked_for_once() -> None:
    reason = "steward d-boot: restarted; it is idle"
    booting = node(state="drained", reason=reason, reboots=True)
    back = node(state="drained", reason=reason)

    first, last = (node_plans.reboot(each, RESTART) for each in (booting, back))

    assert (first.result, first.commands) == ("begun", ())
    assert (last.result, last.commands) == ("done", ())
    assert node_plans.undrain(back, BACK).result == "done"
    assert node_plans.undrain(back, BACK).commands  # the reason is steward's still
