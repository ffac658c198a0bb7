"""Makes one observation of many, for the watch, the intake and the agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import polars as pl

from steward.model.cluster import Cluster, Link, Node, Switch
from steward.model.event import Event, Observation
from steward.model.frame import Frame, empty_other
from steward.model.identity import NodeId

__all__ = ["merge_clusters", "merge_observations", "merge_tables"]


def merge_observations(seen: Sequence[Observation], *, events: Sequence[Event] = ()) -> Observation:
    """Return all observations as one; of cluster, tenants and health, the last one counts."""
    others = [each.other for each in seen if each.other.height]
    return Observation(
        frames=tuple(table for each in seen for table in each.tables),
        other=pl.concat(others) if others else empty_other(),
        events=(*events, *(event for each in seen for event in each.events)),
        lines=tuple(line for each in seen for line in each.lines),
        spans=tuple(span for each in seen for span in each.spans),
        jobs=tuple(job for each in seen for job in each.jobs),
        cluster=next((each.cluster for each in reversed(seen) if each.cluster is not None), None),
        tenants=next((each.tenants for each in reversed(seen) if each.tenants is not None), None),
        health={gpu: health for each in seen for gpu, health in each.health.items()},
        draining={node: now for each in seen for node, now in each.draining.items()},
        loans=tuple(loan for each in seen for loan in each.loans),
        ceilings=next(
            (each.ceilings for each in reversed(seen) if each.ceilings is not None), None
        ),
        site_reports=tuple(report for each in seen for report in each.site_reports),
        memory=next((each.memory for each in reversed(seen) if each.memory is not None), None),
        serving=next((each.serving for each in reversed(seen) if each.serving is not None), None),
    )


def merge_tables(tables: Iterable[Frame]) -> tuple[Frame, ...]:
    """Return one table for all that have the same columns."""
    by_columns: dict[tuple[str, ...], list[Frame]] = {}
    for table in tables:
        by_columns.setdefault(tuple(table.columns), []).append(table)
    return tuple(pl.concat(each) for each in by_columns.values())


def merge_clusters(
    clusters: Sequence[Cluster],
    *,
    id_: str,
    same_node: Callable[[Node, Node], Node] = lambda _before, now: now,
) -> Cluster:
    """Return one cluster; `same_node` merges two accounts of a node, the last one by default."""
    nodes: dict[NodeId, Node] = {}
    links: dict[tuple[str, str], Link] = {}
    switches: dict[str, Switch] = {}
    for cluster in clusters:
        for node in cluster.nodes:
            nodes[node.id] = same_node(nodes[node.id], node) if node.id in nodes else node
        links.update({(link.a, link.b): link for link in cluster.links})
        switches.update({switch.id: switch for switch in cluster.switches})
    return Cluster(
        id=id_,
        nodes=tuple(nodes.values()),
        links=tuple(links.values()),
        switches=tuple(switches.values()),
    )
