from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.clock import ManualClock
from steward.errors import StewardError
from steward.learn.workloads.behaviours import Behaviours
from steward.learn.workloads.classifier import KindClassifier
from steward.learn.workloads.features import FEATURES, features_of
from steward.learn.workloads.figures import area_under_curve, calibration_error, macro_f1
from steward.learn.workloads.members import MEMBERS
from steward.learn.workloads.scoring import score, score_shots
from steward.learn.workloads.selection import Selection, folds_of
from steward.learn.workloads.signals import SIGNALS, RunSignals, signals_of_runs
from steward.learn.workloads.signatures import SIGNATURES, points
from steward.learn.workloads.storage import load_classifier, save_classifier
from workload_runs import KINDS, telemetry, three_of_each


def runs_of(kinds: dict[str, str], *, seed: int = 0, **options: float) -> list[RunSignals]:
    table = telemetry(kinds, seed=seed, **options)
    return signals_of_runs(table, where="test", kinds=kinds)[0]


@pytest.fixture(scope="module")
def classifier() -> KindClassifier:
    return KindClassifier.learn(runs_of(three_of_each("a")))


def test_unseen_runs_of_known_kinds_are_recognised(classifier: KindClassifier) -> None:
    rows = classifier.rows(runs_of(three_of_each("b"), seed=1))

    found = score(classifier, rows)

    assert found.macro_f1_by_run == 1.0
    assert found.coarse_f1_by_run == 1.0
    assert found.unknown_auroc is None  # nothing unknown was there


def test_a_kind_that_was_never_learnt_scores_stranger_than_those_that_were(
    classifier: KindClassifier,
) -> None:
    kinds = {**three_of_each("b"), "u-1": "copying", "u-2": "copying"}

    found = score(classifier, classifier.rows(runs_of(kinds, seed=2)))

    assert found.unknown_auroc == 1.0
    assert found.unknown_recall == 1.0
    assert found.runs == 12
    assert found.unknown_runs == 2


def test_a_new_kind_is_known_after_three_runs(classifier: KindClassifier) -> None:
    new = {f"n-{i}": "copying" for i in range(3)}

    wiser = classifier.with_runs(runs_of(new, seed=3))

    (found,) = wiser.recognise(wiser.rows(runs_of({"x": "copying"}, seed=4)))
    assert found.answer == "copying"
    assert found.coarse == "copying"  # a kind of no known group stands for itself


def test_members_are_chosen_only_where_there_are_runs_to_choose_by() -> None:
    few = runs_of(three_of_each("a"))
    names = {f"{kind}-{i}": kind for kind in ("language-train", "straggler") for i in range(10)}
    many = runs_of(names, seconds=5.0)

    assert KindClassifier.learn(few).selection == Selection.cautious()
    assert set(KindClassifier.learn(many).selection.losses) == set(MEMBERS)


def test_few_shots_are_scored_over_episodes() -> None:
    train, test = runs_of(three_of_each("a")), runs_of(three_of_each("b"), seed=1)

    found = score_shots(train, test, shots=1)

    assert found.episodes == 5
    assert found.lowest <= found.macro_f1_by_run <= found.highest
    assert found.lowest >= 0.8


def test_the_order_of_runs_cannot_be_told_from_the_features() -> None:
    kinds = {"a": "language-train"}
    table = telemetry(kinds)
    later = table.with_columns(
        pl.col("t") + 5e5, pl.col("temp_c") + 30, pl.col("^.*_(ticks|total)$") + 1e9
    )

    first, second = (signals_of_runs(each, where="test")[0] for each in (table, later))

    features = [features_of(r.values[None], step_s=0.1, switches_base=200.0) for r in
                (first[0], second[0])]  # fmt: skip
    np.testing.assert_allclose(features[0], features[1], rtol=1e-3, atol=1e-3)


def test_counters_that_restart_leave_a_gap_and_no_negative_rate() -> None:
    table = telemetry({"a": "language-train"})
    counters = np.array(table["ctxt_total"])
    counters[80:] -= counters[80]

    (run,), _ = signals_of_runs(table.with_columns(pl.Series("ctxt_total", counters)), where="test")

    rates = run.signal("switches")
    assert np.isnan(rates[80])
    assert np.nanmin(rates) >= 0.0


def test_a_saved_classifier_answers_as_before_and_tells_its_source(
    classifier: KindClassifier, tmp_path: Path
) -> None:
    rows = classifier.rows(runs_of(three_of_each("b"), seed=1))
    file = tmp_path / "site.learned"

    save_classifier(file, classifier, learnt_from={"source": "x"}, clock=ManualClock(5.0))
    restored, learnt_from = load_classifier(file)

    assert restored.recognise(rows) == classifier.recognise(rows)
    assert learnt_from["source"] == "x"
    assert learnt_from["runs"] == 12


