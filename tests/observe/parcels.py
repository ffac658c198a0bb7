"""Small parcels and observations for tests."""

from __future__ import annotations

from typing import Any

import polars as pl

from factories import cluster, job, node, samples
from steward.model.cluster import Health
from steward.model.event import Event, LogLine, Observation
from steward.model.frame import OTHER_SCHEMA
from steward.model.identity import GpuId, NodeId
from steward.model.span import Span
from steward.observe.agent.parcel import ParcelHeader, pack_parcel

T0 = 1_700_000_000.0
BUSY, WATTS = "gpu.busy_share", "gpu.power_watts"


def label(sequence: int = 1, **changes: Any) -> ParcelHeader:
    values = {"agent": "a-1", "run": "r-1", "sequence": sequence, "node": "n1", "packed_s": T0}
    return ParcelHeader(**{**values, **changes})


def small(t_s: float = T0, *, busy: float = 0.5, entity: str = "n1/gpu0") -> Observation:
    """Return an observation with one sample."""
    return Observation(frames=(samples(t_s, {entity: {BUSY: busy}}),))


def full() -> Observation:
    """Return an observation that has one of everything but tenants."""
    return Observation(
        frame=samples(T0, {"n1/gpu0": {BUSY: 0.5, WATTS: None}, "n1/gpu1": {BUSY: 1.0, WATTS: 7}}),
        frames=(samples(T0 + 1, {"n1": {"host.cpu.busy_share": 0.25}}),),
        other=pl.DataFrame([[T0], ["n1"], ["odd"], [3.5]], schema=OTHER_SCHEMA),
        events=(Event(t_s=T0, kind="gpu.failed", subject="n1/gpu0", text="gone", source="nvml"),),
        lines=(LogLine(t_s=T0, entity="n1", source="kernel", text="Ünïcode\n", level=3),),
        spans=(
            Span(id="s", entity="n1/*", kind="job", name="812", from_s=T0, about={"user": "x"}),
            Span(id="t", entity="n1", kind="job", name="812", from_s=T0, to_s=T0 + 5),
        ),
        jobs=(job("812", on=("n1/gpu0",)),),
        cluster=cluster(node("n1")),
        health={GpuId("n1/gpu0"): Health.WORN},
        draining={NodeId("n1"): True},
    )


def parcel(sequence: int = 1, seen: Observation | None = None, **changes: Any) -> bytes:
    return pack_parcel(label(sequence, **changes), seen or small(T0 + sequence))
