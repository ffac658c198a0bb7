"""Small networks and jobs on them, for tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steward.decide.fabric.least_contention import NetworkLoad
from steward.model.fabric.contention import Contention, JobColumns, of_entries
from steward.model.fabric.node_map import NodeMap, node_map
from steward.model.fabric.placed_job import PlacedJob, TrafficProfile
from steward.model.fabric.shapes import leaf_spine

__all__ = ["cluster", "heavy", "job_on", "light", "load_of", "shared_link"]

GB = 1e9


def shared_link(
    *duties: float, overlap: float = 0.0, flows: float = 1.0, capacity: float = 10 * GB
) -> Contention:
    """Return jobs that cross one link, each sending for such a share of its time when alone."""
    n = len(duties)
    share = np.array(duties)
    rate = capacity / flows
    columns = JobColumns(
        compute_s=1.0 - share,
        overlap_share=np.full(n, overlap),
        volume_bytes=share * rate,
        rate_limit=np.full(n, np.inf),
    )
    one: tuple[NDArray[np.int64], NDArray[np.float64]] = (np.zeros(1, np.int64), np.full(1, flows))
    return of_entries(columns, np.array([capacity]), [one] * n)


def cluster(
    leaves: int = 4, nodes_per_leaf: int = 4, *, over: float = 2.0, spines: int = 2
) -> NodeMap:
    """Return nodes of 8 GPUs and two NICs under leaves and spines."""
    topology = leaf_spine(
        leaves=leaves,
        nodes_per_leaf=nodes_per_leaf,
        spines=spines,
        nics=2,
        oversubscription=over,
        bytes_per_s=25 * GB,
    )
    return node_map(topology, gpus_per_node=8)


def heavy() -> TrafficProfile:
    """Return a job that sends as long as it computes."""
    return TrafficProfile(compute_s=1.0, node_bytes=50 * GB)


def light() -> TrafficProfile:
    """Return a job that hardly sends."""
    return TrafficProfile(compute_s=1.0, node_bytes=0.5 * GB)


def job_on(name: str, nodes: tuple[int, ...], profile: TrafficProfile | None = None) -> PlacedJob:
    """Return a job on whole nodes."""
    return PlacedJob(job=name, profile=profile or heavy(), nodes=nodes, gpus=(8,) * len(nodes))


def load_of(place: NodeMap, *jobs: PlacedJob) -> NetworkLoad:
    """Return what is free beside these jobs."""
    free = place.gpus.copy()
    for each in jobs:
        np.subtract.at(free, np.array(each.nodes), np.array(each.gpus))
    return NetworkLoad(place=place, free=free, jobs=jobs)
