"""The evidence page names each claim, what is missed, and what has no result."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def paired() -> Any:
    """Return the module of a folder that is no package."""
    sys.path.insert(0, str(FOLDER))
    try:
        import paired_tests
    finally:
        sys.path.remove(str(FOLDER))
    return paired_tests


def pairs(paired: Any, ours: list[float], theirs: list[float]) -> Any:
    return paired.Pairs(name="x", ours=tuple(ours), theirs=tuple(theirs))


def test_the_page_names_what_is_missed_and_what_was_not_measured(tmp_path: Path) -> None:
    command = [sys.executable, str(FOLDER / "evidence.py"), "--out", str(tmp_path)]

    done = subprocess.run(command, capture_output=True, text=True, check=True)

    found = json.loads((tmp_path / "evidence.json").read_text(encoding="utf-8"))
    page = (tmp_path / "evidence.html").read_text(encoding="utf-8")
    assert json.loads(done.stdout) == found["summary"]
    missed = [bar for claim in found["claims"] for bar in claim["bars"] if not bar["holds"]]
    assert found["summary"]["bars"] - found["summary"]["bars that hold"] == len(missed)
    assert page.count("MISSED") == len(missed)
    assert len(found["sources"]) >= 10
    assert all(each["why"] and each["command"] for each in found["sources"])
    assert all(each["program"] in page for each in found["absent"])


def test_figures_of_sources_are_read_from_kept_results(tmp_path: Path) -> None:
    command = [sys.executable, str(FOLDER / "evidence.py"), "--out", str(tmp_path)]
    subprocess.run(command, capture_output=True, check=True)

    found = json.loads((tmp_path / "evidence.json").read_text(encoding="utf-8"))

    lines = [line for each in found["sources"] for line in each["ours"]]
    assert lines
    assert not [line for line in lines if line.endswith("no kept result")]


def test_a_difference_comes_with_its_interval_and_effect_size(paired: Any) -> None:
    found = paired.paired_test(pairs(paired, [1.0, 2.0, 3.0], [2.0, 4.0, 6.0]))

    assert found["difference"]["mid"] == pytest.approx(-2.0)
    assert found["effect_size_dz"] == pytest.approx(-2.0)
    assert found["p_sign_changes"] == found["least_p_possible"] == pytest.approx(0.25)


def test_what_is_no_pair_is_refused_and_one_pair_shows_nothing(paired: Any) -> None:
    with pytest.raises(ValueError, match="no pairs"):
        paired.paired_test(pairs(paired, [1.0], [1.0, 2.0]))
    assert paired.paired_test(pairs(paired, [1.0], [2.0]))["shown"] is False


def test_equal_values_show_no_difference(paired: Any) -> None:
    found = paired.paired_test(pairs(paired, [1.0, 1.0], [1.0, 1.0]))

    assert (found["p_sign_changes"], found["effect_size_dz"]) == (1.0, None)


@given(st.lists(st.floats(-5, 5).filter(lambda value: abs(value) > 1e-3), min_size=2, max_size=9))
def test_the_exact_probability_agrees_with_scipy(paired: Any, change: list[float]) -> None:
    values = np.array(change)

    ours = paired.sign_change_p(values)

    def mean(sample: np.ndarray, axis: int) -> np.ndarray:
        return np.abs(sample.sum(axis=axis))

    reference: Callable[..., Any] = stats.permutation_test
    theirs = reference(
        (values, np.zeros_like(values)),
        lambda x, y, axis: mean(x - y, axis),
        permutation_type="samples",
        alternative="greater",
    )
    assert ours == pytest.approx(theirs.pvalue)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_corrected_probabilities_are_never_smaller_and_keep_their_order(
    paired: Any, values: list[float]
) -> None:
    found = paired.holm([{"p_sign_changes": value} for value in values])

    corrected = [each["p_holm"] for each in found]
    assert all(after >= before for before, after in zip(values, corrected, strict=True))
    order = np.argsort(values, kind="stable")
    assert np.all(np.diff(np.array(corrected)[order]) >= 0)
    assert max(corrected) <= 1.0
