"""Filters, order and state of the list of findings."""

from __future__ import annotations

from dataclasses import replace

from factories import finding
from service.bed import ServiceBed
from steward.model.cluster_snapshot import GpuState
from steward.model.finding import Finding, Severity
from steward.model.identity import GpuId
from steward.service.live_state import StateSnapshot
from steward.service.pages.findings import DEFAULTS, is_open, select_findings
from steward.service.pages.telemetry.gpu import findings_about


def snapshot_of(bed: ServiceBed, *findings: Finding) -> StateSnapshot:
    snapshot = bed.live_state.refresh()
    open_ = frozenset(each.id for each in findings if each.t_s == 2000.0)
    return replace(snapshot, findings=findings, open_findings=open_, last_seen={})


OLD = finding("old", "n1/gpu0", since_s=0.0)
SHORT = finding("short", "n2/gpu0", since_s=900.0)
FAULT = replace(finding("fault", "n1/gpu1", since_s=950.0), severity=Severity.FAULT, rule="xid")


def subjects(snapshot: StateSnapshot, **chosen: str) -> list[str]:
    return [each.subject for each in select_findings(snapshot, {**DEFAULTS, **chosen})]


def test_findings_are_filtered_by_severity_rule_node_and_state(approval_bed: ServiceBed) -> None:
    open_ = replace(SHORT, t_s=2000.0)
    snapshot = snapshot_of(approval_bed, OLD, open_, FAULT)

    assert subjects(snapshot) == ["old", "short", "fault"]
    assert subjects(snapshot, severity="fault") == ["fault"]
    assert subjects(snapshot, rule="xid") == ["fault"]
    assert subjects(snapshot, node="n1") == ["old", "fault"]
    assert subjects(snapshot, state="open") == ["short"]
    assert subjects(snapshot, state="over") == ["old", "fault"]


def test_findings_are_ordered_by_how_long_they_lasted_or_how_severe_they_are(
    approval_bed: ServiceBed,
) -> None:
    snapshot = snapshot_of(approval_bed, SHORT, OLD, FAULT)

    assert subjects(snapshot, sort="longest") == ["old", "short", "fault"]
    assert subjects(snapshot, sort="severity") == ["fault", "old", "short"]


def test_a_fault_is_not_over_while_its_gpu_is_failed(approval_bed: ServiceBed) -> None:
    snapshot = snapshot_of(approval_bed, FAULT)
    (node,) = snapshot.cluster.nodes
    broken = tuple(replace(each, state=GpuState.FAILED) for each in node.gpus)
    cluster = replace(
        snapshot.cluster, nodes=(replace(node, gpus=broken),), states={GpuState.FAILED: 2}
    )

    assert not is_open(FAULT, snapshot)
    assert is_open(FAULT, replace(snapshot, cluster=cluster))
    of_node = replace(FAULT, subject="n1", gpus=())
    assert is_open(of_node, replace(snapshot, cluster=cluster))


def test_the_page_of_a_gpu_lists_its_findings_and_the_faults_of_its_node(
    approval_bed: ServiceBed,
) -> None:
    of_node = replace(FAULT, subject="n1", gpus=(), evidence=())
    snapshot = snapshot_of(approval_bed, OLD, SHORT, of_node)

    found = findings_about(GpuId("n1/gpu0"), snapshot)

    assert found == [of_node, OLD]
