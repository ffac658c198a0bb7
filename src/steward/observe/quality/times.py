"""Checks of sample times: gaps with their cause, and duplicate moments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

from steward.model.frame import ENTITY, T_S, Frame
from steward.model.span import Span
from steward.observe.quality.flaw import Flaw, FlawSeverity

__all__ = ["SampleTimes", "gap_flaws"]

_LONG = 5.0  # usual periods without a sample
_LEAST_S = 1.0
_SERIOUS_S = 60.0
_NEAR_S = 10.0
_SHOWN = 5
Event = Mapping[str, object]


class SampleTimes:
    """When each entity of some files was seen; hours have to come in order of time."""

    def __init__(self) -> None:
        self._last: Frame | None = None  # the last moment of each entity
        self._gaps: list[Frame] = []
        self._twice: list[Frame] = []

    def add(self, files: Sequence[Path]) -> None:
        """Take the times of an hour in. A moment in two files of different columns is one."""
        read = [pl.scan_parquet(file, glob=False).select(ENTITY, T_S).collect() for file in files]
        self._count_twice(read)
        before = [] if self._last is None else [self._last]
        seen = pl.concat([*before, *read]).unique().sort(ENTITY, T_S)
        step = pl.col(T_S).diff().over(ENTITY)
        steps = seen.with_columns(step.alias("step_s"))
        usual = pl.col("step_s").filter(pl.col("step_s") > 0).median().over(ENTITY)
        timed = steps.with_columns(usual.alias("usual_s"))
        long = pl.col("step_s") > pl.max_horizontal(_LONG * pl.col("usual_s"), pl.lit(_LEAST_S))
        self._gaps.append(timed.filter(long))
        self._last = seen.group_by(ENTITY).agg(pl.col(T_S).max())

    def _count_twice(self, read: Sequence[Frame]) -> None:
        for rows in read:
            extra = pl.struct(ENTITY, T_S).is_first_distinct().not_()
            twice = rows.filter(extra).group_by(ENTITY).agg(pl.len().alias("count"))
            self._twice.append(twice)

    def gaps(self) -> Frame:
        """Return each gap: entity, when it ended, how long it was, what was usual."""
        return pl.concat(self._gaps) if self._gaps else pl.DataFrame()

    def twice(self) -> Frame:
        """Return how often each entity has two rows of one moment."""
        if not self._twice:
            return pl.DataFrame()
        return pl.concat(self._twice).group_by(ENTITY).agg(pl.col("count").sum()).sort(ENTITY)


def gap_flaws(
    times: SampleTimes, events: Sequence[Event], spans: Sequence[Span], columns: Sequence[str]
) -> Iterator[Flaw]:
    """Return the gaps of each entity, the longest with their causes, and duplicate moments."""
    metric = f"{columns[0]} and {len(columns) - 1} more" if len(columns) > 1 else "".join(columns)
    gaps = times.gaps()
    for (entity,), group in gaps.partition_by(ENTITY, as_dict=True).items() if gaps.height else ():
        longest = group.sort("step_s", descending=True)
        worst = longest["step_s"][0]
        causes = [_cause(row, events, spans) for row in longest.head(_SHOWN).to_dicts()]
        known_causes = sorted({cause for cause in causes if cause})
        yield Flaw(
            kind="gap",
            entity=str(entity),
            metric=metric,
            severity=FlawSeverity.WARNING
            if worst >= _SERIOUS_S and not known_causes
            else FlawSeverity.INFO,
            meaning=f"{group.height} gaps, {group['step_s'].sum():.4g} s together, the longest "
            f"{worst:.4g} s (usual: a sample every {longest['usual_s'][0]:.3g} s)"
            + (f"; {'; '.join(known_causes)}" if known_causes else "; no event explains it"),
            hint="nothing is known there: do not draw a line across it",
            evidence={
                "gaps": group.height,
                "longest_s": worst,
                "longest_to_s": longest[T_S][0],
                "total_s": float(group["step_s"].sum()),
            },
        )
    for row in times.twice().to_dicts() if times.twice().height else ():
        yield Flaw(
            kind="duplicate-time",
            entity=str(row[ENTITY]),
            metric=metric,
            severity=FlawSeverity.WARNING,
            meaning=f"{row['count']} moments have two rows with different values",
            hint="two collectors write the same thing, or a clock was set back",
            evidence={"count": row["count"]},
        )


def _cause(gap: Mapping[str, float], events: Sequence[Event], spans: Sequence[Span]) -> str:
    """Return what is known to have happened in a gap: an event, or the end of a run."""
    to_s, from_s = gap[T_S], gap[T_S] - gap["step_s"]
    node = str(gap[ENTITY]).partition("/")[0]
    for event in events:
        t_s, subject = event.get("t_s"), str(event.get("subject"))
        near = isinstance(t_s, int | float) and from_s - _NEAR_S <= t_s <= to_s + _NEAR_S
        if near and (
            subject.partition("/")[0] == node or str(event.get("kind")).startswith("clock")
        ):
            return f"event {event.get('kind')}: {str(event.get('text'))[:100]}"
    for span in spans:
        ended = span.to_s is not None and from_s - 1.0 <= span.to_s <= to_s
        if span.kind == "run" and ended and span.entity.partition("/")[0] == node:
            return "between two runs"
    return ""
