from hypothesis import given
from hypothesis import strategies as st

from steward.decide.scheduling.elastic.stable_placement import keep_places, packing_sizes
from tiny_profiles import held, job


def test_sizes_are_powers_of_two_in_a_node_and_whole_nodes() -> None:
    assert packing_sizes([8, 8]) == ([1, 2, 4, 8, 16], 8)
    assert packing_sizes([6, 6]) == ([1, 2, 4, 6, 12], 6)
    assert packing_sizes([0, 4, 8]) == ([1, 2, 4, 8, 12], 4)
    assert packing_sizes([0]) == ([], 0)


def test_who_keeps_the_size_keeps_the_nodes() -> None:
    stays = job(0, placement=(1, 1))

    placed = keep_places([(stays, 2), (job(1), 4)], [0, 1], [4, 4])

    assert placed == {0: (1, 1), 1: (0, 0, 0, 0)}


def test_the_smallest_gives_way_to_a_whole_node() -> None:
    small, large = job(0, placement=(0,)), job(1, placement=(1, 1))

    placed = keep_places([(small, 1), (large, 2), (job(2), 4)], [0, 1], [4, 4])

    assert placed == {0: (1,), 1: (1, 1), 2: (0, 0, 0, 0)}


def test_a_part_goes_where_it_fits_most_tightly() -> None:
    placed = keep_places([(job(0, placement=(1, 1)), 2), (job(1), 2)], [0, 1], [4, 4])

    assert placed[1] == (1, 1)


def test_several_nodes_are_taken_whole() -> None:
    assert keep_places([(job(0), 8)], [0, 1, 2], [4, 4, 4]) == {0: (0,) * 4 + (1,) * 4}


def test_nodes_of_another_type_are_not_kept() -> None:
    assert keep_places([(job(0, placement=(5,)), 1)], [0], [4, 0, 0, 0, 0, 4]) == {0: (0,)}


def test_what_fits_nowhere_is_left_out() -> None:
    assert keep_places([(job(0), 4), (job(1), 4)], [0], [4]) == {0: (0, 0, 0, 0)}


@given(
    sizes=st.lists(st.sampled_from([1, 2, 4, 8]), max_size=12),
    before=st.lists(st.sampled_from([0, 1, 2, 3]), max_size=12),
)
def test_packing_sizes_always_pack_and_no_gpu_is_given_twice(
    sizes: list[int], before: list[int]
) -> None:
    wanted = []
    free = [4, 4, 4, 4]
    for row, size in enumerate(sizes):
        node = before[row] if row < len(before) else -1
        keeps = node >= 0 and size < 4 and free[node] >= size
        free[node] -= size if keeps else 0
        if sum(s for _, s in wanted) + size <= 16:
            wanted.append((job(row, placement=(node,) * size if keeps else ()), size))

    placed = keep_places(wanted, range(4), (4, 4, 4, 4))

    assert {row: len(nodes) for row, nodes in placed.items()} == {j.row: s for j, s in wanted}
    assert all(count <= 4 for count in held(placed).values())
