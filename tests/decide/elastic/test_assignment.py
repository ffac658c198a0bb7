import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.decide.scheduling.elastic.assignment import (
    AllocationOption,
    cheapest,
    cheapest_by_program,
    cheapest_by_table,
)


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[AllocationOption], list[int]]:
    owned = draw(st.lists(st.integers(1, 8), min_size=1, max_size=3))
    options = []
    for job in range(draw(st.integers(1, 5))):
        for _ in range(draw(st.integers(1, 4))):
            kind = draw(st.integers(0, len(owned) - 1))
            cost = -draw(st.integers(1, 100)) / 100
            options.append(AllocationOption(job, kind, draw(st.integers(1, 8)), cost))
    return options, owned


def cost_of(options: list[AllocationOption], chosen: list[int]) -> float:
    return sum(options[place].cost for place in chosen)


def fits(options: list[AllocationOption], chosen: list[int], owned: list[int]) -> bool:
    jobs = [options[place].job for place in chosen]
    used = [
        sum(options[place].gpus for place in chosen if options[place].type == kind)
        for kind in range(len(owned))
    ]
    return len(set(jobs)) == len(jobs) and all(u <= o for u, o in zip(used, owned, strict=True))


@settings(max_examples=25)  # the program takes milliseconds
@given(problems())
def test_table_and_program_find_choices_of_the_same_cost(
    problem: tuple[list[AllocationOption], list[int]],
) -> None:
    options, owned = problem

    table, program = cheapest_by_table(options, owned), cheapest_by_program(options, owned)

    assert cost_of(options, table) == pytest.approx(cost_of(options, program))
    assert fits(options, table, owned)
    assert fits(options, program, owned)
    assert cost_of(options, cheapest(options, owned)) == pytest.approx(cost_of(options, table))


def test_where_all_fit_everyone_has_the_cheapest() -> None:
    options = [
        AllocationOption(0, 0, 1, -0.1),
        AllocationOption(0, 0, 2, -0.5),
        AllocationOption(1, 1, 4, -0.2),
    ]

    assert cheapest(options, [2, 4]) == [1, 2]


@pytest.mark.parametrize("solve", [cheapest, cheapest_by_table, cheapest_by_program])
def test_a_job_without_choice_keeps_its_gpus_at_any_price(solve: object) -> None:
    options = [AllocationOption(0, 0, 4, -0.1, must=True), AllocationOption(1, 0, 2, -5.0)]

    assert solve(options, [4]) == [0]  # type: ignore[operator]


def test_large_clusters_of_several_types_are_solved_as_well() -> None:
    options = [
        AllocationOption(job, kind, 60 * (kind + 1), -1.0 - kind)
        for job in range(6)
        for kind in range(3)
    ]

    chosen = cheapest(options, [100, 150, 200])

    assert fits(options, chosen, [100, 150, 200])
    assert cost_of(options, chosen) == pytest.approx(-6.0)


def test_nothing_to_choose_is_nothing_chosen() -> None:
    assert cheapest([], [4]) == []
