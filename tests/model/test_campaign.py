"""A campaign's values: what they refuse, and which configurations they make."""

from __future__ import annotations

from typing import Any

import pytest

from steward.errors import StewardError
from steward.model.campaign import Campaign, MeasuredRun, Parameter, filled

SIZE = Parameter(name="size", full=(128,), small=(16, 32))
MODE = Parameter(name="mode", full=("a", "b"))


def campaign(**changes: Any) -> Campaign:
    given: dict[str, Any] = {
        "name": "toy",
        "command": ("./run", "--size={size}", "{mode}"),
        "parameters": (SIZE, MODE),
    }
    return Campaign(**{**given, **changes})


def test_downsized_configurations_have_a_smaller_value_and_full_ones_none() -> None:
    made = campaign()

    small = made.configurations(full=False, most=100)
    full = made.configurations(full=True, most=100)

    assert [(x["size"], x["mode"]) for x in full] == [(128, "a"), (128, "b")]
    assert {x["size"] for x in small} == {16, 32}
    assert len(small) == 4
    assert made.scales
    assert [each.is_text for each in made.parameters] == [False, True]
    assert not any(made.is_full(x) for x in small)


def test_of_many_configurations_some_are_taken_that_meet_every_value() -> None:
    wide = Parameter(name="size", full=(1000,), small=tuple(range(1, 100)))
    made = campaign(parameters=(wide, MODE))

    found = made.configurations(full=False, most=40)

    assert len(found) == len({tuple(x.items()) for x in found})
    assert 30 <= len(found) <= 40
    assert {x["mode"] for x in found} == {"a", "b"}


def test_the_spread_steps_over_all_even_where_the_golden_step_divides_the_number() -> None:
    wide = Parameter(name="size", full=(1000,), small=tuple(range(1, 8)))
    found = campaign(parameters=(wide, MODE)).configurations(full=False, most=15)

    assert len(found) == len({tuple(x.items()) for x in found}) == 13


def test_a_run_is_written_into_the_command_and_its_options() -> None:
    made = campaign(options={"cpus-per-task": "{size}", "mem": "1G"})
    run = {"size": 16, "mode": "b"}

    assert made.argv(run) == ("./run", "--size=16", "b")
    assert made.options_of(run) == {"cpus-per-task": "16", "mem": "1G"}
    assert made.cost(run, 2.0) == 32.0
    assert filled("{{size}} {size}", run) == "{size} 16"


@pytest.mark.parametrize(
    ("options", "cost"), [({}, 2.0), ({"gpus": "a100:2"}, 2.0), ({"gpus": "4"}, 8.0)]
)
def test_a_run_costs_its_gpus_times_its_seconds(options: dict[str, str], cost: float) -> None:
    assert campaign(options=options).cost({"size": 16, "mode": "a"}, 2.0) == cost


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"name": "Toy 1"}, "cannot name a campaign"),
        ({"command": ()}, "nothing to run"),
        ({"budget_s": 0.0}, "budget.cost_s: 0.0 is not possible"),
        ({"budget_s": float("inf")}, "budget.cost_s: inf"),
        ({"most_runs": 0}, "budget.runs: 0"),
        ({"most_full_runs": -1}, "budget.full_runs: -1"),
        ({"concurrency": 0}, "concurrency: 0"),
        ({"width": 2.0}, "width: 2.0"),
        ({"parameters": ()}, "there is no parameter"),
        ({"parameters": (SIZE, SIZE, MODE)}, "twice: size"),
        ({"command": ("./run", "{size}")}, "does not use mode"),
        ({"command": ("./run", "{sise}", "{mode}")}, "no parameter is called 'sise'"),
        ({"command": ("./run", "{size}", "{mode}", "{}")}, "no parameter is called ''"),
    ],
)
def test_what_is_not_possible_is_refused_with_its_place(
    changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(StewardError) as fault:
        campaign(**changes)

    assert problem in str(fault.value)
    assert fault.value.hint


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"name": "1x", "full": (1,)}, "cannot name a parameter"),
        ({"full": ()}, "it has no values"),
        ({"full": (1, "two")}, "text and numbers are mixed: 1, 'two'"),
        ({"full": (float("nan"),)}, "not finite"),
        ({"full": ("a",), "small": ("b",)}, "text has no smaller values"),
        ({"full": (16,), "small": (64,)}, "small goes up to 64, full only to 16"),
    ],
)
def test_contradictory_values_of_a_parameter_are_refused(
    given: dict[str, Any], problem: str
) -> None:
    with pytest.raises(StewardError) as fault:
        Parameter(**{"name": "x", **given})

    assert problem in str(fault.value)
    assert fault.value.hint


def test_a_run_takes_no_time_at_least() -> None:
    assert MeasuredRun(configuration={"size": 1}, full=False, seconds=0.0).finished


def test_a_run_cannot_take_less_than_no_time() -> None:
    with pytest.raises(StewardError, match=r"a run took -1\.0 s"):
        MeasuredRun(configuration={"size": 1}, full=False, seconds=-1.0)
