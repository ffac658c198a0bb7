"""The tool `telemetry`: one figure of a GPU over a time, or the GPUs with most or least of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import polars as pl
from pydantic import Field

from steward.model.frame import ENTITY, Frame
from steward.questions.facts import Fact, Reply, Sentence, say, unknown
from steward.questions.records import Records
from steward.questions.tools.shapes import Span, WindowArguments
from steward.questions.tools.sources import gpu_link, telemetry_source
from steward.store.telemetry import Telemetry

__all__ = ["MEASURES", "TelemetryArguments", "measured", "telemetry"]

Measure = Literal["power", "temperature", "use", "memory"]
Stat = Literal["mean", "max", "min"]
MEASURES: Mapping[str, tuple[str, str, str]] = {  # metric, unit, words
    "power": ("gpu.power_watts", "watts", "power"),
    "temperature": ("gpu.temperature_celsius", "celsius", "temperature"),
    "use": ("gpu.busy_share", "share", "use"),
    "memory": ("gpu.memory.used_bytes", "bytes", "memory in use"),
}
WORDS = {"mean": "average", "max": "highest", "min": "lowest"}
STEP_S = 300.0  # the coarsest tier: less to read, and a figure of hours needs no more
RAW_S = 7200.0  # up to so long, single samples are read
MOST_NAMED = 10


class TelemetryArguments(WindowArguments):
    """Which figure, of what, over which time."""

    measure: Measure = Field(
        description="power in watts, temperature, use (share of time busy), memory"
    )
    entity: str = Field(
        "", max_length=200, description="a GPU (NODE/gpuN); empty: compare all GPUs"
    )
    stat: Stat = Field("mean", description="mean, max or min over that time")
    order: Literal["most", "least"] = Field(
        "most", description="which come first, where all are compared"
    )
    count: int = Field(1, ge=1, le=MOST_NAMED, description="how many, where all are compared")


def telemetry(records: Records, asked: TelemetryArguments) -> Reply:
    """Return a figure with the query that gives it again."""
    store = records.telemetry
    if store is None:
        return unknown("There is no telemetry here.")
    span = asked.span(records, "1h")
    found = measured(store, asked, span)
    metric, unit, words = MEASURES[asked.measure]
    if found.is_empty():
        of = f" of {asked.entity}" if asked.entity else ""
        return unknown(f"There is no sample of {metric}{of} {span.words}.")
    rows = found.head(asked.count if not asked.entity else 1).rows(named=True)
    facts = [
        _fact(
            row[ENTITY], row["value"], asked, span, unit=unit, label=f"{WORDS[asked.stat]} {words}"
        )
        for row in rows
    ]
    return Reply(sentences=tuple(_sentence(each, asked, span, words) for each in facts))


def _fact(
    entity: str, value: float, asked: TelemetryArguments, span: Span, *, unit: str, label: str
) -> tuple[Fact, Fact]:
    source = telemetry_source(
        entity, MEASURES[asked.measure][0], asked.stat, span.from_s, span.to_s, _step_s(span) or 0
    )
    link = gpu_link(entity)
    return (
        Fact(label="GPU", value=entity, source=source, link=link),
        Fact(label=label, value=value, unit=unit, source=source, link=link),
    )


def _sentence(
    facts: tuple[Fact, Fact], asked: TelemetryArguments, span: Span, words: str
) -> Sentence:
    times = tuple(
        Fact(label=name, value=t_s, unit="time", source=facts[0].source, link=facts[0].link)
        for name, t_s in (("from", span.from_s), ("to", span.to_s))
    )
    text = (
        f"The {WORDS[asked.stat]} {words} of {{entity}} was {{value}}, from {{start}} to {{end}}."
    )
    return say(text, entity=facts[0], value=facts[1], start=times[0], end=times[1])


def measured(store: Telemetry, asked: TelemetryArguments, span: Span) -> Frame:
    """Return `entity` and `value`, those with most or least first."""
    metric = MEASURES[asked.measure][0]
    step_s = _step_s(span)
    frame = store.read(
        entities=[asked.entity] if asked.entity else None,
        metrics=[metric],
        from_s=span.from_s,
        to_s=span.to_s,
        step_s=step_s,
    )
    value = _value(metric, asked.stat, stepped=step_s is not None)
    columns = {"mean": f"{metric}.mean", "max": f"{metric}.max", "min": f"{metric}.min"}
    needed = columns[asked.stat] if step_s is not None else metric
    if needed not in frame.columns:
        return pl.DataFrame(schema={ENTITY: pl.String, "value": pl.Float64})
    found = frame.group_by(ENTITY).agg(value.alias("value")).drop_nulls("value")
    return found.sort(["value", ENTITY], descending=[asked.order == "most", False])


def _value(metric: str, stat: str, *, stepped: bool) -> pl.Expr:
    if not stepped:
        column = pl.col(metric)
        return {"mean": column.mean(), "max": column.max(), "min": column.min()}[stat]
    mean, count = pl.col(f"{metric}.mean"), pl.col(f"{metric}.count")
    by_stat = {
        "mean": (mean * count).sum() / count.sum(),
        "max": pl.col(f"{metric}.max").max(),
        "min": pl.col(f"{metric}.min").min(),
    }
    return by_stat[stat]


def _step_s(span: Span) -> float | None:
    """Return the step to read by; None reads single samples, of times that are short."""
    return None if span.to_s - span.from_s <= RAW_S else STEP_S
