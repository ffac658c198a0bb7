"""Ended series are dropped, and reports do not depend on that."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decide.rules.metric.frames import IDLE, busy, watch
from steward.decide.rules.metric import KeyIndex, MetricWatch, sample_buffer, sort_frame
from steward.decide.rules.metric.series_index import SeriesIndex
from steward.decide.rules.promql.label_index import LabelIndex, Labels
from steward.model.rules import Item

BY_NODE = "avg by (node) (steward_gpu_busy_share) < 0.3"
BOTH = (
    'steward_gpu_busy_share{gpu="0"} < 0.3 and on (node) avg_over_time(steward_gpu_busy_share[10m])'
)


def _sizes(term: MetricWatch) -> tuple[int, int]:
    return len(term._evaluation._buffer.known), len(term._evaluation.state.since)  # type: ignore[attr-defined]


@pytest.mark.parametrize("expr", [IDLE, BY_NODE, BOTH])
def test_series_that_ended_take_no_room_and_are_not_counted_as_lost(expr: str) -> None:
    idle = watch(expr)

    for turn in range(200):  # each but the first is there for two minutes
        values = {"n1/gpu0": [0.1], f"m{turn}/gpu0": [0.9]}
        idle.add(busy(values, from_s=1000.0 + 120.0 * turn))

    assert max(_sizes(idle)) < 80
    assert idle.counts.evicted == 0
    assert len(idle.holding()) == 1


def test_nothing_holds_any_longer_once_all_telemetry_has_been_silent_for_long() -> None:
    idle = watch(IDLE)
    idle.add(busy({"n1/gpu0": [0.1] * 60}))
    before = idle.holding()

    idle.tick(10_000 * 10**9)

    assert before == {"n1/gpu0"}
    assert idle.holding() == frozenset()


def test_what_is_missed_is_never_forgotten() -> None:
    gone = watch("absent(steward_gpu_busy_share)")
    gone.add(busy({"n1/gpu0": [0.1], "n2/gpu0": [0.1]}))

    for turn in range(1, 200):
        gone.add(busy({"n2/gpu0": [0.1]}, from_s=1000.0 + 120.0 * turn))

    assert gone.holding() == {"n1/gpu0"}


def _all(expr: str, looks: list[tuple[int, float, float]], shared: KeyIndex | None) -> object:
    """Return all reports and ends: `looks` are GPUs (as bits), busy, and minutes since."""
    term, t_s = watch(expr, for_s=60), 1000.0
    found: list[tuple[list[Item], list[object]]] = []
    for who, share, minutes in looks:
        t_s += 60.0 * minutes
        values = {f"n{i // 2}/gpu{i % 2}": [share] for i in range(4) if who >> i & 1}
        found.append((term.add(sort_frame(busy(values, from_s=t_s), shared)), [*term.ended]))
    return found, term.counts, term.holding()


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([IDLE, BY_NODE, BOTH]),
    st.lists(
        st.tuples(
            st.integers(1, 15), st.sampled_from([0.1, 0.9]), st.sampled_from([0.5, 1, 4, 30, 70])
        ),
        min_size=2,
        max_size=25,
    ),
)
def test_what_is_told_is_the_same_as_if_nothing_was_forgotten(
    expr: str, looks: list[tuple[int, float, float]]
) -> None:
    found = _all(expr, looks, KeyIndex())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sample_buffer, "_SWEEP_NS", 2**62)
        assert found == _all(expr, looks, None)


def test_numbers_of_keys_that_grow_too_many_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steward.decide.rules.metric.sorted_frame._MOST_GONE", 1)
    idle, key_index, found = watch(for_s=50), KeyIndex(), []

    for turn in range(8):
        names = {"n1/gpu0": [0.1], f"m{turn}/gpu0": [0.1]}
        rows = sort_frame(busy(names, from_s=1000.0 + 10 * turn), key_index)
        key_index = rows.key_index
        found += idle.add(rows)

    assert len(key_index) < 6
    assert [item.entity for item in found] == ["n1/gpu0"]


def test_labels_are_worked_out_once_for_each_and_only_for_new_ones() -> None:
    label_index, asked = LabelIndex(), []

    def node(labels: Labels) -> Labels:
        asked.append(labels)
        return labels[-1:]

    first = [(("gpu", str(gpu)), ("node", "n1")) for gpu in range(3)]
    new = (("gpu", "0"), ("node", "n2"))
    names = label_index.names(first).made("node", node)
    again = label_index.names([*first, new]).made("node", node)

    assert list(names) == [(("node", "n1"),)] * 3
    assert list(again) == [(("node", "n1"),)] * 3 + [(("node", "n2"),)]
    assert asked == [*first, new]


def test_equal_rows_have_one_label_column_and_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steward.decide.rules.metric.series_index._MOST_COLUMNS", 3)
    known = SeriesIndex()
    for gpu in range(20):
        known.number((f"n1/gpu{gpu}", ""))

    same = [known.names(np.arange(2)) for _ in range(2)]
    every = [list(known.names(np.array([row]))) for row in range(20)]

    assert same[0] is same[1]
    assert every == [[known.labels[row]] for row in range(20)]
    assert len(known._some) <= 4


def test_ways_to_make_labels_of_others_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steward.decide.rules.promql.label_index._MOST_DERIVATIONS", 3)
    names = LabelIndex().names([()])

    made = [
        list(names.made(kind, lambda _, kind=kind: (("phase", str(kind)),))) for kind in range(20)
    ]

    assert made == [[(("phase", str(kind)),)] for kind in range(20)]
    assert len(names.label_index._made) <= 4


@given(st.lists(st.integers(0, 9)), st.lists(st.integers(0, 12), max_size=20))
def test_each_of_some_names_is_found_once_in_their_order(
    mine: list[int], wanted: list[int]
) -> None:
    label_index = LabelIndex()
    names = label_index.names((("gpu", str(each)),) for each in mine)

    each = names.distinct

    assert list(each.names) == list(dict.fromkeys(names))
    assert list(each.names.only(each.rows)) == list(names)
    assert each.first.tolist() == [mine.index(one) for one in dict.fromkeys(mine)]
    places = {one: row for row, one in enumerate(dict.fromkeys(mine))}
    asked = label_index.names((("gpu", str(one)),) for one in wanted)
    assert each.names.rows_of(asked).tolist() == [places.get(one, -1) for one in wanted]


@pytest.mark.parametrize("expr", [IDLE, BY_NODE, BOTH])
def test_what_is_told_does_not_depend_on_when_numbers_begin_anew(
    expr: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = [(1 + turn % 15, 0.1 if turn % 7 else 0.9, 1.0) for turn in range(60)]
    kept = _all(expr, looks, KeyIndex())

    monkeypatch.setattr("steward.decide.rules.metric.sorted_frame._MOST_GONE", -10)
    assert _all(expr, looks, KeyIndex()) == kept
