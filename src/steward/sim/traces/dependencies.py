"""Which job waits for which: ids become rows; rings, which could never start, are found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

__all__ = ["Dependencies", "resolve"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """`pairs` (job, job that must end before) as places among the rows given."""

    pairs: Ints
    in_ring: NDArray[np.bool_]  # per row: waits, through others, for itself
    unknown: NDArray[np.bool_]  # per row: names a job that is not there, or not usable


def resolve(ids: pl.Series, after: pl.Series) -> Dependencies:
    """Turn the ids in `after` (parted by `;`) into pairs of rows."""
    n = len(ids)
    named = (
        pl.DataFrame({"job": np.arange(n), "id": after})
        .drop_nulls()
        .with_columns(pl.col("id").str.split(";"))
        .explode("id", empty_as_null=True)
        .with_columns(pl.col("id").str.strip_chars())
        .filter(pl.col("id").is_not_null() & (pl.col("id") != ""))
        .unique(maintain_order=True)
    )
    known = pl.DataFrame({"id": ids, "before": np.arange(n)})
    met = named.join(known, on="id", how="left", maintain_order="left")
    unknown = np.zeros(n, np.bool_)
    unknown[met.filter(pl.col("before").is_null())["job"].to_numpy()] = True
    pairs = (
        met.drop_nulls("before").select("job", "before").to_numpy().astype(np.int64).reshape(-1, 2)
    )
    in_ring = _rings(pairs, n)
    unknown[pairs[in_ring[pairs[:, 1]], 0]] = True  # what it waits for is left out
    pairs = pairs[~in_ring[pairs].any(axis=1)]
    return Dependencies(pairs=pairs, in_ring=in_ring, unknown=unknown)


def _rings(pairs: Ints, n: int) -> NDArray[np.bool_]:
    ring = np.zeros(n, np.bool_)
    if len(pairs) == 0:
        return ring
    graph = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    _, component = connected_components(graph.tocsr(), directed=True, connection="strong")
    ring[:] = np.bincount(component, minlength=n)[component] > 1
    ring[pairs[pairs[:, 0] == pairs[:, 1], 0]] = True  # waits for itself
    return ring
