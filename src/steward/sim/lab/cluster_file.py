"""Reads a cluster from a TOML file: nodes of several kinds, and how they come and go.

[[nodes]]             # one table per kind of node
count = 4
gpus = 8
type = "V100"         # optional, as all that follows; a trace's GPU types name these
cpus = 64
memory_bytes = 5e11
price_per_gpu_h = 2.5
idle_watts = 60       # per GPU
busy_watts = 300
gram_co2_per_kwh = 400
spot = false
mig_slices = 0        # 7: each GPU can be cut into seven
nodes_per_rack = 4
cluster = "main"
up = true             # false: comes later
on_demand = false     # true: rented; costs and draws power only while a job holds it
boot_s = 0            # and takes so long to come

[[changes]]           # failures and repairs, spot capacity, growth
t_s = 86400
node = 3              # counted from 0, in the order above
up = false
why = "power supply"
warning_s = 0         # told so long before: enough to save, and only the stop is paid
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from steward.errors import StewardError
from steward.model.machines import MachineChange, Machines

__all__ = ["read_cluster"]

RACKS_PER_SWITCH = 8


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class _Nodes(_Strict):
    count: int = Field(default=1, ge=1, le=100_000)
    gpus: int = Field(ge=0, le=1024)
    type: str = "gpu"
    cpus: float | None = Field(default=None, ge=0)
    memory_bytes: float | None = Field(default=None, ge=0)
    price_per_gpu_h: float = Field(default=2.0, ge=0)
    idle_watts: float = Field(default=60.0, ge=0)
    busy_watts: float = Field(default=300.0, ge=0)
    gram_co2_per_kwh: float = Field(default=400.0, ge=0)
    spot: bool = False
    mig_slices: int = Field(default=0, ge=0, le=16)
    nodes_per_rack: int = Field(default=4, ge=1)
    cluster: str = "main"
    up: bool = True
    on_demand: bool = False
    boot_s: float = Field(default=0.0, ge=0)


class _Change(_Strict):
    t_s: float = Field(ge=0)
    node: int = Field(ge=0)
    up: bool
    why: str = ""
    warning_s: float = Field(default=0.0, ge=0)


class _File(_Strict):
    nodes: list[_Nodes] = Field(min_length=1)
    changes: list[_Change] = []


def read_cluster(path: Path) -> Machines:
    """Read machines from a file; all of its mistakes are told at once."""
    try:
        found = _File.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        raise StewardError(f"is not TOML: {fault}", where=str(path), hint=_HINT) from fault
    except ValidationError as fault:
        raise StewardError(_mistakes(fault), where=str(path), hint=_HINT) from fault
    machines = _machines(found)
    wrong = [change.node for change in found.changes if change.node >= len(machines)]
    if wrong:
        problem = f"changes name node {wrong[0]}, but there are nodes 0 to {len(machines) - 1}"
        raise StewardError(problem, where=str(path), hint="nodes are counted from 0")
    return machines


_HINT = "`[[nodes]]` with `count`, `gpus` and `type` is enough; see `steward lab compare --help`"


def _mistakes(fault: ValidationError) -> str:
    told = []
    for each in fault.errors():
        place = ".".join(str(part) for part in each["loc"])
        told.append(f"{place}: {each['msg'][:1].lower()}{each['msg'][1:]}")
    return "; ".join(told)


def _machines(found: _File) -> Machines:
    kinds = [kind for kind in found.nodes for _ in range(kind.count)]
    types = tuple(dict.fromkeys(kind.type for kind in found.nodes))
    clusters = tuple(dict.fromkeys(kind.cluster for kind in found.nodes))
    rack = _racks(found)
    return Machines(
        gpus=np.array([kind.gpus for kind in kinds], np.int64),
        type=np.array([types.index(kind.type) for kind in kinds], np.int64),
        types=types,
        cpus=np.array([_or_nan(kind.cpus) for kind in kinds]),
        memory_bytes=np.array([_or_nan(kind.memory_bytes) for kind in kinds]),
        rack=rack,
        switch=rack // RACKS_PER_SWITCH,
        cluster=np.array([clusters.index(kind.cluster) for kind in kinds], np.int64),
        clusters=clusters,
        price_per_gpu_h=np.array([kind.price_per_gpu_h for kind in kinds]),
        spot=np.array([kind.spot for kind in kinds], np.bool_),
        idle_watts=np.array([kind.idle_watts for kind in kinds]),
        busy_watts=np.array([kind.busy_watts for kind in kinds]),
        gram_co2_per_kwh=np.array([kind.gram_co2_per_kwh for kind in kinds]),
        mig_slices=np.array([kind.mig_slices for kind in kinds], np.int64),
        up=np.array([kind.up for kind in kinds], np.bool_),
        on_demand=np.array([kind.on_demand for kind in kinds], np.bool_),
        boot_s=np.array([kind.boot_s for kind in kinds]),
        changes=tuple(
            MachineChange(**each.model_dump())
            for each in sorted(found.changes, key=lambda each: each.t_s)
        ),
    )


def _racks(found: _File) -> np.ndarray:
    """Fill racks one after another; another kind of node begins a new one."""
    racks: list[int] = []
    for kind in found.nodes:
        first = racks[-1] + 1 if racks else 0
        racks += [first + i // kind.nodes_per_rack for i in range(kind.count)]
    return np.array(racks, np.int64)


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value
