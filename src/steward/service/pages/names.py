"""Names of the things that have a page of their own, for its title; None if one is unknown."""

from __future__ import annotations

from steward.errors import StewardError
from steward.model.identity import DecisionId, FindingId
from steward.service.live_state import LiveState

__all__ = ["decision_name", "finding_name", "gpu_name", "node_name", "rule_name"]


def node_name(live_state: LiveState, node: str) -> str | None:
    """Return the name of a node that reports or that has GPUs."""
    return node if live_state.latest.node(live_state.snapshot.cluster, node) is not None else None


def gpu_name(live_state: LiveState, gpu: str) -> str | None:
    """Return the name of a GPU that is in the view or that has values."""
    listed = any(each.id == gpu for each in live_state.snapshot.cluster.gpus)
    return gpu if listed or live_state.latest.of(gpu) else None


def finding_name(live_state: LiveState, finding: str) -> str | None:
    """Return the title of a finding."""
    try:
        return live_state.finding(FindingId(finding)).finding.title
    except StewardError:
        return None


def rule_name(live_state: LiveState, rule: str) -> str | None:
    """Return the title of a rule."""
    rows = (each for each in live_state.snapshot.rules if each.id == rule)
    return next((each.title or each.id for each in rows), None)


def decision_name(live_state: LiveState, decision: str) -> str | None:
    """Return what a decision does."""
    try:
        return live_state.story(DecisionId(decision)).decision.action.sentence
    except StewardError:
        return None
