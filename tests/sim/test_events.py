import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.errors import StewardError
from steward.sim.events import EventQueue, Rank

PLANS = st.lists(st.tuples(st.sampled_from([0.0, 1.0, 1.5, 7.0]), st.sampled_from(list(Rank))))


def drained(queue: EventQueue[int], until_s: float = 1e9) -> list[tuple[float, Rank, int]]:
    found = []
    while (event := queue.pop_until(until_s)) is not None:
        found.append(event)
    return found


def test_at_one_instant_ends_come_first_and_one_scheduling_pass_comes_last() -> None:
    queue: EventQueue[int] = EventQueue()
    for rank in (Rank.PASS, Rank.ARRIVAL, Rank.REPAIR, Rank.FAULT, Rank.END):
        queue.push(5.0, rank, 0)

    ranks = [rank for _, rank, _ in drained(queue)]

    assert ranks == [Rank.END, Rank.FAULT, Rank.REPAIR, Rank.ARRIVAL, Rank.PASS]


@given(plans=PLANS)
def test_the_order_is_time_then_rank_then_sequence_whatever_the_heap_does(
    plans: list[tuple[float, Rank]],
) -> None:
    queue: EventQueue[int] = EventQueue()
    for sequence, (t_s, rank) in enumerate(plans):
        queue.push(t_s, rank, sequence)

    found = drained(queue)

    assert found == sorted((t_s, rank, i) for i, (t_s, rank) in enumerate(plans))


@given(plans=PLANS)
def test_events_that_can_not_be_compared_are_kept_apart_by_their_sequence(
    plans: list[tuple[float, Rank]],
) -> None:
    queue: EventQueue[object] = EventQueue()
    for t_s, rank in plans:
        queue.push(t_s, rank, object())

    found = []
    while (event := queue.pop_until(1e9)) is not None:
        found.append(event[:2])

    assert found == sorted(plans)


def test_what_happens_later_stays_in_the_queue() -> None:
    queue: EventQueue[int] = EventQueue()
    queue.push(1.0, Rank.END, 1)
    queue.push(2.0, Rank.END, 2)

    found = drained(queue, until_s=1.5)

    assert [what for _, _, what in found] == [1]
    assert len(queue) == 1


def test_the_past_can_not_be_planned() -> None:
    queue: EventQueue[int] = EventQueue()
    queue.push(10.0, Rank.END, 1)
    drained(queue)

    with pytest.raises(StewardError, match=r"it is 10\.0 already"):
        queue.push(9.0, Rank.ARRIVAL, 2)
