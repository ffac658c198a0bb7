"""Background traffic: flows whose sizes follow a table, between nodes drawn at random."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.model.fabric.routes import Routes
from steward.sim.fabric.traffic import Bundle

__all__ = ["SMALL_MIX", "SizeTable", "background", "size_table"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SizeTable:
    """A distribution of flow sizes: bytes, and the share of flows that are no larger."""

    size_bytes: Floats
    share: Floats

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """Return so many sizes, evenly between the lines of the table."""
        return np.maximum(np.interp(rng.random(count), self.share, self.size_bytes), 1.0)

    @property
    def mean_bytes(self) -> float:
        """The mean size."""
        middles = (self.size_bytes[1:] + self.size_bytes[:-1]) / 2
        return float((middles * np.diff(self.share)).sum())


# A small table of our own: mostly short answers, few long copies.
SMALL_MIX = SizeTable(
    size_bytes=np.array([0.0, 2e3, 1e4, 1e5, 1e6, 1e7]),
    share=np.array([0.0, 0.3, 0.6, 0.85, 0.97, 1.0]),
)


def size_table(text: str, *, where: str = "") -> SizeTable:
    r"""Read lines of a size in bytes and a cumulative percentage, as network simulators keep them.

    >>> size_table("0 0\n1000 50\n9000 100").mean_bytes
    2750.0
    """
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            size, percent = (float(part) for part in line.split())
        except ValueError:
            raise StewardError(
                f"line {number} is '{line[:60]}', not a size and a percentage", where=where
            ) from None
        rows.append((size, percent / 100))
    table = np.array(rows, np.float64).reshape(-1, 2)
    rises = bool((np.diff(table, axis=0) >= 0).all())
    if len(table) < 2 or not rises or table[-1, 1] != 1.0:
        raise StewardError("sizes and percentages do not rise to 100", where=where)
    return SizeTable(size_bytes=table[:, 0], share=table[:, 1])


def background(
    routes: Routes,
    table: SizeTable,
    rng: np.random.Generator,
    *,
    load: float,
    seconds: float,
    begin_s: float = 0.0,
) -> tuple[list[Bundle], Floats]:
    """Return flows, with when they begin, that load the mean endpoint's links by this share."""
    topology = routes.topology
    ends = topology.endpoints
    begin, links = topology.out_links
    up = sum(topology.links.bytes_per_s[links[begin[end] : begin[end + 1]]].sum() for end in ends)
    rate = load * float(up) / table.mean_bytes
    count = int(rng.poisson(rate * seconds))
    if count == 0 or len(ends) < 2:
        return [], np.zeros(0)
    starts = np.sort(rng.uniform(begin_s, begin_s + seconds, count))
    source = rng.integers(0, len(ends), count)
    target = (source + rng.integers(1, len(ends), count)) % len(ends)
    paths = routes.paths(ends[source], ends[target], hashes=rng.integers(0, 2**40, count))
    sizes = table.draw(rng, count)
    known = np.flatnonzero(paths.known)
    flows = [Bundle(volume=float(sizes[at]), variants=(paths.of(at),)) for at in known.tolist()]
    return flows, starts[known]
