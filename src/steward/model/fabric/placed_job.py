"""What a job sends, and what runs where, as placement sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.model.fabric.contention import Contention, JobColumns, of_entries
from steward.model.fabric.node_map import NodeMap
from steward.model.fabric.ring_traffic import ring_links

__all__ = [
    "HOST_BYTES_PER_S",
    "PlacedJob",
    "TrafficProfile",
    "contention_of",
    "entries_of",
    "ideal_s",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

HOST_BYTES_PER_S = 300e9  # of one flow inside a node, by NVLink


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficProfile:
    """One iteration of a job: how long it computes, and what each node sends to the next."""

    compute_s: float
    node_bytes: float  # over all channels together; a ring all-reduce of M bytes: nearly 2 M
    overlap_share: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        for name, low, high in (
            ("compute_s", 1e-9, np.inf),
            ("node_bytes", 0.0, np.inf),
            ("overlap_share", 0.0, 1.0),
        ):
            value = getattr(self, name)
            if not low <= value <= high or value == np.inf:
                raise StewardError(
                    f"{name} is {value}",
                    where="traffic profile",
                    hint="seconds and bytes are 0 or more and finite, shares between 0 and 1",
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedJob:
    """A job on nodes, in the order of its ring. `nodes` are positions in the node map."""

    job: str
    profile: TrafficProfile
    nodes: tuple[int, ...]
    gpus: tuple[int, ...]  # on each of them

    @property
    def total_gpus(self) -> int:
        """GPUs on all nodes."""
        return sum(self.gpus)

    def channels(self, nics: int) -> int:
        """Return its rings: the node with the fewest GPUs decides how many NICs it can use."""
        return max(1, min(nics, *self.gpus)) if self.gpus else 1


_KEPT = 8192  # rings of a node map


def entries_of(place: NodeMap, job: PlacedJob, salt: int) -> tuple[Ints, Floats]:
    """Return the links that a job crosses and its flows on them, for one draw of its ports."""
    key = (job.nodes, channels := job.channels(place.nics), salt)
    found = place.crossings.get(key)
    if found is None:
        if len(place.crossings) >= _KEPT:
            place.crossings.clear()
        ring = place.rows[np.array(job.nodes, np.int64)]
        found = ring_links(place.routes, ring, channels=channels, salt=salt)
        place.crossings[key] = found
    return found


def columns_of(place: NodeMap, jobs: Sequence[PlacedJob]) -> JobColumns:
    """Return what is known of the jobs, with the bytes of one flow."""
    rows = [
        (
            each.profile.compute_s,
            each.profile.overlap_share,
            each.profile.node_bytes / each.channels(place.nics),
            HOST_BYTES_PER_S,
        )
        for each in jobs
    ]
    return JobColumns(*np.array(rows, np.float64).reshape(-1, 4).T)


def contention_of(
    place: NodeMap, jobs: Sequence[PlacedJob], entries: Sequence[tuple[Ints, Floats]]
) -> Contention:
    """Return jobs on the links of a network, with the capacities that are configured."""
    return of_entries(columns_of(place, jobs), place.capacity, entries)


def ideal_s(profile: TrafficProfile, nodes: int, place: NodeMap) -> float:
    """Return an iteration on whole nodes with all their NICs, without anybody else."""
    rate = HOST_BYTES_PER_S if nodes < 2 else place.nic_bytes_per_s * place.nics
    sending = profile.node_bytes / rate
    computing = profile.compute_s
    return max(computing, (1.0 - profile.overlap_share) * computing + sending)
