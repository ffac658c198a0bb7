"""SpanStore: the last span of an id counts, and every sample has the labels of its moment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.clock import ManualClock
from steward.model.span import Span
from steward.store.files.spans import SpanStore, label_intervals, labelled, read_spans


def span(id_: str = "s", name: str = "a", **fields: object) -> Span:
    known = {"entity": "n1/gpu0", "kind": "job", "from_s": 10.0, "to_s": 20.0, **fields}
    return Span(id=id_, name=name, **known)  # type: ignore[arg-type]


@contextmanager
def closing(spans: SpanStore) -> Iterator[SpanStore]:
    try:
        yield spans
    finally:
        spans.table.close()


@pytest.fixture
def spans(tmp_path: Path) -> Iterator[SpanStore]:
    with closing(SpanStore(tmp_path / "spans")) as opened:
        yield opened


def test_a_later_span_with_the_same_id_replaces_the_earlier_one(
    tmp_path: Path, spans: SpanStore
) -> None:
    spans.keep([span(to_s=None, about={"exit": "?"})])
    spans.table.flush()
    spans.keep([span(to_s=15.0), span("t", "b")])
    spans.table.flush()

    assert read_spans(tmp_path, pytest.fail) == (span(to_s=15.0), span("t", "b"))
    assert spans.read() == (span(to_s=15.0), span("t", "b"))


def test_a_correction_to_an_earlier_end_counts_also_after_a_restart_with_the_clock_set_back(
    tmp_path: Path,
) -> None:
    with closing(SpanStore(tmp_path / "spans", clock=ManualClock(1000.0))) as first:
        first.keep([span(from_s=0.0, to_s=90_000.0)])
    with closing(SpanStore(tmp_path / "spans", clock=ManualClock(1.0))) as second:
        second.keep([span(from_s=0.0, to_s=5.0)])

    assert read_spans(tmp_path, pytest.fail) == (span(from_s=0.0, to_s=5.0),)


def test_a_span_without_changes_is_not_written_again(spans: SpanStore) -> None:
    for _ in range(100):
        spans.keep([span()])
        spans.table.flush()

    assert len(spans.table.files(from_s=0.0, to_s=1e11)) == 1


def test_more_spans_than_memory_holds_are_all_there(tmp_path: Path) -> None:
    several = [span(str(number), from_s=1000.0, to_s=None) for number in range(600)]
    with closing(SpanStore(tmp_path / "spans", max_recent=50)) as spans:
        spans.keep(several)

        assert len(spans._recent) == 50

    with closing(SpanStore(tmp_path / "spans")) as spans:
        assert spans.read() == tuple(several)
        assert spans.table.damage() == ()


def test_old_spans_go_and_open_ones_stay(tmp_path: Path) -> None:
    with closing(SpanStore(tmp_path / "spans", keep_days=2.0)) as spans:
        spans.keep([span("open", from_s=0.0, to_s=None), span("closed", from_s=0.0, to_s=10.0)])
        for hour in range(24 * 4):
            spans.keep([span(f"{hour}", from_s=hour * 3600.0, to_s=hour * 3600.0 + 1)])
            spans.table.flush()
            spans.upkeep(hour * 3600.0 + 60)

        ids = {each.id for each in spans.read()}

    assert "open" in ids
    assert "closed" not in ids


def test_a_damaged_file_of_spans_is_named_and_the_others_are_read(
    tmp_path: Path, spans: SpanStore
) -> None:
    for number in range(2):
        spans.keep([span(str(number))])
        spans.table.flush()
    file = spans.table.files(from_s=0.0, to_s=1e11)[0]
    file.write_bytes(file.read_bytes()[:-1] + b"X")
    notes: list[str] = []

    found = read_spans(tmp_path, notes.append)

    assert len(found) == 1
    assert "is damaged" in notes[0]


def test_overlapping_spans_become_stretches_that_name_both() -> None:
    spans = [span("1", "a", from_s=0.0, to_s=10.0), span("2", "b", from_s=5.0, to_s=None)]

    cut = [(each.from_s, each.to_s, each.name) for each in label_intervals(spans, "job")]

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
