"""Whatever order samples come in, each series leaves in the order of its times."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from steward.observe.forwarding.series_order import SeriesOrder, by_age
from steward.observe.translate.outgoing import MetricSeries

TIMES = st.lists(st.integers(0, 30), min_size=1, max_size=8)


def series(times: list[int], entity: str = "n1") -> MetricSeries:
    t_s = np.array(times, float)
    return MetricSeries(entity=entity, name="host.load_1m", t_s=t_s, values=10 * t_s)


@given(st.lists(st.lists(st.tuples(st.sampled_from("ab"), TIMES), max_size=4), max_size=6))
def test_no_sample_is_older_than_the_one_before_it_and_none_is_lost_uncounted(
    looks: list[list[tuple[str, list[int]]]],
) -> None:
    order, sent = SeriesOrder(), {"a": [-1.0], "b": [-1.0]}

    for look in looks:
        for each in order.sort(series(times, entity) for entity, times in look):
            sent[each.entity] += each.t_s.tolist()
            assert (each.values == 10 * each.t_s).all()

    given_ = sum(len(times) for look in looks for _, times in look)
    assert all(np.diff(times).min(initial=1.0) > 0 for times in sent.values())
    assert sum(len(times) - 1 for times in sent.values()) + order.late == given_


def test_of_equal_times_the_last_one_counts() -> None:
    t_s, values = np.array([1.0, 1.0002, 2.0]), np.array([1.0, 5.0, 2.0])

    (sent,) = SeriesOrder().sort([MetricSeries(entity="n1", name="x", t_s=t_s, values=values)])

    assert sent.values.tolist() == [5.0, 2.0]


def test_series_that_were_silent_for_long_make_room() -> None:
    order = SeriesOrder(most_series=3)
    for name in "abc":
        order.sort([series([0], name)])
    order.sort([series([10_000], "d")])

    assert order.sort([series([0], "a")])
    assert not order.sort([series([9_000], "d")])


def test_what_is_old_is_set_apart_even_within_a_series() -> None:
    old, fresh = by_age([series([0, 10_000]), series([9_999], "n2"), series([5], "n3")])

    assert [(each.entity, each.t_s.tolist()) for each in old] == [("n1", [0.0]), ("n3", [5.0])]
    assert [(each.entity, each.t_s.tolist()) for each in fresh] == [
        ("n1", [10_000.0]),
        ("n2", [9_999.0]),
    ]
