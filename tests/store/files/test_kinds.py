"""The kind of an entity is derived from its name, in the same way by polars and by SQL."""

from __future__ import annotations

import duckdb
import polars as pl
import pytest

from steward.store.files.kinds import KIND_SQL, NODE_SQL, kind_of

NAMES = {
    "n01": ("n01", "node"),
    "n01/gpu3": ("n01", "gpu"),
    "n01/gpu3/mig0": ("n01", "mig"),
    "n01/cpu7": ("n01", "cpu"),
    "n01/disk:sda": ("n01", "disk"),
    "n01/net:eth0": ("n01", "net"),
    "n01/ib:mlx5_0:1": ("n01", "ib"),
    "n01/numa0": ("n01", "numa"),
    "n01/fs:/data/x": ("n01", "fs"),
    "n01/fs:/": ("n01", "fs"),
    "n01/fs:/a:b/gpu3/c%40d": ("n01", "fs"),
    "job:812": (None, "job"),
    "n01@812": ("n01", "job"),
    "n01/gpu3@812": ("n01", "share"),
}


@pytest.mark.parametrize("entity", NAMES)
def test_node_and_kind(entity: str) -> None:
    node, kind = NAMES[entity]
    frame = pl.DataFrame({"entity": [entity]})

    with duckdb.connect() as connection:
        queried = f"SELECT {NODE_SQL}, {KIND_SQL} FROM (SELECT '{entity}' AS entity)"
        (result,) = connection.execute(queried).fetchall()

    assert result == (node, kind)
    assert frame.select(kind_of()).item() == kind
