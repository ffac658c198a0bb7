"""The allocator model: rounding, segments, reuse, and what may never happen."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from steward.learn.estimators.model_graphs.allocator import CachingAllocator, rounded

_MIB = 1 << 20


def test_small_requests_share_a_segment_of_two_mebibytes() -> None:
    allocator = CachingAllocator()

    for key in range(4):
        allocator.allocate(key, 1000)

    assert allocator.reserved_bytes == 2 * _MIB
    assert allocator.allocated_bytes == 4 * 1024


def test_middle_requests_share_a_segment_of_twenty_mebibytes() -> None:
    allocator = CachingAllocator()

    allocator.allocate("a", 5 * _MIB)
    allocator.allocate("b", 5 * _MIB)

    assert allocator.reserved_bytes == 20 * _MIB


def test_a_large_request_has_a_segment_of_its_own() -> None:
    allocator = CachingAllocator()

    allocator.allocate("a", 11 * _MIB)

    assert allocator.reserved_bytes == 12 * _MIB


def test_a_freed_block_is_used_again_and_nothing_is_given_back() -> None:
    allocator = CachingAllocator()

    allocator.allocate("a", 30 * _MIB)
    allocator.free("a")
    allocator.allocate("b", 28 * _MIB)

    assert allocator.reserved_bytes == 30 * _MIB
    assert allocator.peak_allocated_bytes == 30 * _MIB


def test_free_neighbours_merge() -> None:
    allocator = CachingAllocator()
    for key in range(2):
        allocator.allocate(key, 10 * _MIB - 512)
    before = allocator.reserved_bytes

    for key in range(2):
        allocator.free(key)
    allocator.allocate("both", 20 * _MIB - 1024)

    assert allocator.reserved_bytes == before == 20 * _MIB


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 64 * _MIB)), max_size=60))
def test_reserved_holds_what_is_allocated_and_never_falls(calls: list[tuple[int, int]]) -> None:
    allocator = CachingAllocator()
    live: dict[int, int] = {}
    reserved = 0

    for key, size in calls:
        if key in live:
            allocator.free(key)
            del live[key]
        else:
            allocator.allocate(key, size)
            live[key] = size

        assert allocator.reserved_bytes >= max(reserved, allocator.allocated_bytes)
        assert allocator.allocated_bytes >= sum(rounded(each) for each in live.values())
        reserved = allocator.reserved_bytes
