"""What has ended is forgotten, and nothing that is told depends on it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decide.rules.metric.frames import IDLE, busy, watch
from steward.decide.rules.metric import MetricWatch, Numbering, arrange, intake
from steward.decide.rules.metric.promql.named import Names
from steward.decide.rules.metric.series import Known
from steward.model.rules import Item

BY_NODE = "avg by (node) (steward_gpu_busy_share) < 0.3"
BOTH = (
    'steward_gpu_busy_share{gpu="0"} < 0.3 and on (node) avg_over_time(steward_gpu_busy_share[10m])'
)


def _sizes(term: MetricWatch) -> tuple[int, int]:
    return len(term._way._intake.known), len(term._way.state.since)  # type: ignore[attr-defined]


@pytest.mark.parametrize("expr", [IDLE, BY_NODE, BOTH])
def test_series_that_ended_take_no_room_and_are_not_counted_as_lost(expr: str) -> None:
    idle = watch(expr)

    for turn in range(200):  # each but the first is there for two minutes
        values = {"n1/gpu0": [0.1], f"m{turn}/gpu0": [0.9]}
        idle.take(busy(values, from_s=1000.0 + 120.0 * turn))

    assert max(_sizes(idle)) < 80
    assert idle.counts.evicted == 0
    assert len(idle.holding()) == 1


def test_what_is_missed_is_never_forgotten() -> None:
    gone = watch("absent(steward_gpu_busy_share)")
    gone.take(busy({"n1/gpu0": [0.1], "n2/gpu0": [0.1]}))

    for turn in range(1, 200):
        gone.take(busy({"n2/gpu0": [0.1]}, from_s=1000.0 + 120.0 * turn))

    assert gone.holding() == {"n1/gpu0"}


def _all(expr: str, looks: list[tuple[int, float, float]], shared: Numbering | None) -> object:
    """Return all that is told and ended: looks are GPUs (as bits), busy, and minutes since."""
    term, t_s = watch(expr, for_s=60), 1000.0
    found: list[tuple[list[Item], list[object]]] = []
    for who, share, minutes in looks:
        t_s += 60.0 * minutes
        values = {f"n{i // 2}/gpu{i % 2}": [share] for i in range(4) if who >> i & 1}
        found.append((term.take(arrange(busy(values, from_s=t_s), shared)), [*term.ended]))
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
    found = _all(expr, looks, Numbering())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intake, "_SWEEP_NS", 2**62)
        assert found == _all(expr, looks, None)


def test_numbers_of_keys_that_grow_too_many_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steward.decide.rules.metric.arranging._MOST_KEYS", 3)
    idle, numbering, found = watch(for_s=50), Numbering(), []

    for turn in range(8):
        names = {"n1/gpu0": [0.1], f"m{turn}/gpu0": [0.1]}
        rows = arrange(busy(names, from_s=1000.0 + 10 * turn), numbering)
        numbering = rows.numbering
        found += idle.take(rows)

    assert len(numbering) < 6
    assert [item.entity for item in found] == ["n1/gpu0"]


def test_names_are_the_same_as_long_as_the_series_are() -> None:
    known = Known()
    for i in range(100):
        known.number((f"n{i}", ""))
    few = np.arange(3)

    names = known.names(few)

    assert known.names(few.copy()) is names
    assert known.names(np.arange(4)) is not names
    for size in range(5, 60):
        known.names(np.arange(size))
    assert known.names(few) == names
    assert len(known._names) <= 6


def test_what_was_worked_out_beside_others_is_remembered_for_the_newest_of_them() -> None:
    mine, others = Names([()]), [Names([(("node", str(i)),)]) for i in range(20)]
    joined = [mine.then(other) for other in others]

    assert mine.then(others[-1]) is joined[-1]
    assert mine.then(others[-3]) is joined[-3]
    assert mine.then(others[0]) is not joined[0]
    assert mine.then(others[0]) == joined[0] == ((), (("node", "0"),))
