"""Label columns of samples."""

from __future__ import annotations

import polars as pl

from steward.model.span import Span
from steward.observe.importing.labels import LabelSpans


def block(*rows: tuple[float, str, str | None]) -> pl.DataFrame:
    schema = {"t_s": pl.Float64, "entity": pl.String, "phase": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def stretches(spans: list[Span]) -> list[tuple[str, str, float, float | None]]:
    last = {span.id: span for span in spans}
    return [(each.entity, each.name, each.from_s, each.to_s) for each in last.values()]


def test_a_stretch_ends_where_something_else_is_reported() -> None:
    spans = list(
        LabelSpans(source="f").of(
            block((2.0, "n1", "train"), (0.0, "n1", "compile"), (1.0, "n1", "compile"))
        )
    )

    assert stretches(spans) == [("n1", "compile", 0.0, 2.0), ("n1", "train", 2.0, 2.001)]


def test_a_stretch_continues_in_the_next_block() -> None:
    labels = LabelSpans(source="f")

    spans = [*labels.of(block((0.0, "n1", "compile"), (0.0, "n2", None)))]
    spans += labels.of(block((1.0, "n1", " compile "), (2.0, "n1", ""), (1.0, "n2", "eval")))

    assert stretches(spans) == [("n1", "compile", 0.0, 2.0), ("n2", "eval", 1.0, 1.001)]
    assert {span.kind for span in spans} == {"phase"}
