"""Samples of an observation as one frame for metric terms, with job holders and phases."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from steward.decide.rules.metric import Phases
from steward.model.event import Observation
from steward.model.frame import ENTITY, T_S, Frame, empty_frame
from steward.model.view import ClusterView

__all__ = ["SampleFilter"]

_PHASE = "steward_phase"  # column prefix of phases in metric terms
_JOB = "job_id"


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
        # Holders change with every job that starts or ends: one pass costs less than a join.
        held = [holders.get(entity, "") for entity in frame[ENTITY].to_list()]
        return frame.with_columns(pl.Series(_JOB, held, pl.String))

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


def _holders(view: ClusterView) -> dict[str, str]:
    rows = np.flatnonzero(view.gpus.owner >= 0)
    jobs = view.jobs.ids[view.gpus.owner[rows]]
    return dict(zip(view.gpus.ids[rows].tolist(), jobs.tolist(), strict=True))
