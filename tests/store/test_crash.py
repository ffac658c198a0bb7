"""kill -9 at any moment: what was acknowledged is there, and everything opens."""

from __future__ import annotations

import random
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize("trial", ["journal_trial", "telemetry_trial"])
def test_a_killed_process_loses_nothing_that_it_had_acknowledged(
    tmp_path: Path, trial: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    kill: Callable[[Path, int, random.Random], Any]
    kill = getattr(import_module("crash_trials"), trial)
    dice = random.Random(trial)  # noqa: S311 - moments to kill at

    trials = [kill(tmp_path, number, dice) for number in range(10)]

    assert [each.lost for each in trials] == [0] * 10
    assert [each.faults for each in trials] == [()] * 10
    assert sum(each.acknowledged for each in trials) > 10
