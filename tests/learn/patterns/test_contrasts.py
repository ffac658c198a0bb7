"""What tells kinds of runs apart: found where it is, and not where labels mean nothing."""

from __future__ import annotations

import numpy as np
import pytest

from small_baskets import baskets
from steward.errors import StewardError
from steward.learn.patterns.baskets import Baskets
from steward.learn.patterns.compared_runs import (
    Sides,
    before_and_after,
    compared_sides,
    with_labels,
)
from steward.learn.patterns.contrasts import Contrasts, ContrastSearch, find_contrasts
from steward.learn.patterns.event_lists import event_lists
from steward.learn.patterns.evidence import example_runs, sequence_examples
from steward.learn.patterns.itemsets import Item
from steward.learn.patterns.layers import layer_of

GROUPS = ("gpu_util", "net_rx", "cpu_busy", "mem_util")


def runs(seed: int = 0, *, planted: bool = True, many: int = 40, windows: int = 40) -> Baskets:
    """Return runs, every second one a training whose GPU and network are busy together."""
    rng = np.random.default_rng(seed)
    levels = np.empty((many, windows, len(GROUPS)), np.uint8)
    for run in range(many):
        for group in range(len(GROUPS)):
            levels[run, :, group] = rng.choice(3, windows, p=rng.dirichlet([4.0, 4.0, 4.0]))
        if planted and run % 2:
            levels[run, : windows // 3, :2] = 2
    return baskets(
        levels.reshape(-1, len(GROUPS)),
        run=np.repeat(range(many), windows),
        groups=GROUPS,
        labels=("infer", "train") * (many // 2),
    )


def contrasted(known: Baskets, **given_: object) -> Contrasts:
    target = np.array([label == "train" for label in known.labels])
    sides = Sides(target="train", against="infer", is_target=target, is_other=~target)
    search = ContrastSearch(**{"permutations": 200, **given_})  # type: ignore[arg-type]
    return find_contrasts(known, sides, search)


def test_what_one_kind_does_oftener_is_found_and_marked_as_crossing_layers() -> None:
    found = contrasted(runs())

    best = found.found[0]
    assert [str(item) for item in best.items] == ["gpu_util=high", "net_rx=high"]
    assert best.layers == ("gpu", "network")
    assert best.crosses_layers
    assert best.growth > 2
    assert best.difference > 0.2
    assert best.auroc > 0.95
    assert best.q_value < 0.001
    assert best.family_p < 0.05
    assert best.covers > 0


def test_what_follows_from_a_stronger_pattern_is_left_out_unless_asked_for() -> None:
    short, every = contrasted(runs()), contrasted(runs(), redundant=True)

    assert len(short.found) < len(every.found) == every.significant == short.significant


def test_nothing_is_found_where_labels_mean_nothing() -> None:
    found = [contrasted(runs(seed, planted=False), permutations=0) for seed in range(15)]

    assert sum(bool(each.found) for each in found) <= 3  # 1 in 20 by chance: 4 in 2000 times
    assert all(each.tested > 100 for each in found)


def test_a_long_run_counts_as_one() -> None:
    rng = np.random.default_rng(0)
    rows = [*rng.integers(0, 2, (20, 1)).tolist() * 9, *([[2]] * 5_000)]
    run = [*np.repeat(range(9), 20), *([9] * 5_000)]
    known = baskets(rows, run=run, labels=("infer",) * 5 + ("train",) * 5)

    assert contrasted(known).found == ()


def test_two_permutations_of_one_seed_are_the_same() -> None:
    assert contrasted(runs(), seed=3) == contrasted(runs(), seed=3)


def test_a_side_of_two_runs_is_refused() -> None:
    known = baskets([[0], [1], [0], [1], [0]], run=range(5), labels=("train",) * 2 + ("x",) * 3)

    with pytest.raises(StewardError, match="too few runs to compare: 'train' has 2"):
        contrasted(known)


def test_one_class_is_nothing_to_compare() -> None:
    for labels in ((), ("train",) * 3, ("", "", "train")):
        known = baskets([[0], [1], [0]], run=range(3), labels=labels)

        with pytest.raises(StewardError, match="nothing to compare"):
            compared_sides(known, None, None, fewest_runs=3)


def test_a_label_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(StewardError, match="no label is like 'trian'") as fault:
        compared_sides(runs(), "trian", None, fewest_runs=3)

    assert "train" in fault.value.hint


def test_labels_are_patterns_and_runs_of_others_are_on_no_side() -> None:
    known = baskets([[0]] * 4, run=range(4), labels=("train-a", "train-b", "infer", "other"))

    ((sides,), left_out) = compared_sides(known, "train*", "infer", fewest_runs=1)

    assert sides.is_target.tolist() == [True, True, False, False]
    assert sides.is_other.tolist() == [False, False, True, False]
    assert left_out == ()


def test_each_of_several_labels_is_compared_and_a_million_are_bounded() -> None:
    many = 20_000
    labels = tuple(f"k[{i}]" if i < many - 200 else f"kind{i % 40}" for i in range(many))
    known = baskets(np.zeros((many, 1)), run=range(many), labels=labels)

    sides, left_out = compared_sides(known, None, None, fewest_runs=3)

    assert len(sides) == 32
    assert all(each.is_target.sum() == 5 for each in sides)
    assert len(left_out) == len({*labels}) - 32


def test_labels_of_one_run_each_cannot_be_compared() -> None:
    known = baskets([[0]] * 3, run=range(3), labels=("a", "b", "c"))

    with pytest.raises(StewardError, match="none of 3 labels has 3 runs"):
        compared_sides(known, None, None, fewest_runs=3)


def test_before_and_after_leave_out_what_was_under_way() -> None:
    known = baskets([[0]] * 6, run=[0, 0, 1, 1, 2, 2], start_s=[0, 1, 1, 9, 9, 10])

    sides, across = before_and_after(known, 5.0)

    assert sides.is_other.tolist() == [True, False, False]
    assert sides.is_target.tolist() == [False, False, True]
    assert across == 1


def test_labels_of_a_file_replace_those_of_the_runs() -> None:
    labelled, without = with_labels(runs(many=4), {"run-0": "good", "run-2": "bad"})

    assert labelled.labels == ("good", "", "bad", "")
    assert without == 2
    with pytest.raises(StewardError, match="no run of the baskets has a label"):
        with_labels(labelled, {"elsewhere": "good"})


def test_runs_of_three_windows_are_compared() -> None:
    rows = [[2, 2, 2, 0], [2, 2, 1, 0], [0, 0, 0, 0]] * 10 + [[0, 1, 0, 0]] * 30
    known = baskets(
        rows, run=np.repeat(range(20), 3), groups=GROUPS, labels=("train",) * 10 + ("infer",) * 10
    )

    found = contrasted(known).found

    assert any(Item(group="gpu_util", level="high") in each.items for each in found)
    assert any(Item(group="net_rx", level="mid") in each.items for each in found)


def test_examples_show_the_pattern_or_never_do() -> None:
    known = baskets([[0], [2], [2], [0], [0], [0]], run=[0, 0, 0, 1, 1, 2], labels=("a", "b", "b"))
    target = np.array([True, False, False])
    sides = Sides(target="a", against="b", is_target=target, is_other=~target)

    found = example_runs(known, (Item(group="g0", level="high"),), sides)

    assert [each["run"] for each in found["firing"]] == ["run-0"]
    assert found["firing"][0]["shows_s"] == 1.0
    assert [each["run"] for each in found["silent"]] == ["run-1", "run-2"]


def test_examples_of_a_sequence_are_where_it_is_soonest() -> None:
    rows = [[0, 0], [2, 0], [2, 0], [2, 2]] + [[0, 0], [2, 0], [2, 2], [2, 2]] + [[0, 0]] * 4
    known = baskets(rows, run=np.repeat(range(3), 4))
    events = event_lists(known)
    steps = (2, 5)  # both become high

    found = sequence_examples(known, events, steps)
    near = sequence_examples(known, events, steps, 1.0)

    assert [each["run"] for each in found["firing"]] == ["run-1", "run-0"]
    assert [each["run"] for each in found["silent"]] == ["run-2"]
    assert [each["run"] for each in near["firing"]] == ["run-1"]
    assert {each["run"] for each in near["silent"]} == {"run-0", "run-2"}


@pytest.mark.parametrize(
    ("group", "layer"),
    [
        ("gpu_util", "gpu"),
        ("gpu_nvlink", "gpu"),
        ("net_rx", "network"),
        ("disk_write", "storage"),
        ("mem_available", "memory"),
        ("cpu_stall", "cpu"),
        ("something", "other"),
        ("", "other"),
    ],
)
def test_a_group_belongs_to_the_layer_that_its_name_says(group: str, layer: str) -> None:
    assert layer_of(group) == layer
