"""Nodes with faults leave service where that is cheaper, and are mended rung by rung."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from factories import decision, job, moment, node, receipt
from steward.decide.health import POLICIES
from steward.decide.health.climb_ladder import ClimbLadder
from steward.model.actions import Drain, Reboot, Reset
from steward.model.event import Observation
from steward.model.faults import FaultCase, Part, Remedy
from steward.model.finding import Finding, Severity
from steward.model.identity import FindingId, GpuId, NodeId
from steward.model.job import Checkpointing
from steward.model.view import ClusterView

T_S = 100_000.0
GPUS = (GpuId("n1/gpu0"), GpuId("n1/gpu1"))


def case(**changes: Any) -> FaultCase:
    values: dict[str, Any] = {
        "node": "n1",
        "devices": ("GPU-1",),
        "remedy": Remedy.REBOOT_NODE,
        "part": Part.LINK,
        "since_s": T_S - 100.0,
        "last_s": T_S - 100.0,
        "rate_per_day": 0.01,
        "lemon_probability": 0.1,
    }
    return FaultCase(**{**values, **changes})


def found(of: FaultCase) -> Finding:
    return Finding(
        id=FindingId(f"f-{of.node}"),
        t_s=T_S,
        rule="hardware-fault",
        subject=of.node,
        title=f"{of.node}: the GPU has fallen off the bus",
        severity=Severity.FAULT,
        since_s=of.since_s,
        evidence=(),
        fault=of,
    )


def seen(
    *cases: FaultCase,
    drained_s: float | None = None,
    foreign: bool = False,
    rebooted_s: float | None = None,
    reset_s: float | None = None,
    jobs: Any = (),
    nodes: int = 2,
    t_s: float = T_S,
) -> ClusterView:
    made = moment(*(node(f"n{row}", 2) for row in range(1, nodes + 1)), jobs=jobs)
    if drained_s is not None:
        made.fold(Observation(draining={NodeId("n1"): True}))
        done: list[tuple[Any, float | None]] = [
            (Drain(node=NodeId("n1"), gpus=GPUS), None if foreign else drained_s),
            (Reboot(node=NodeId("n1"), gpus=GPUS), rebooted_s),
            (Reset(gpus=GPUS), reset_s),
        ]
        for action, at_s in done:
            if at_s is not None:
                what = decision(f"d-{action.type}", action=action)
                made.apply(what, receipt(what, t_s=at_s))
    return made.view(t_s).with_findings(tuple(found(each) for each in cases))


def kinds(view: ClusterView, **options: Any) -> list[str]:
    return [each.action.type for each in ClimbLadder(**options).decide(view)]


def test_a_node_whose_gpu_is_lost_is_drained_with_the_price_in_the_reason() -> None:
    (drain,) = ClimbLadder().decide(seen(case()))

    assert drain.action == Drain(node=NodeId("n1"), gpus=GPUS)
    assert "GPU-hours expected, waiting" in drain.because
    assert drain.findings == ("f-n1",)


def test_without_faults_nothing_is_decided_and_a_node_that_left_is_left_out() -> None:
    assert ClimbLadder().decide(seen()) == ()
    assert ClimbLadder().decide(seen(case(node="n9"))) == ()


def test_a_fault_that_is_only_watched_stays_in_service() -> None:
    assert kinds(seen(case(remedy=Remedy.WATCH, lemon_probability=0.0))) == []


def test_a_fault_of_many_nodes_at_once_drains_none_of_them() -> None:
    assert kinds(seen(case(together=5))) == []


def test_a_node_that_was_drained_before_the_outage_was_known_is_only_tested() -> None:
    assert kinds(seen(case(together=5), drained_s=T_S - 50.0)) == ["diagnose"]


def test_a_node_that_somebody_else_drained_is_left_alone() -> None:
    assert kinds(seen(case(), drained_s=T_S - 50.0, foreign=True)) == []


def test_a_drained_node_is_mended_when_its_last_job_has_left() -> None:
    runs = [job("j1", on=["n1/gpu0"])]

    assert kinds(seen(case(), drained_s=T_S - 50.0, jobs=runs)) == []
    assert kinds(seen(case(), drained_s=T_S - 50.0)) == ["reboot"]


def test_the_reset_is_tried_where_it_is_likely_enough_and_restarts_are_slow() -> None:
    view = seen(case(remedy=Remedy.RESET_GPU, lemon_probability=0.0), drained_s=T_S - 50.0)

    assert kinds(view, reboot_s=36_000.0) == ["reset"]


def test_what_was_mended_is_tested_and_proven_nodes_are_left_to_come_back() -> None:
    tested = {"tested_s": T_S - 5.0, "tests_well": 1}

    assert kinds(seen(case(), drained_s=T_S - 50.0, rebooted_s=T_S - 20.0)) == ["diagnose"]
    assert kinds(seen(case(**tested), drained_s=T_S - 50.0, rebooted_s=T_S - 20.0)) == []


def test_one_test_that_fails_is_repeated_and_two_cost_the_part() -> None:
    def after(bad: int) -> list[str]:
        of = case(tested_s=T_S - 5.0, tests_bad=bad)
        return kinds(seen(of, drained_s=T_S - 50.0, rebooted_s=T_S - 20.0))

    assert (after(1), after(2)) == (["diagnose"], ["tell"])


def test_the_vendor_gets_the_part_that_had_the_faults() -> None:
    of = case(remedy=Remedy.REPLACE, tested_s=T_S - 5.0, tests_bad=2)
    tell = ClimbLadder().decide(seen(of, drained_s=T_S - 50.0, rebooted_s=T_S - 20.0))[-1]

    assert tell.action.sentence.startswith("Tell operators about n1: return GPU-1 of n1")


def test_a_fault_that_comes_back_after_a_reset_climbs_to_the_restart() -> None:
    of = case(remedy=Remedy.RESET_GPU, last_s=T_S - 10.0, lemon_probability=0.0)
    view = seen(of, drained_s=T_S - 50.0, reset_s=T_S - 20.0)

    assert kinds(view) == ["reboot"]


def test_a_part_that_was_exchanged_is_tested() -> None:
    of = case(swapped_s=T_S - 5.0, tested_s=T_S - 20.0, tests_bad=2)

    assert kinds(seen(of, drained_s=T_S - 50.0, rebooted_s=T_S - 30.0)) == ["diagnose"]


def test_what_nobody_does_is_told_to_the_operators() -> None:
    late = seen(case(), drained_s=T_S - 50.0, t_s=T_S + 9000.0)
    untested = seen(case(), drained_s=T_S - 50.0, rebooted_s=T_S, t_s=T_S + 9000.0)

    assert kinds(late) == ["tell", "reboot"]
    assert kinds(untested) == ["tell", "diagnose"]


def test_no_more_of_the_cluster_leaves_service_than_is_allowed_worst_first() -> None:
    cases = [case(node=f"n{row}") for row in range(1, 9)]
    cases[5] = case(node="n6", lemon_probability=0.9, excess_per_day=0.2)
    decided = ClimbLadder(max_share=0.25).decide(seen(*cases, nodes=8))

    assert len(decided) == 2
    assert decided[0].action == Drain(node=NodeId("n6"), gpus=(GpuId("n6/gpu0"), GpuId("n6/gpu1")))


def test_a_fault_that_returns_where_it_was_left_is_believed_to_be_more() -> None:
    mild = case(remedy=Remedy.RESTART_JOB, part=Part.MEMORY, lemon_probability=0.0)
    again = replace(mild, previous_s=T_S - 4000.0)

    assert (kinds(seen(mild)), kinds(seen(again))) == ([], ["drain"])


def test_what_a_crash_costs_follows_from_the_jobs_that_run() -> None:
    saves = job("j1", on=["n1/gpu0", "n1/gpu1"])
    never = replace(saves, checkpointing=Checkpointing(able=False))
    mild = case(remedy=Remedy.RESTART_JOB, part=Part.MEMORY, lemon_probability=0.02)

    assert kinds(seen(mild, jobs=[saves])) == []
    assert kinds(seen(mild, jobs=[never])) == ["drain"]  # 27 hours of work, none of it saved


@pytest.mark.parametrize("rung", ["reset-gpu", "reboot-node"])
def test_only_remedies_that_can_be_carried_out_here_are_decided(rung: str) -> None:
    view = seen(case(remedy=Remedy.RESET_GPU), drained_s=T_S - 50.0)

    assert kinds(view, rungs=(rung,)) in (["reset"], ["reboot"], ["diagnose"])
    assert kinds(view, rungs=()) == ["diagnose"]


def test_deciding_does_not_change_the_moment() -> None:
    view = seen(case(), drained_s=T_S - 50.0)
    before = np.asarray(view.nodes.draining).tobytes()

    assert ClimbLadder().decide(view) == ClimbLadder().decide(view)
    assert np.asarray(view.nodes.draining).tobytes() == before
    assert POLICIES["climb-ladder"] is ClimbLadder
