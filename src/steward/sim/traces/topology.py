"""Machines whose racks and switches are those of a real network: a table of hosts and switches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.model.machines import Machines, machines_of
from steward.sim.traces.cells import text
from steward.sim.traces.locate import find
from steward.sim.traces.table import collected, read_table

__all__ = ["read_topology"]

_LAYERS = ("dsw", "psw", "asw")  # core, spine and access switch of a host


def read_topology(
    path: str | Path = "lingjun_topology", *, gpus_per_node: int = 8, gpu_type: str = "gpu"
) -> Machines:
    """Read hosts with their switches (`host, dsw, psw, asw`) as machines, in the file's order.

    The access switch is the rack, the spine the switch, the core the cluster. Such tables say
    nothing about GPUs: every host gets `gpus_per_node` of `gpu_type`.
    """
    hosts = _hosts(_file(path))
    core, spine, access = (_codes(hosts, *_LAYERS[: depth + 1]) for depth in range(3))
    plain = machines_of(len(hosts) * gpus_per_node, gpus_per_node=gpus_per_node, gpu_type=gpu_type)
    names = tuple(hosts["dsw"].unique(maintain_order=True))
    return replace(plain, rack=access, switch=spine, cluster=core, clusters=names)


def _file(path: str | Path) -> Path:
    place = find(path)
    return place.path / "hosts.csv.gz" if place.path.is_dir() else place.path


def _hosts(file: Path) -> pl.DataFrame:
    where = str(file)
    if not file.is_file():
        raise StewardError("holds no hosts.csv.gz", where=where, hint="give a table of hosts")
    table = read_table(file)
    lacking = [column for column in _LAYERS if column not in table.columns]
    if lacking:
        raise StewardError(
            f"lacks {', '.join(lacking)}; it has: {', '.join(table.columns)}",
            where=where,
            hint="a topology names the core, spine and access switch of each host",
        )
    hosts = collected(table.scan.select(text(layer).alias(layer) for layer in _LAYERS), where=where)
    unplugged = int(hosts.select(pl.any_horizontal(pl.all().is_null()).sum()).item())
    if unplugged:
        problem = f"{unplugged} of {len(hosts)} hosts lack a switch"
        raise StewardError(problem, where=where, hint="name all three switches of every host")
    return hosts


def _codes(hosts: pl.DataFrame, *layers: str) -> NDArray[np.int64]:
    """Return numbers by first appearance; equal names under another switch are another switch."""
    path = hosts.select(pl.concat_str(layers, separator="/")).to_series()
    kinds = path.unique(maintain_order=True)
    return path.cast(pl.Enum(kinds)).to_physical().cast(pl.Int64).to_numpy()
