"""SpanStore: the last word of an id counts, and every sample has the labels of its moment."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.model.span import Span
from steward.store.files.spans import SpanStore, labelled, read_spans, segments


def span(id_: str = "s", name: str = "a", **fields: object) -> Span:
    known = {"entity": "n1/gpu0", "kind": "job", "from_s": 10.0, "to_s": 20.0, **fields}
    return Span(id=id_, name=name, **known)  # type: ignore[arg-type]


def test_a_later_span_with_the_same_id_replaces_the_earlier_one(tmp_path: Path) -> None:
    file = tmp_path / "spans.jsonl"
    spans = SpanStore(file)
    spans.keep([span(to_s=None, about={"exit": "?"})])
    spans.flush()
    spans.keep([span(to_s=15.0), span("t", "b")])
    spans.flush()

    again = read_spans(file, pytest.fail)

    assert again == (span(to_s=15.0), span("t", "b"))
    assert SpanStore(file).all() == again


def test_a_span_that_says_nothing_new_is_not_written_again(tmp_path: Path) -> None:
    file = tmp_path / "spans.jsonl"
    spans = SpanStore(file)
    for _ in range(100):
        spans.keep([span()])
        spans.flush()

    assert len(file.read_text().splitlines()) == 1


def test_a_file_of_many_replaced_lines_is_made_short_when_it_is_opened(tmp_path: Path) -> None:
    file = tmp_path / "spans.jsonl"
    spans = SpanStore(file)
    spans.keep(span(to_s=float(20 + number)) for number in range(3000))
    spans.flush()

    assert SpanStore(file).all() == (span(to_s=3019.0),)
    assert len(file.read_text().splitlines()) == 1


@pytest.mark.parametrize(
    "line", ['{"id": 1}', '{"id":"x","entity":"e","kind":"k","name":"n"}', "{"]
)
def test_a_line_that_is_no_span_is_left_out(tmp_path: Path, line: str) -> None:
    file = tmp_path / "spans.jsonl"
    file.write_text(line + "\n")

    assert SpanStore(file).all() == ()


def test_overlapping_spans_become_stretches_that_name_both() -> None:
    spans = [span("1", "a", from_s=0.0, to_s=10.0), span("2", "b", from_s=5.0, to_s=None)]

    cut = [(each.from_s, each.to_s, each.name) for each in segments(spans, "job")]

    assert cut == [(0.0, 5.0, "a"), (5.0, 10.0, "a+b"), (10.0, float("inf"), "b")]


def test_samples_are_labelled_by_entity_and_time() -> None:
    frame = pl.DataFrame(
        {"t_s": [5.0, 10.0, 19.9, 20.0, 12.0, 12.0], "entity": ["n1/gpu0"] * 4 + ["n1/gpu1", "n1"]}
    )

    exact = labelled(frame, [span()], "job")["job"].to_list()
    whole = labelled(frame, [span(entity="n1/*")], "job")["job"].to_list()

    assert exact == [None, "a", "a", None, None, None]
    assert whole == [None, "a", "a", None, "a", None]


times = st.integers(0, 20).map(float)


@given(st.lists(st.tuples(times, times, st.sampled_from("abc")), max_size=8), times)
def test_a_label_names_exactly_the_spans_that_hold_at_that_moment(
    made: list[tuple[float, float, str]], t_s: float
) -> None:
    spans = [span(str(number), name, from_s=a, to_s=b) for number, (a, b, name) in enumerate(made)]
    frame = pl.DataFrame({"t_s": [t_s], "entity": ["n1/gpu0"]})

    (label,) = labelled(frame, spans, "job")["job"].to_list()

    holding = sorted({name for a, b, name in made if a <= t_s < b})
    assert label == ("+".join(holding) or None)
