"""The kind of an entity, from its name (see `model/frame.py`)."""

from __future__ import annotations

import polars as pl

from steward.model.frame import ENTITY

__all__ = ["KIND_SQL", "NODE_SQL", "kind_of"]

# `n01/gpu3/mig0` is a mig, `n01/disk:sda` a disk, `n01@812` a job on a node, `n01` a node.
_LAST_NAME = r"/([a-z_]+)[^/]*$"

NODE_SQL = (
    "CASE WHEN starts_with(entity, 'job:') THEN NULL "
    "ELSE regexp_extract(entity, '^([^/@]+)', 1) END"
)
KIND_SQL = (
    "CASE WHEN starts_with(entity, 'job:') THEN 'job' "
    "WHEN contains(entity, '@') THEN CASE WHEN contains(entity, '/') THEN 'share' ELSE 'job' END "
    "WHEN contains(entity, '/') "
    "THEN regexp_extract(split_part(entity, ':', 1), '/([a-z_]+)[^/]*$', 1) ELSE 'node' END"
)


def kind_of(entity: str = ENTITY) -> pl.Expr:
    """Return the kind of each entity in a column: node, gpu, mig, cpu, disk, job, share, ..."""
    name = pl.col(entity)
    last_name = name.str.split(":").list.first().str.extract(_LAST_NAME)
    return (
        pl.when(name.str.starts_with("job:"))
        .then(pl.lit("job"))
        .when(name.str.contains("@", literal=True))
        .then(
            pl.when(name.str.contains("/", literal=True))
            .then(pl.lit("share"))
            .otherwise(pl.lit("job"))
        )
        .otherwise(last_name.fill_null("node"))
    )
