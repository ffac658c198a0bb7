"""Work terms: arithmetic and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from steward.errors import StewardError
from steward.learn.estimators.applications.work import WorkTerm, automatic_terms

COLUMNS = {"n": np.array([2.0, 4.0]), "steps": np.array([10.0, 20.0])}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("n**2 * steps", [40.0, 320.0]),
        ("steps / n + 1", [6.0, 6.0]),
        ("ceil(steps / 8) - 1", [1.0, 2.0]),
        ("max(n, 3) * sqrt(n * n) * log2(n) / min(n, 100)", [3.0, 8.0]),
        ("7", [7.0, 7.0]),
    ],
)
def test_a_term_is_computed_for_each_run(text: str, values: list[float]) -> None:
    assert WorkTerm(text, ["n", "steps"]).values(COLUMNS).tolist() == pytest.approx(values)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("m * 2", "no numeric parameter is called 'm'"),
        ("n +", "it is no arithmetic"),
        ("__import__('os')", "is not allowed"),
        ("n.real", "is not allowed"),
        ("n[0]", "is not allowed"),
        ("True", "is not allowed"),
        ("'text'", "is not allowed"),
        ("min(n)", "is not allowed"),
        ("n" * 201, "too long"),
    ],
)
def test_what_is_no_arithmetic_over_parameters_is_refused(text: str, problem: str) -> None:
    with pytest.raises(StewardError) as fault:
        WorkTerm(text, ["n", "steps"])

    assert problem in str(fault.value)
    assert fault.value.hint


@pytest.mark.parametrize("text", ["n - 2", "1 / (n - 2)", "n ** 9999"])
def test_work_that_is_not_above_zero_and_finite_is_refused_with_the_configuration(
    text: str,
) -> None:
    with pytest.raises(StewardError, match=r"for \{'n': 2\.0, 'steps': 10\.0\}"):
        WorkTerm(text, ["n", "steps"]).values(COLUMNS)


def test_terms_that_nobody_wrote_are_products_of_powers() -> None:
    assert "n**2 * steps" in automatic_terms(["n", "steps"])
    assert len(automatic_terms(["a", "b", "c", "d", "e"])) == 15
    assert automatic_terms([]) == ()
