"""`steward learn changes` and `steward learn anomalies`: when recorded series changed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steward.cli.options import Json
from steward.cli.output import print_json, print_note, print_table, print_warnings

if TYPE_CHECKING:
    from steward.learn.patterns.anomalies import Anomalies, AnomalyEvent
    from steward.learn.patterns.changes import Change, MetricPeriod
    from steward.learn.patterns.series import EntitySeries
    from steward.observe.importing.source import ImportCounts

__all__ = ["anomalies", "changes"]

_NAMED = 3
Source = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="CSV (`timestamp,value`, or a column per metric), Parquet, OpenMetrics, a folder of "
        "such files, or a folder that steward recorded.",
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="PATTERN", help="Only metrics like this, such as 'gpu.*'."),
]
ByEntity = Annotated[
    bool,
    typer.Option("--each", help="Look at each entity alone, not at a node with all its devices."),
]
Progress = Callable[[str], None]


def changes(
    file: Source,
    *,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            metavar="NAME",
            help="pelt divides the whole recording; bocpd, page-hinkley and adwin read it once, "
            "as if live.",
        ),
    ] = "pelt",
    penalty: Annotated[
        float,
        typer.Option("--penalty", min=0.1, max=1000, help="How clear a change has to be (pelt)."),
    ] = 2.0,
    only: Only = None,
    each: ByEntity = False,
    as_json: Json = False,
) -> None:
    """Find when series changed, all metrics of a node together, and what repeats itself."""
    from steward.errors import unknown_name
    from steward.learn.patterns.changes import METHODS, Segmentation, find_changes, find_periods

    if method not in METHODS:
        raise unknown_name("method", method, METHODS, where="--method")
    how = Segmentation(penalty=penalty, metric_penalty=penalty / 8)
    found: list[Change] = []
    periods: list[MetricPeriod] = []
    with _progress() as progress:
        series, tally = _read(file, only, each=each, progress=progress)
        for one in series:
            progress(f"looking for changes of {one.entity}")
            found += find_changes(one, method=method, how=how)
            periods += find_periods(one)
    found.sort(key=lambda change: (change.t_s, change.entity))
    if as_json:
        print_json(
            _about(file, series, tally)
            | {
                "method": method,
                "times": [change.t_s for change in found],
                "scores": [change.score for change in found],
                "changes": [_dated(change, "t_s") for change in found],
                "periods": periods,
            }
        )
        return
    print_table(
        ("time (UTC)", "entity", "score", "what changed"),
        [(_utc(c.t_s), c.entity, f"{c.score:.1f}", _changed(c)) for c in found],
        empty="nothing changed",
    )
    for period in periods:
        print_note(_repeats(period))
    print_warnings([*tally.complaints(), *tally.notes])


def anomalies(
    file: Source,
    *,
    threshold: Annotated[
        float,
        typer.Option(
            "--threshold", min=0.5, max=12, help="Score from which a moment begins an event."
        ),
    ] = 3.3,
    most: Annotated[
        int | None,
        typer.Option("--most", min=1, help="Only the strongest so many events of each entity."),
    ] = None,
    only: Only = None,
    each: ByEntity = False,
    as_json: Json = False,
) -> None:
    """Score every moment by how unusual it is, all metrics together, and name those at fault.

    A moment is compared with earlier ones only, so the scores of a live series are the same.
    """
    from steward.learn.patterns.anomalies import AnomalySearch, find_anomalies

    search = AnomalySearch(threshold=threshold, most=most)
    found: list[Anomalies] = []
    with _progress() as progress:
        series, tally = _read(file, only, each=each, progress=progress)
        for one in series:
            what, size = one.entity, len(one.metrics)
            found.append(
                find_anomalies(
                    one,
                    search,
                    lambda n, what=what, size=size: progress(  # type: ignore[misc]
                        f"scoring {what}: {n} of {size} metrics"
                    ),
                )
            )
    events = sorted((e for a in found for e in a.events), key=lambda e: (e.from_s, e.entity))
    if as_json:
        times, scores = _together(found)
        print_json(
            _about(file, series, tally)
            | {
                "threshold": threshold,
                "times": times,
                "scores": scores,
                "events": [_dated(event, "peak_s") for event in events],
                "entities": [
                    {"entity": a.entity, "times": a.t_s.tolist(), "scores": a.scores.tolist()}
                    for a in found
                ]
                if len(found) > 1
                else [],
            }
        )
        return
    print_table(
        ("time (UTC)", "lasts", "entity", "score", "metrics at fault"),
        [
            (_utc(e.peak_s), f"{e.to_s - e.from_s:.0f} s", e.entity, f"{e.score:.1f}", _at_fault(e))
            for e in events
        ],
        empty=f"nothing scores above {threshold:g}",
    )
    print_warnings([*tally.complaints(), *tally.notes])


def _read(
    file: Path, only: Sequence[str] | None, *, each: bool, progress: Progress
) -> tuple[tuple[EntitySeries, ...], ImportCounts]:
    from steward.inspection.series.entity_series import read_entity_series
    from steward.observe.importing.source import ImportCounts

    tally = ImportCounts()
    series = read_entity_series(
        file, tally, only=tuple(only or ()), by_node=not each, progress=progress
    )
    return series, tally


def _about(file: Path, series: Sequence[EntitySeries], tally: ImportCounts) -> dict[str, object]:
    return {
        "file": str(file),
        "rows": tally.rows,
        "unused": tally.complaints(),
        "notes": tally.notes,
        "series": [
            {"entity": one.entity, "moments": len(one), "metrics": one.metrics} for one in series
        ],
    }


def _together(found: Sequence[Anomalies]) -> tuple[list[float], list[float]]:
    """Return the scores of all entities as one series: the highest of each moment."""
    if len(found) == 1:
        return found[0].t_s.tolist(), found[0].scores.tolist()
    best: dict[float, float] = {}
    for one in found:
        for t_s, score in zip(one.t_s.tolist(), one.scores.tolist(), strict=True):
            best[t_s] = max(score, best.get(t_s, 0.0))
    times = sorted(best)
    return times, [best[t_s] for t_s in times]


def _dated(value: Change | AnomalyEvent, moment: str) -> dict[str, object]:
    from dataclasses import fields

    record = {each.name: getattr(value, each.name) for each in fields(value)}
    return {"at": _utc(getattr(value, moment)), **record}


def _utc(t_s: float) -> str:
    try:
        return datetime.fromtimestamp(t_s, UTC).isoformat(sep=" ", timespec="seconds")[:19]
    except (OverflowError, ValueError, OSError):
        return f"{t_s:.0f} s"


def _changed(change: Change) -> str:
    shown = [f"{m.metric} {m.before:.4g} -> {m.after:.4g}" for m in change.metrics[:_NAMED]]
    return ", ".join(shown) + _more(len(change.metrics))


def _at_fault(event: AnomalyEvent) -> str:
    shown = [f"{c.metric} {c.value:.4g}, usually {c.usual:.4g}" for c in event.culprits[:_NAMED]]
    return "; ".join(shown) + _more(len(event.culprits))


def _more(count: int) -> str:
    return f" and {count - _NAMED} more" if count > _NAMED else ""


def _repeats(period: MetricPeriod) -> str:
    lost = ", ".join(f"{_utc(a)} to {_utc(b)}" for a, b in period.lost)
    text = f"{period.entity}: {period.metric} repeats every {period.period_s:g} s"
    text += f" (correlation {period.strength:.2f})"
    return text + (f"; lost from {lost}" if lost else "")


@contextmanager
def _progress() -> Iterator[Progress]:
    if not sys.stderr.isatty():
        yield lambda _what: None
        return
    from rich.console import Console

    with Console(stderr=True).status("reading") as status:
        yield status.update
