"""Association rules: figures by hand, significance, and what is redundant."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from small_baskets import any_baskets, baskets, pairs, windows_with
from steward.learn.patterns.association import (
    AssociationRules,
    RuleSearch,
    Unit,
    find_associations,
)
from steward.learn.patterns.baskets import Baskets
from steward.learn.patterns.itemsets import frequent_itemsets
from steward.learn.patterns.relations import co_occurrence, item_frequencies, pattern_edges
from steward.learn.patterns.significance import (
    Control,
    adjusted,
    clustered_p,
    fisher_greater,
    fisher_two_sided,
)

mining = settings(deadline=None, max_examples=40)


def rules_of(known: Baskets, **given_: object) -> AssociationRules:
    search = RuleSearch(**given_)  # type: ignore[arg-type]
    return find_associations(frequent_itemsets(known, 0.01), known, search)


def sides(rules: AssociationRules) -> dict[tuple[object, object], int]:
    return {
        (pairs(a), pairs(c)): int(n)
        for a, c, n in zip(rules.antecedents, rules.consequents, rules.both, strict=True)
    }


@mining
@given(any_baskets(), st.sampled_from([1, 2]), st.sampled_from([0.5, 0.8, 1.0]))
def test_all_rules_of_enough_confidence_are_found(
    known: Baskets, most: int, confidence: float
) -> None:
    found = rules_of(known, confidence=confidence, most_consequents=most, redundant=True)

    expected = {}
    for code in frequent_itemsets(known, 0.01).codes:
        every = pairs(code)
        for mask in range(1, 2 ** len(every) - 1):
            then = tuple(item for i, item in enumerate(every) if mask >> i & 1)
            before = tuple(item for item in every if item not in then)
            both, alone = len(windows_with(known, every)), len(windows_with(known, before))
            if len(then) <= most and both >= confidence * alone - 1e-9:
                expected[before, then] = both
    assert sides(found) == expected


def test_the_figures_of_a_rule_are_those_of_the_textbook() -> None:
    known = baskets([[0, 0]] * 4 + [[0, 1]] + [[1, 0]] + [[1, 1]] * 4)

    found = rules_of(known, confidence=0.8)

    row = next(i for i in range(len(found)) if pairs(found.antecedents[i]) == ((0, 0),))
    assert found.support[row] == 0.4
    assert found.confidence[row] == 0.8
    assert found.lift[row] == pytest.approx(1.6)
    assert found.leverage[row] == pytest.approx(0.15)
    assert found.conviction[row] == pytest.approx(2.5)


def test_a_confidence_of_exactly_four_fifths_is_enough() -> None:
    for many in range(1, 60):  # ratios of ratios lose some of these
        known = baskets([[0, 0]] * (4 * many) + [[0, 1]] * many + [[1, 1]] * 7)

        assert ((((0, 0),), ((1, 0),)) in sides(rules_of(known, confidence=0.8)))  # fmt: skip


def test_a_rule_that_is_never_wrong_has_no_finite_conviction() -> None:
    found = rules_of(baskets([[0, 0], [1, 1]]), confidence=1.0)

    assert np.isinf(found.conviction).all()


def test_a_longer_rule_that_adds_nothing_is_left_out() -> None:
    rng = np.random.default_rng(5)
    one = rng.integers(0, 2, 400)
    known = baskets(np.stack([one, one, rng.integers(0, 2, 400)], axis=1))

    found = rules_of(known)

    assert all(len(pairs(code)) == 1 for code in found.antecedents)
    assert len(rules_of(known, redundant=True)) > len(found)
    assert found.tested == rules_of(known, redundant=True).tested


def test_chance_in_few_long_runs_is_not_significant_by_runs_but_is_by_windows() -> None:
    rng = np.random.default_rng(7)
    runs, long = 6, 200  # two groups that hardly change within a run, without any relation
    rows = [[*rng.integers(0, 2, 2)] for _ in range(runs) for _ in range(1)]
    levels = np.repeat(rows, long, axis=0)
    known = baskets(levels, run=np.repeat(range(runs), long))

    by_runs = rules_of(known, confidence=0.5, redundant=True)
    by_windows = rules_of(known, confidence=0.5, redundant=True, unit=Unit.WINDOWS)

    assert np.nanmin(by_runs.p_values) > 1e-3
    assert by_windows.p_values.min() < 1e-9


def test_what_holds_in_every_run_is_significant() -> None:
    rng = np.random.default_rng(8)
    one = rng.integers(0, 2, 1_000)
    known = baskets(np.stack([one, one], axis=1), run=np.repeat(range(20), 50))

    found = rules_of(known)

    assert found.q_values.max() < 1e-6
    assert found.runs.min() >= 19


def test_too_few_runs_give_no_significance() -> None:
    found = rules_of(baskets([[0, 0], [1, 1]] * 10))

    assert np.isnan(found.p_values).all()
    assert np.isnan(found.q_values).all()


def test_baskets_of_one_item_have_no_rules() -> None:
    assert len(rules_of(baskets([[0]] * 5))) == 0


@mining
@given(st.integers(2, 60), st.data())
def test_fisher_is_that_of_scipy(total: int, data: st.DataObject) -> None:
    one, other = (data.draw(st.integers(0, total)) for _ in range(2))
    both = data.draw(st.integers(max(0, one + other - total), min(one, other)))

    table = [[both, one - both], [other - both, total - one - other + both]]
    given_ = [np.array([each]) for each in (both, one, other)]
    expected = stats.fisher_exact(table, alternative="greater").pvalue
    assert fisher_greater(*given_, total)[0] == pytest.approx(expected, abs=1e-9)
    less = stats.fisher_exact(table, alternative="less").pvalue
    two_sided = fisher_two_sided(*given_, total)[0]
    assert two_sided == pytest.approx(min(1.0, 2 * min(expected, less)), abs=1e-9)


def test_fisher_stays_exact_far_out() -> None:
    given_ = [np.array([each]) for each in (400, 500, 500)]

    assert fisher_greater(*given_, 1_000)[0] == pytest.approx(
        stats.hypergeom.sf(399, 1_000, 500, 500), rel=1e-9
    )


def test_q_values_are_those_of_benjamini_and_of_those_with_yekutieli() -> None:
    p_values = np.array([0.01, 0.04, np.nan, 0.03, 0.005])
    tested = np.isfinite(p_values)

    for control in Control:
        found = adjusted(p_values, control)
        expected = stats.false_discovery_control(p_values[tested], method=control.value)
        assert found[tested] == pytest.approx(expected)
        assert np.isnan(found[2])


def test_nothing_tested_has_no_q_values() -> None:
    assert np.isnan(adjusted(np.array([np.nan]))).all()
    assert len(adjusted(np.array([]))) == 0


def test_runs_that_agree_make_a_sum_significant_and_one_run_alone_does_not() -> None:
    same, alone = np.ones(10), np.zeros(10)
    alone[0] = 1_000.0

    total = np.array([same.sum(), alone.sum(), 0.0])
    squares = np.array([(same**2).sum(), (alone**2).sum(), 0.0])
    p_values = clustered_p(total, squares, 10)

    assert p_values[0] < 0.01
    assert p_values[1] > 0.1
    assert p_values[2] == 0.5


@mining
@given(any_baskets())
def test_co_occurrence_and_frequencies_are_counts_of_windows(known: Baskets) -> None:
    found = co_occurrence(known)

    place = {(i.group, i.level): n for n, i in enumerate(found.items)}
    for (group, level), n in place.items():
        g, lv = known.groups.index(group), "abc".index(level)
        assert found.counts[n, n] == len(windows_with(known, ((g, lv),)))
        for (group2, level2), m in place.items():
            pair = ((g, lv), (known.groups.index(group2), "abc".index(level2)))
            assert found.counts[n, m] == len(windows_with(known, pair))
    assert dict(item_frequencies(known)) == {
        item: found.counts[n, n] for n, item in enumerate(found.items)
    }


def test_lift_of_pairs_is_1_where_they_are_independent() -> None:
    found = co_occurrence(baskets([[0, 0], [0, 1], [1, 0], [1, 1]]))

    assert found.lift[0, 3] == 1.0


def test_rules_are_the_edges_of_a_graph() -> None:
    edges = pattern_edges(rules_of(baskets([[0, 0], [1, 1]] * 10)), most=4)

    (edge,) = (each for each in edges if (each.source, each.target) == ("g0=low", "g1=low"))
    assert (edge.support, edge.confidence, edge.lift) == (0.5, 1.0, 2.0)
