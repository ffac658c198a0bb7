"""The commands that mine: what they print, as JSON and for people, and wrong input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from small_baskets import baskets
from steward.cli.app import app
from steward.learn.patterns.basket_files import write_baskets

GROUPS = ("gpu_util", "net_rx", "mem_util")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return baskets of 12 runs: in trainings GPU and network are busy together."""
    rng = np.random.default_rng(0)
    levels = rng.integers(0, 3, (12, 30, 3))
    levels[1::2, 5:20, :2] = 2
    known = baskets(
        levels.reshape(-1, 3), run=np.repeat(range(12), 30), groups=GROUPS,
        labels=("infer", "train") * 6,
    )  # fmt: skip
    path = tmp_path / "b.parquet"
    write_baskets(known, path)
    return path


def ask(*arguments: object) -> tuple[int, Any, str]:
    result = CliRunner().invoke(app, [*map(str, arguments)])
    try:
        answer = json.loads(result.stdout)
    except ValueError:
        answer = result.stdout
    return result.exit_code, answer, result.stderr


def test_itemsets_come_with_rules_and_with_what_figures_are_drawn_from(file: Path) -> None:
    code, found, _ = ask("learn", "itemsets", file, "--confidence", "0.6", "--json")

    assert code == 0
    assert found["found"] == len(found["itemsets"]) <= found["frequent"]
    rule = next(each for each in found["rules"]
                if each["then"] == [{"group": "net_rx", "level": "high"}])  # fmt: skip
    assert {"group": "gpu_util", "level": "high"} in rule["if"]
    assert {"support", "confidence", "lift", "leverage", "conviction", "q_value"} <= {*rule}
    assert len(found["co_occurrence"]["counts"]) == len(found["items"]) == 9
    assert found["edges"][0]["lift"] > 1
    assert found["notes"] == []


def test_without_a_support_itemsets_stay_few_enough_to_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    wide = np.repeat(rng.integers(0, 2, (120, 1)), 18, axis=1)  # each window in step with itself
    path = tmp_path / "wide.parquet"
    mixed = np.where(rng.random(wide.shape) < 0.2, 1 - wide, wide)
    write_baskets(baskets(mixed, run=np.repeat(range(12), 10)), path)
    code, found, _ = ask("learn", "itemsets", path, "--confidence", 1.0, "--json")

    assert code == 0
    assert found["frequent"] <= 50_000
    assert found["support"] > 0.01
    assert "too many to read" in found["notes"][0]


def test_windows_as_the_unit_are_said_to_depend_on_each_other(file: Path) -> None:
    code, text, said = ask("learn", "itemsets", file, "--unit", "windows", "--top", 2)

    assert code == 0
    assert "rule" in text
    assert "not independent" in said


def test_maximal_itemsets_are_fewer_than_all(file: Path) -> None:
    lengths = [
        ask("learn", "itemsets", file, "--kind", kind, "--json", "--limit", 1)[1]["found"]
        for kind in ("all", "closed", "maximal")
    ]

    assert lengths[0] >= lengths[1] > lengths[2]


def test_sequences_list_gapped_and_contiguous_ones_apart(file: Path) -> None:
    code, found, _ = ask("learn", "sequences", file, "--max-gap", 3, "--json")

    assert code == 0
    assert {*found["sequences"]} == {"gapped", "contiguous"}
    assert found["found"]["gapped"] > found["found"]["contiguous"]
    assert [each["group"] for each in found["transitions"]] == [*GROUPS]
    assert len(found["flow"]["counts"]) == len(found["flow"]["states"]) + 1
    assert found["events"] > 0


def test_sequences_are_told_in_words(file: Path) -> None:
    code, text, _ = ask("learn", "sequences", file, "--support", 0.9, "--longest", 2)

    assert code == 0
    for words in (
        "anything may be between",
        "directly following",
        "episodes within 10 s",
        "motifs",
    ):
        assert words in text


def test_a_contrast_names_the_pattern_its_layers_and_example_runs(file: Path) -> None:
    code, found, _ = ask("learn", "contrast", file, "--target", "train", "--json")

    assert code == 0
    (contrast,) = found["contrasts"]
    best = contrast["patterns"][0]
    assert best["items"] == [
        {"group": "gpu_util", "level": "high"},
        {"group": "net_rx", "level": "high"},
    ]
    assert best["layers"] == ["gpu", "network"]
    assert best["examples"]["firing"][0]["run"] in {f"run-{n}" for n in range(1, 12, 2)}
    assert found["unit"] == "runs"


def test_labels_of_a_file_decide_what_is_compared(file: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    rows = "".join(f"run-{n},{'good' if n % 2 else 'bad'}\n" for n in range(11))
    labels.write_text("run,label\n" + rows)

    code, text, said = ask("learn", "contrast", file, "--labels", labels, "--target", "good")

    assert code == 0
    assert "good (5 runs) against all others (6 runs)" in text
    assert "1 runs have no label" in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("itemsets", "--support", "0"), "not between 0 and 1"),
        (("itemsets", "--kind", "many"), "no value called 'many'"),
        (("itemsets", "--unit", "rows"), "known: runs, windows"),
        (("sequences", "--events", "all"), "known: changes, levels"),
        (("sequences", "--min-gap", "5", "--max-gap", "2"), "no gap is between 5 and 2 s"),
        (("sequences", "--within", "0"), "within 0 s"),
        (("contrast", "--target", "serving"), "no label is like 'serving'"),
        (("contrast", "--before", "5", "--target", "train"), "by time or by label"),
        (("contrast", "--before", "-5"), "too few runs"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(
    file: Path, arguments: tuple[str, ...], says: str
) -> None:
    command, *options = arguments

    code, found, _ = ask("learn", command, file, *options, "--json")

    assert code == 2
    assert says in found["error"]["problem"]


def test_a_file_without_windows_is_refused(tmp_path: Path) -> None:
    write_baskets(baskets([]), tmp_path / "empty.parquet")

    code, found, _ = ask("learn", "itemsets", tmp_path / "empty.parquet", "--json")

    assert code == 2
    assert "no window" in found["error"]["problem"]