@pytest.mark.parametrize("content", [b"", b"something else", b"STWLEARN1\n" + b"\0" * 90])
def test_a_file_that_is_no_classifier_is_an_error_and_stays_where_it_is(
    tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "site.learned"
    file.write_bytes(content)

    with pytest.raises(StewardError, match="damaged or of another form"):
        load_classifier(file)

    assert file.read_bytes() == content


def test_a_slower_pace_missing_columns_and_short_runs_are_answered(
    classifier: KindClassifier,
) -> None:
    kinds = three_of_each("b")
    slow = telemetry(kinds, seconds=60.0, step_s=1.0).drop("tensor_active", "ctxt_total")
    tiny = telemetry({"t": "straggler"}, seconds=0.3)
    runs, faults = signals_of_runs(pl.concat([slow, tiny], how="diagonal"), where="test")

    found = classifier.recognise(classifier.rows(runs))

    assert len(found) == 13
    assert all(0.0 <= each.probability <= 1.0 for each in found)
    assert faults.missing_columns == []  # the short run has them


def test_a_run_in_which_nothing_was_measured_is_answered_too(classifier: KindClassifier) -> None:
    empty = replace(runs_of({"a": "straggler"})[0], values=np.full((len(SIGNALS), 160), np.nan))

    (found,) = classifier.recognise(classifier.rows([empty]))

    assert np.isfinite(found.unknown_score)
    assert np.isfinite(found.probability)


def test_one_kind_and_kinds_with_one_run_can_be_learnt() -> None:
    one = KindClassifier.learn(runs_of({"a": "straggler", "b": "straggler"}))
    single = KindClassifier.learn(runs_of({f"r-{kind}": kind for kind in KINDS}, seconds=3.0))

    assert one.recognise(one.rows(runs_of({"x": "straggler"})))[0].kind == "straggler"
    assert len(single.kinds) == len(KINDS)
    with pytest.raises(StewardError, match="no labelled run"):
        KindClassifier.learn([])


def test_faults_in_a_table_are_counted() -> None:
    table = telemetry({"a": "straggler"}).cast(pl.String)
    broken = table.with_row_index().with_columns(
        pl.when(pl.col("index") == 3).then(pl.lit("n/a")).otherwise("power_w").alias("power_w"),
        pl.when(pl.col("index") == 5).then(pl.lit(None)).otherwise("t").alias("t"),
    )

    runs, faults = signals_of_runs(pl.concat([broken, broken[7:8]]), where="test")

    assert len(runs[0]) == 159
    assert faults.lines() == [
        "1 cells that are not numbers",
        "1 rows with the time of another",
        "1 rows without a time",
    ]


@pytest.mark.parametrize("columns", [["run", "sm_active"], ["t", "run"]])
def test_a_table_without_time_or_metrics_is_an_error(columns: list[str]) -> None:
    table = telemetry({"a": "straggler"}).select(columns)

    with pytest.raises(StewardError, match="there is no"):
        signals_of_runs(table, where="x.csv")


def test_signatures_name_features_that_exist() -> None:
    named = {name for kind in SIGNATURES.values() for each in kind for name in each}

    assert named <= set(FEATURES)
    assert points(np.full((1, len(FEATURES)), np.nan), ("straggler", "new")).tolist()[0][0] == 0.0


def test_behaviours_keep_their_names_while_runs_come_and_go(classifier: KindClassifier) -> None:
    first = classifier.rows(runs_of(three_of_each("a"), seed=5))
    behaviours = Behaviours.of_classifier(classifier)
    names = dict(zip(first.runs, behaviours.assign(first), strict=True))
    later = Behaviours.of_classifier(classifier)
    later.restore_state(behaviours.save_state())

    kinds = {**three_of_each("a"), **three_of_each("c", ("language-train", "idle-allocated"))}
    more = classifier.rows(runs_of(kinds, seed=5))
    again = dict(zip(more.runs, later.assign(more), strict=True))

    assert len({name for name in names.values() if name}) >= 2
    kept = [run for run, name in names.items() if name and again[run]]
    assert kept
    assert all(again[run] == names[run] for run in kept)


@given(
    kinds=st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=30),
    folds=st.integers(2, 4),
    seed=st.integers(0, 99),
)
def test_folds_spread_the_runs_of_each_kind(kinds: list[str], folds: int, seed: int) -> None:
    found = folds_of(kinds, folds, seed=seed)

    for kind in set(kinds):
        counts = np.bincount(found[np.array(kinds) == kind], minlength=folds)
        assert counts.max() - counts.min() <= 1


@settings(max_examples=30)
@given(
    values=st.lists(
        st.floats(min_value=0, max_value=1e9) | st.just(float("nan")),
        min_size=len(SIGNALS) * 4,
        max_size=len(SIGNALS) * 4,
    )
)
def test_features_are_finite_or_unknown_whatever_is_measured(values: list[float]) -> None:
    windows = np.array(values).reshape(1, len(SIGNALS), 4)

    found = features_of(windows, step_s=1.0, switches_base=200.0)

    assert found.shape == (1, len(FEATURES))
    assert not np.isinf(found).any()


def test_figures_of_merit_agree_with_hand_made_ones() -> None:
    assert macro_f1([], []) is None
    assert area_under_curve(np.array([2.0, 1.0]), np.array([1.0, 0.0])) == 0.875
    assert area_under_curve(np.array([]), np.array([1.0])) is None
    assert calibration_error(np.full(8, 0.5), np.arange(8) < 4) == pytest.approx(0.5)
    assert calibration_error(np.empty(0), np.empty(0, dtype=bool)) is None


def test_a_saved_selection_of_unknown_members_is_refused() -> None:
    with pytest.raises(ValueError, match="oracle"):
        Selection.of_record({"members": ["oracle"], "temperature": 1.0, "losses": {}})


def test_a_calmer_host_than_the_one_learnt_on_is_allowed_for(classifier: KindClassifier) -> None:
    kinds = three_of_each("b")
    table = telemetry(kinds, seed=1)
    calmer = table.with_columns(pl.col("ctxt_total") - 110.0 * pl.col("t"))
    runs, _ = signals_of_runs(calmer, where="test", kinds=kinds)

    found = score(classifier, classifier.rows(runs))

    assert found.macro_f1_by_run == 1.0
