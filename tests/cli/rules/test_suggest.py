"""Draft rules from learnt patterns: they pass their own test, or there is none and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from steward.cli.app import app
from steward.inspection.suggested_rule import patterns_in

RUNS, SECONDS = 12, 60


def ask(*arguments: object) -> tuple[int, Any, str]:
    result = CliRunner().invoke(app, [*map(str, arguments)])
    try:
        answer = json.loads(result.stdout)
    except ValueError:
        answer = result.stdout
    return result.exit_code, answer, result.stderr


@pytest.fixture(scope="module")
def telemetry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return runs as files: in trainings the GPU is busy while the CPU is not, again and again."""
    folder = tmp_path_factory.mktemp("telemetry")
    rng = np.random.default_rng(4)
    for run in range(RUNS):
        gpu = rng.uniform(0.02, 0.5, SECONDS)
        cpu = rng.uniform(0.3, 0.9, SECONDS)
        if run % 2:
            here = np.arange(SECONDS) % 20 < 8
            gpu[here], cpu[here] = rng.uniform(0.9, 1.0, 24), rng.uniform(0.0, 0.05, 24)
        kind = "train" if run % 2 else "infer"
        pl.DataFrame(
            {
                "t_s": 1_790_000_000 + 1_000 * run + np.arange(SECONDS),
                "run": [f"{kind}-{run:02}"] * SECONDS,
                "entity": ["n01"] * SECONDS,
                "gpu.busy_share": gpu,
                "host.cpu.busy_share": cpu,
            }
        ).write_csv(folder / f"{kind}-{run:02}.csv")
    labels = "".join(f"{kind}-{run:02},{kind}\n" for run in range(RUNS)
                     for kind in ["train" if run % 2 else "infer"])  # fmt: skip
    (folder / "labels.txt").write_text("run,label\n" + labels)
    return folder


@pytest.fixture(scope="module")
def patterns(telemetry: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = sorted(telemetry.glob("*.csv"))
    code, found, said = ask(
        "learn", "contrast", *files, "--window", 2, "--labels", telemetry / "labels.txt",
        "--target", "train", "--json",
    )  # fmt: skip
    assert code == 0, found or said
    path = tmp_path_factory.mktemp("patterns") / "patterns.json"
    path.write_text(json.dumps(found))
    return path


def test_a_contrast_becomes_a_rule_that_passes_its_own_test(patterns: Path, tmp_path: Path) -> None:
    code, found, _ = ask("rules", "suggest", patterns, "--out", tmp_path / "r", "--json")

    assert code == 0
    assert found["rules"]
    for each in found["rules"]:
        folder = Path(each["folder"])
        assert {file.name for file in folder.iterdir()} == {"rule.yaml", "test.csv", "test-fp.csv"}
        assert each["fires_on"].startswith("train")
        assert each["silent_on"].startswith("infer")
    tested, report, _ = ask("rules", "test", tmp_path / "r", "--json")
    assert (tested, report["failed"]) == (0, [])


def test_the_draft_says_what_speaks_for_it(patterns: Path, tmp_path: Path) -> None:
    _, found, _ = ask("rules", "suggest", patterns, "--out", tmp_path, "--most", 1, "--json")

    text = Path(found["rules"][0]["folder"], "rule.yaml").read_text()
    assert "runs" in text
    assert "quantile_over_time(0.5, steward_" in text
    assert len(found["rules"]) == 1


def test_a_pattern_that_every_run_has_makes_no_rule(patterns: Path, tmp_path: Path) -> None:
    found = json.loads(patterns.read_text())
    for pattern in found["contrasts"][0]["patterns"]:
        pattern["examples"]["silent"] = []
    (tmp_path / "p.json").write_text(json.dumps(found))

    code, _, said = ask("rules", "suggest", tmp_path / "p.json", "--out", tmp_path / "r")

    assert code == 1
    assert "every run has the pattern" in said
    assert not (tmp_path / "r").exists()
    assert "next" not in said


def test_a_group_without_thresholds_makes_no_rule(patterns: Path, tmp_path: Path) -> None:
    found = json.loads(patterns.read_text())
    found["source"]["cuts"] = []
    (tmp_path / "p.json").write_text(json.dumps(found))

    code, answer, _ = ask(
        "rules", "suggest", tmp_path / "p.json", "--out", tmp_path / "r", "--json"
    )

    assert code == 1
    assert "0 sets of thresholds" in answer["refused"][0]["why_not"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("no json", "no JSON"),
        ("[1]", "holds no patterns"),
        ("{}", "how its levels were made"),
        ('{"source": {"inputs": ["/nowhere"]}}', "telemetry is not there"),
        ('{"source": {"inputs": ["."]}}', "no pattern in it"),
        ('{"source": {"inputs": ["."]}, "contrasts": [{"patterns": [{}]}]}', "cannot be read"),
    ],
)
def test_what_is_no_pattern_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "p.json").write_text(text)

    code, found, _ = ask("rules", "suggest", tmp_path / "p.json", "--out", tmp_path, "--json")

    assert code == 2
    assert says in found["error"]["problem"]


def test_an_episode_is_two_steps_within_a_time() -> None:
    (found,) = patterns_in(
        {
            "episodes": [
                {
                    "first": {"group": "a", "level": "high"},
                    "then": {"group": "b", "level": "low"},
                    "within_s": 10.0, "followed": 9, "times": 10, "runs": 8, "expected": 2.0,
                    "q_value": 0.001, "examples": {"firing": [], "silent": []},
                }
            ]
        }
    )  # fmt: skip

    assert str(found) == "a=high > b=low"
    assert found.within_s == 10.0
    assert "9 of 10 times" in found.evidence
