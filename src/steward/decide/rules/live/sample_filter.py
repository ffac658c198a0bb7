"""Samples of an observation as one frame for metric terms, with job holders and phases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import polars as pl

from steward.decide.rules.metric import Phases
from steward.model.event import Observation
from steward.model.frame import ENTITY, T_S, Frame, empty_frame
from steward.model.view import ClusterView

__all__ = ["SampleFilter"]

_PHASE = "steward_phase"  # column prefix of phases in metric terms
_JOB = "job_id"
_NO_HOLDERS: Mapping[str, str] = MappingProxyType({})


class SampleFilter:
    """Select the samples that some rule needs from each observation."""

    def __init__(self, wants: frozenset[str]) -> None:
        self._wants = wants
        self._phases = Phases() if _PHASE in wants else None

    def of(self, seen: Observation, view: ClusterView) -> Frame:
        """Return the needed samples; rows of GPUs name the job that holds them."""
        frame = pl.concat([empty_frame(), *self._parts(seen, view.t_s)], how="diagonal")
        holders = _holders(view)
        if not frame.height or not holders:
            return frame
        held = pl.col(ENTITY).replace_strict(holders, default=None, return_dtype=pl.String)
        return frame.with_columns(held.alias(_JOB))

    def _parts(self, seen: Observation, now_s: float) -> Iterator[Frame]:
        for table in seen.tables:
            kept = [name for name in table.columns if name in self._wants]
            if kept:
                yield table.select(T_S, ENTITY, *kept)
        other = seen.other
        if other.height:
            other = other.filter(pl.col("metric").is_in(list(self._wants)))
        if other.height:
            wide = other.group_by(T_S, ENTITY, "metric").agg(pl.col("value").last())
            yield wide.pivot("metric", index=[T_S, ENTITY], values="value")
        if self._phases is not None:
            yield self._phases.add(seen.spans, now_s)


def _holders(view: ClusterView) -> Mapping[str, str]:
    rows = [row for row, owner in enumerate(view.gpus.owner.tolist()) if owner >= 0]
    if not rows:
        return _NO_HOLDERS
    jobs = view.jobs.ids[view.gpus.owner[rows]]
    return {str(gpu): str(job) for gpu, job in zip(view.gpus.ids[rows], jobs, strict=True)}
