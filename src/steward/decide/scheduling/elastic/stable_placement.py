"""Sizes to nodes: whole nodes or a part of one, and nobody moves who need not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from steward.decide.scheduling.elastic.interface import ElasticJob, Placement

__all__ = ["keep_places", "packing_sizes"]


def packing_sizes(node_gpus: Sequence[int]) -> tuple[list[int], int]:
    """Return sizes that pack without gaps, and the size of a whole node among them.

    Powers of two inside a node, then whole nodes. Of unequal nodes the smallest counts, so that
    every node can be used up.

    >>> packing_sizes([4, 4, 4])
    ([1, 2, 4, 8, 12], 4)
    """
    whole = min((gpus for gpus in node_gpus if gpus), default=0)
    inside = {2**k for k in range(whole.bit_length())} | {whole} - {0}
    count = sum(gpus // whole for gpus in node_gpus) if whole else 0
    return sorted(inside) + [whole * k for k in range(2, count + 1)], whole


def keep_places(
    wanted: Sequence[tuple[ElasticJob, int]], nodes: Sequence[int], node_gpus: Sequence[int]
) -> dict[int, Placement]:
    """Place jobs of these sizes on these nodes.

    A job smaller than a node is never split; others have whole nodes. Jobs that keep their size
    keep their nodes; where the rest does not fit then, the smallest of them give way one by one.
    """
    own = set(nodes)
    sizes = {job.row: size for job, size in wanted}
    keep = [
        job for job, size in wanted if len(job.placement) == size and own.issuperset(job.placement)
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
    _, whole = packing_sizes([node_gpus[node] for node in nodes])
    placed = dict(kept)
    for row in sorted(sizes.keys() - kept.keys(), key=lambda row: (-sizes[row], row)):
        size = sizes[row]
        if size < whole:
            fitting = [node for node in nodes if free[node] >= size]
            parts = sorted(fitting, key=lambda node: free[node])[:1]
        else:
            parts = [node for node in nodes for _ in range(free[node] // whole)][: size // whole]
        each = min(size, whole)
        if len(parts) * each == size:
            placed[row] = tuple(node for node in parts for _ in range(each))
            for node in parts:
                free[node] -= each
    return placed
