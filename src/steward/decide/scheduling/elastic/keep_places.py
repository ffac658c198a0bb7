"""Sizes to nodes: whole nodes or a part of one, and nobody moves who need not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from steward.decide.scheduling.elastic.moment import ElasticJob, Placement

__all__ = ["keep_places"]


def keep_places(
    wanted: Sequence[tuple[ElasticJob, int]], nodes: Sequence[int], node_gpus: Sequence[int]
) -> dict[int, Placement]:
    """Place jobs of these sizes on nodes of one type.

    A job smaller than a node is never split; others have whole nodes. Jobs that keep their size
    keep their nodes; where the rest does not fit then, the smallest of them give way one by one.
    """
    own = set(nodes)
    sizes = {job.row: size for job, size in wanted}
    keep = [
        job
        for job, size in wanted
        if len(job.placement) == size and own.issuperset(job.placement)
    ]
    keep.sort(key=lambda job: (not job.restarting, -len(job.placement), job.row))
    while True:
        kept = {job.row: job.placement for job in keep}
        placed = _place(sizes, kept, nodes=nodes, node_gpus=node_gpus)
        if len(placed) == len(sizes) or not keep:
            return placed
        keep.pop()


def _place(
    sizes: Mapping[int, int],
    kept: Mapping[int, Placement],
    *,
    nodes: Sequence[int],
    node_gpus: Sequence[int],
) -> dict[int, Placement]:
    """Place the largest first: whole nodes from the front, parts where they fit most tightly."""
    held = Counter(node for placement in kept.values() for node in placement)
    free = {node: node_gpus[node] - held[node] for node in nodes}
    whole = max((node_gpus[node] for node in nodes), default=0)
    placed = dict(kept)
    for row in sorted(sizes.keys() - kept.keys(), key=lambda row: (-sizes[row], row)):
        size = sizes[row]
        if size < whole:
            fitting = [node for node in nodes if free[node] >= size]
            taken = sorted(fitting, key=lambda node: free[node])[:1]
        else:
            empty = [node for node in nodes if free[node] == whole]
            taken = empty[: size // whole] if len(empty) >= size // whole else []
        if taken:
            part = size // len(taken)
            placed[row] = tuple(node for node in taken for _ in range(part))
            for node in taken:
                free[node] -= part
    return placed
