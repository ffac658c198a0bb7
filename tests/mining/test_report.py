"""The report on patterns."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from steward.cli.app import app
from steward.learn.patterns.baskets import ABSENT, Baskets
from steward.mining import page, summarise

GROUPS = ("gpu_util", "cpu_busy", "net_rx")
LEVELS = ("low", "medium", "high")


def baskets(*, runs: int = 12, windows: int = 20, labels: bool = True) -> Baskets:
    """Return runs of two kinds: in one the GPU follows the CPU, in the other nothing does."""
    rng = np.random.default_rng(5)
    levels = rng.integers(0, 3, (runs * windows, 3)).astype(np.uint8)
    run = np.repeat(np.arange(runs, dtype=np.int32), windows)
    follows = run % 2 == 0
    levels[follows, 0] = levels[follows, 1]
    levels[0, 2] = ABSENT
    return Baskets(
        groups=GROUPS,
        level_names=(LEVELS,) * 3,
        levels=levels,
        runs=tuple(f"run <{i}>" for i in range(runs)),
        run=run,
        start_s=np.tile(np.arange(windows) * 5.0, runs),
        window_s=5.0,
        labels=tuple("follows" if i % 2 == 0 else "free" for i in range(runs)) if labels else (),
    )


def test_a_report_shows_all_that_is_mined_and_escapes_names() -> None:
    drawn = page(summarise(baskets()), title="<b>mine</b>")

    for heading in (
        "Runs over time",
        "How frequent",
        "What occurs together",
        "Rules",
        "Which state",
    ):
        assert f"<h2>{heading}" in drawn
    assert "follows against" in drawn
    assert "<b>mine" not in drawn
    assert "run <0>" not in drawn
    assert drawn.count("<svg") >= 4


def test_levels_of_one_group_are_not_compared_with_each_other() -> None:
    drawn = page(summarise(baskets()), title="t")

    assert "gpu_util=low with cpu_busy=low" in drawn
    assert "gpu_util=low with gpu_util=high" not in drawn


def test_without_labels_nothing_is_compared() -> None:
    assert summarise(baskets(labels=False)).contrasts == ()


def test_labels_that_cannot_be_compared_are_a_note_and_no_fault() -> None:
    found = summarise(baskets(runs=2))

    assert found.contrasts == ()
    assert any("not compared" in note for note in found.notes)
    assert "too few to test rules" in page(found, title="t")


def test_every_window_of_a_run_is_in_its_timeline() -> None:
    found = summarise(baskets())

    for spans in found.timeline.spans:
        assert sum(to_s - from_s for from_s, to_s, _ in spans) == pytest.approx(100.0)
        assert all(a[1] <= b[0] for a, b in pairwise(spans))


def test_the_command_writes_a_page_with_phases(tmp_path: Path) -> None:
    rows = ["run,t,gpu_util,power_w,fb_used_mib,cpu_user_ticks,cpu_system_ticks"]
    for run in ("a", "b"):
        rows += [
            f"{run},{1000 + i},{0 if i < 20 else 95},{300},{9000},{100 * i},{10 * i}"
            for i in range(60)
        ]
    file, out = tmp_path / "runs.csv", tmp_path / "out.html"
    file.write_text("\n".join(rows))

    found = CliRunner().invoke(
        app, ["learn", "report", str(file), "--window", "5", "--out", str(out), "--json"]
    )

    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["runs"] == 2
    assert "phases, recognised sample by sample" in out.read_text()
    assert ": train," in out.read_text()
