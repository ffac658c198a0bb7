from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.clients.bpf.histogram import BUCKETS, EDGES_S, quantiles_s

UNIT_S = 1024e-9


def bucket_of(ns: int) -> int:
    """Return the bucket as the kernel finds it: highest bit, and the one after it."""
    value = min(ns >> 10, (1 << 24) - 1)
    if not value:
        return 0
    high = value.bit_length() - 1
    half = value >> (high - 1) & 1 if high else 0
    return 1 + 2 * high + half


@given(st.integers(0, 17_000_000_000))
def test_a_duration_is_between_the_edges_of_its_bucket(ns: int) -> None:
    bucket = bucket_of(ns)

    assert EDGES_S[bucket] <= ns * 1e-9 + 1e-12
    assert ns * 1e-9 < EDGES_S[bucket + 1] + 1e-12


def test_edges_grow_and_none_is_missing() -> None:
    assert len(EDGES_S) == BUCKETS + 1
    assert (np.diff(EDGES_S) >= 0).all()
    assert EDGES_S[0] == 0
    assert EDGES_S[1] == UNIT_S
    assert EDGES_S[-1] == pytest.approx(17.18, rel=0.001)


@given(st.lists(st.integers(2048, 10**9), min_size=1, max_size=200))
def test_quantiles_are_near_those_of_the_durations(durations: list[int]) -> None:
    counts = np.zeros((1, BUCKETS))
    for ns in durations:
        counts[0, bucket_of(ns)] += 1

    p50, p99 = quantiles_s(counts, (0.5, 0.99))[0]

    for found, share in ((p50, 0.5), (p99, 0.99)):
        true = np.quantile(durations, share, method="inverted_cdf") * 1e-9
        assert 0.66 * true <= found <= 1.51 * true


def test_nothing_counted_is_unknown_and_does_not_touch_its_neighbours() -> None:
    counts = np.zeros((3, BUCKETS))
    counts[1, 7] = 4

    found = quantiles_s(counts, (0.5, 0.99))

    assert np.isnan(found[[0, 2]]).all()
    assert ((found[1] > EDGES_S[7]) & (found[1] <= EDGES_S[8])).all()


def test_more_than_the_last_edge_is_in_the_last_bucket() -> None:
    counts = np.zeros((1, BUCKETS))
    counts[0, bucket_of(60_000_000_000)] = 1

    assert quantiles_s(counts, (1.0,))[0, 0] == EDGES_S[-1]
