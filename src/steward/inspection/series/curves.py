"""Curves of the series behind findings, read again for reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from steward.inspection.report import Diagnosis
from steward.inspection.series.telemetry import telemetry_frames
from steward.model.frame import ENTITY, T_S, Frame

__all__ = ["EvidenceCurve", "curves_of"]

_FINDINGS = 50
_METRICS = 3  # of one finding
_POINTS = 300
_PAD_SHARE = 0.5  # of the stretch that fired, shown before and after it
_PAD_S = 60.0  # at least


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceCurve:
    """One metric of one entity around the stretch in which a rule fired."""

    metric: str
    entity: str
    from_s: float
    to_s: float
    t_s: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(slots=True)
class _CurveRequest:
    metric: str
    entity: str
    from_s: float
    to_s: float
    parts: list[Frame] = field(default_factory=list)

    @property
    def pad_s(self) -> float:
        return max(_PAD_S, (self.to_s - self.from_s) * _PAD_SHARE)

    def add(self, frame: Frame) -> None:
        if self.metric not in frame.columns:
            return
        mine = (pl.col(ENTITY) == self.entity) | pl.col(ENTITY).str.starts_with(f"{self.entity}/")
        near = pl.col(T_S).is_between(self.from_s - self.pad_s, self.to_s + self.pad_s)
        rows = frame.filter(mine & near & pl.col(self.metric).is_not_null())
        self.parts.append(rows.select(T_S, pl.col(self.metric).cast(pl.Float64).alias("value")))

    def curve(self) -> EvidenceCurve | None:
        whole = pl.concat(self.parts) if self.parts else None
        if whole is None or not whole.height:
            return None
        times_s = whole[T_S].to_numpy()
        width_s = max(float(times_s.max() - times_s.min()) / _POINTS, 1e-9)
        step = (pl.col(T_S) / width_s).floor()
        thin = whole.group_by(step.alias("step")).agg(pl.col(T_S).min(), pl.col("value").mean())
        thin = thin.sort(T_S)
        return EvidenceCurve(
            metric=self.metric,
            entity=self.entity,
            from_s=self.from_s,
            to_s=self.to_s,
            t_s=tuple(thin[T_S].to_list()),
            values=tuple(thin["value"].to_list()),
        )


def curves_of(
    findings: Sequence[Diagnosis], paths: Sequence[Path]
) -> Mapping[tuple[str, str], tuple[EvidenceCurve, ...]]:
    """Return the curves of the metrics of findings, by rule and entity."""
    wanted = {
        (each.rule.id, each.entity): _wanted(each)
        for each in findings[:_FINDINGS]
        if any(proof.metric for proof in each.evidence)
    }
    every = [one for group in wanted.values() for one in group]
    names = frozenset(one.metric for one in every)
    for path in paths if every else ():
        for piece in telemetry_frames(path, names):
            if isinstance(piece, pl.DataFrame):
                for one in every:
                    one.add(piece)
    curves = {key: [one.curve() for one in group] for key, group in wanted.items()}
    return {key: tuple(c for c in group if c is not None) for key, group in curves.items()}


def _wanted(found: Diagnosis) -> list[_CurveRequest]:
    spans: dict[tuple[str, str], _CurveRequest] = {}
    for proof in found.evidence:
        for metric in proof.metric.split(", ") if proof.metric else ():
            from_s = proof.since or proof.t
            one = spans.setdefault(
                (metric, proof.entity), _CurveRequest(metric, proof.entity, from_s, proof.t)
            )
            one.from_s, one.to_s = min(one.from_s, from_s), max(one.to_s, proof.t)
    return list(spans.values())[:_METRICS]
