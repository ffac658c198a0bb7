"""Estimators of serving work: the contract of the port, and what the learned one promises."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.decide.serving.fcfs import Fcfs
from steward.errors import StewardError
from steward.learn.estimators.serving import SERVING_ESTIMATORS
from steward.learn.estimators.serving.calibration import WaitCalibration
from steward.learn.estimators.serving.composition import Composition
from steward.learn.estimators.serving.learned_waits import LearnedWaits
from steward.learn.estimators.serving.output_lengths import OutputLengths, doubt, remaining
from steward.learn.estimators.serving.throughput import TypeThroughput
from steward.model.serving.forecasts import ServingForecasts
from steward.model.serving.instance_type import InstanceType, StepTimes
from steward.model.serving.requests import BATCH, INTERACTIVE, RequestTrace, requests_of
from steward.model.serving.view import Dispatch, ServingView
from steward.ports import Learner
from steward.sim.serving.bursts import in_bursts, repeated, requests_per_s
from steward.sim.serving.simulate import Failure, Fleet, simulate
from steward.sim.serving.wait_scores import misjudged, score_record, score_waits

KIND = InstanceType(
    name="small",
    model="m",
    step_times=StepTimes(fixed_s=0.02, token_s=1e-5, kv_token_s=1e-7),
    kv_tokens=16_384,
    max_sequences=16,
    start_s=30.0,
)


def trace(count: int = 300, seed: int = 0) -> RequestTrace:
    draw = np.random.default_rng(seed)
    made = requests_of(
        "made",
        arrival_s=np.cumsum(draw.exponential(0.02, count)),
        prompt_tokens=draw.integers(10, 400, count),
        output_tokens=1 + draw.geometric(1 / 40, count),
        tenant=[f"t{each}" for each in draw.integers(0, 3, count)],
    )
    return made.with_share(BATCH, draw.random(count) < 0.3)


class Kept:
    """Serves first come, first served, and keeps the last moments."""

    name = "kept"

    def __init__(self) -> None:
        self.forecasts: list[ServingForecasts] = []
        self.view: ServingView | None = None

    def dispatch(self, view: ServingView) -> Dispatch:
        assert view.forecasts is not None
        self.view = view
        self.forecasts.append(view.forecasts)
        for each in (view.forecasts.work_s, view.forecasts.work_sd_s, view.forecasts.run_s):
            assert np.all(np.isfinite(each[:, view.queue]))
            assert np.all(each[:, view.queue] >= 0)
        return Fcfs().dispatch(view)


@pytest.mark.parametrize("name", SERVING_ESTIMATORS)
def test_estimators_answer_before_anything_was_learned_and_keep_answering(name: str) -> None:
    kept = Kept()

    run = simulate(
        trace(),
        Fleet(types=(KIND,), instances=(0, 0), failures=(Failure(t_s=3.0, instance=0),)),
        kept,
        estimator=SERVING_ESTIMATORS[name](),
    )

    assert np.isfinite(run.finish_s).all()
    assert all(each.work_s.shape == (1, 300) for each in kept.forecasts)
    assert all(each.bound_sds >= 0 for each in kept.forecasts)


@pytest.mark.parametrize("name", SERVING_ESTIMATORS)
def test_the_same_requests_give_the_same_forecasts(name: str) -> None:
    kept = Kept(), Kept()

    for each in kept:
        fleet = Fleet(types=(KIND,), instances=(0,))
        simulate(trace(), fleet, each, estimator=SERVING_ESTIMATORS[name]())

    pairs = zip(kept[0].forecasts, kept[1].forecasts, strict=True)
    assert all(np.array_equal(a.backlog_s, b.backlog_s) for a, b in pairs)


@pytest.mark.parametrize("name", SERVING_ESTIMATORS)
def test_a_restored_estimator_expects_what_the_saved_one_did(name: str) -> None:
    first: Any = SERVING_ESTIMATORS[name]()
    assert isinstance(first, Learner)
    kept = Kept()
    simulate(trace(), Fleet(types=(KIND,), instances=(0,)), kept, estimator=first)
    saved = pickle.loads(pickle.dumps(first.save_state()))  # noqa: S301 - made here
    again: Any = SERVING_ESTIMATORS[name]()
    again.restore_state(saved)
    once_more: Any = SERVING_ESTIMATORS[name]()
    once_more.restore_state(again.save_state())

    assert kept.view is not None
    fresh = SERVING_ESTIMATORS[name]().predict(kept.view)
    expected, restored = once_more.predict(kept.view), again.predict(kept.view)

    rows = kept.view.queue
    assert restored.output_tokens[rows] == pytest.approx(expected.output_tokens[rows])
    assert not np.allclose(fresh.output_tokens[rows], expected.output_tokens[rows], rtol=0.1)
    assert restored.bound_sds == expected.bound_sds


def test_a_state_of_other_options_is_refused() -> None:
    state = LearnedWaits(groups=64).save_state()

    with pytest.raises(ValueError, match="other options"):
        LearnedWaits(groups=128).restore_state(state)
    with pytest.raises(ValueError, match="other parts"):
        TypeThroughput().restore({**TypeThroughput().save(), "factors": np.ones(9)})
    with pytest.raises(ValueError, match="another number of waits"):
        WaitCalibration().restore({**WaitCalibration().save(), "errors": np.ones(9)})


def test_tables_of_lengths_are_bounded_and_the_least_recently_used_go() -> None:
    lengths = OutputLengths(groups=32)

    rows = [lengths.group("m", "chat", f"tenant {each}", 100 * each + 1) for each in range(500)]

    assert min(rows) >= 0
    assert max(rows) < 32


def test_lengths_of_a_tenant_are_learned_and_others_take_after_all() -> None:
    lengths = OutputLengths()
    for _ in range(300):
        lengths.add(lengths.group("m", "chat", "short", 50), 20, 0)
        lengths.add(lengths.group("m", "chat", "long", 50), 500, 0)
    lengths.begin_version()

    short, long, new = (
        remaining(lengths.tables, lengths.group("m", "chat", name, 50), 0.0)[0]
        for name in ("short", "long", "new")
    )

    assert short == pytest.approx(20, rel=0.15)
    assert long == pytest.approx(500, rel=0.15)
    assert short < new < long


def test_what_runs_on_is_expected_to_go_on() -> None:
    lengths = OutputLengths()
    group = lengths.group("m", "chat", "", 50)
    draw = np.random.default_rng(0)
    for tokens in draw.geometric(1 / 200, 3000).tolist():
        lengths.add(group, tokens, 0)
    lengths.begin_version()

    left = [remaining(lengths.tables, group, float(made))[0] for made in (0, 100, 400)]

    assert left == pytest.approx([200.0] * 3, rel=0.2)  # a geometric length has no memory


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=60), st.floats(0, 6000))
@settings(deadline=None, max_examples=50)
def test_what_is_left_is_never_negative(ended: list[int], made: float) -> None:
    lengths = OutputLengths(groups=16)
    group = lengths.group("m", "chat", "", 9)
    for tokens in ended:
        lengths.add(group, tokens, 0)
    lengths.begin_version()

    mean, square = remaining(lengths.tables, group, made)

    assert mean > 0
    assert square >= mean * mean * (1 - 1e-9)
    assert 1 <= lengths.quantile(group, 0.5) <= lengths.quantile(group, 0.9) * (1 + 1e-9)


def test_factors_of_step_times_are_found_from_stretches() -> None:
    learnt, draw = TypeThroughput(), np.random.default_rng(0)
    for _ in range(400):
        parts = draw.random(3) + 0.1
        learnt.add_steps(parts, float(parts @ (0.7, 1.5, 1.1)))

    assert learnt.factors == pytest.approx([0.7, 1.5, 1.1], rel=0.15)
    assert learnt.doubt < 0.03


def test_a_length_class_never_seen_takes_the_usual_ratio() -> None:
    learnt = TypeThroughput()
    for _ in range(200):
        learnt.add_work(9, 10.0, 12.0)

    assert learnt.ratio() == pytest.approx(np.full(20, 1.2), rel=0.03)


def test_time_per_work_is_that_of_all_stretches_however_uneven_each_is() -> None:
    learnt = TypeThroughput()
    for _ in range(300):
        learnt.add_work(9, 2.0, 10.0)
        learnt.add_work(9, 18.0, 10.0)

    assert learnt.ratio()[9] == pytest.approx(1.0, abs=0.05)


def test_waits_that_were_predicted_at_once_tell_as_much_as_one() -> None:
    one, many = WaitCalibration(), WaitCalibration()

    one.observe(10.0, 1.0, 11.6, 10.0, 5.0)
    for _ in range(100):
        many.observe(10.0, 1.0, 11.6, 10.0, 5.0)

    assert (one.turns, many.turns) == (1, 1)
    assert 1.2 < many.sds < one.sds <= 1.6


def test_requests_that_still_wait_count_as_their_bounds_are_known_to_be_wide() -> None:
    calm, late, wide = (WaitCalibration() for _ in range(3))
    draw = np.random.default_rng(0)
    for turn in range(200):
        wait_s = 10.0 + float(draw.normal())
        for each in (calm, late, wide):
            each.observe(10.0, 1.0, 10.0 + each.sds, wait_s, 100.0 * turn)

    late.expect(np.full(400, 1.3), np.ones(400, bool))
    wide.expect(np.full(400, 3.0), np.zeros(400, bool))
    for turn in range(200, 264):
        for each in (calm, late, wide):
            each.observe(10.0, 1.0, 10.0 + each.sds, 10.0, 100.0 * turn)

    assert wide.sds < calm.sds < late.sds


def test_coverage_that_was_lost_in_one_turn_is_made_up_for() -> None:
    calibration, draw = WaitCalibration(), np.random.default_rng(1)
    held = []
    for turn in range(120):
        shift_s = 4.0 if turn == 40 else 0.0  # a source that nobody has seen before
        sds = calibration.sds  # all of a turn is predicted before any of it is over
        for _ in range(50):
            wait_s = 10.0 + shift_s + float(draw.normal())
            calibration.observe(10.0, 1.0, 10.0 + sds, wait_s, 100.0 * turn)
            held.append(wait_s <= 10.0 + sds)

    assert np.mean(held[2000:2050]) < 0.2
    assert np.mean(held) == pytest.approx(0.9, abs=0.015)


def test_another_source_of_requests_is_noticed_once_and_its_own_drift_is_not() -> None:
    composition, draw = Composition(), np.random.default_rng(0)

    before = [composition.has_changed((0, 0, int(each))) for each in draw.integers(8, 12, 5000)]
    after = [composition.has_changed((0, 0, int(each))) for each in draw.integers(10, 14, 5000)]

    assert not any(before)
    assert sum(after) == 1
    assert 100 < after.index(True) < 1000


def test_kinds_beyond_the_bound_are_counted_as_one() -> None:
    composition = Composition()

    assert not any(composition.has_changed((each,)) for each in range(3000))
    assert len(composition._recent) == 512


def test_the_bound_begins_anew_with_another_source() -> None:
    calibration = WaitCalibration()
    for turn in range(300):  # over-estimated: the bound goes down to the mean
        calibration.observe(10.0, 2.0, 10.0 + 2.0 * calibration.sds, 6.0, 100.0 * turn)
    low = calibration.sds

    calibration.begin_anew(30_000.0)
    calibration.observe(10.0, 2.0, 10.0, 6.0, 29_999.0)  # predicted before

    assert low < 0.2
    assert calibration.sds == 1.6
    assert calibration.figures().count == 301
    calibration.observe(10.0, 2.0, 10.0, 6.0, 30_000.0)
    assert calibration.sds < 1.6


def test_coverage_that_one_source_lost_is_made_up_for_with_the_next() -> None:
    lost, kept = WaitCalibration(), WaitCalibration()
    for turn in range(200):
        lost.observe(10.0, 1.0, 11.0, 12.0, 100.0 * turn)
        kept.observe(10.0, 1.0, 11.0, 11.0, 100.0 * turn)

    draw = np.random.default_rng(0)
    for each in (lost, kept):
        each.begin_anew(50_000.0)
    for turn, off in enumerate(draw.normal(size=100).tolist()):
        for each in (lost, kept):
            each.observe(10.0, 1.0, 10.0 + each.sds, 10.0 + off, 50_000.0 + 100.0 * turn)

    assert lost.sds > kept.sds


def test_doubt_is_of_tenants_and_lengths_that_are_not_known_and_can_be_widened() -> None:
    lengths = OutputLengths()
    known = lengths.group("m", "chat", "a", 100)
    for made in [50, 150] * 200:
        lengths.add(known, made, 0)

    other_length, other_tenant = (
        lengths.group("m", "chat", "a", 5000),
        lengths.group("m", "chat", "b", 100),
    )
    found = [
        [doubt(lengths.tables, group, 100.0, 50.0, widened) for widened in (1.0, 2.0)]
        for group in (known, other_length, other_tenant)
    ]

    assert found[0][0] < 0.1
    assert found[0][0] < found[1][0] < found[2][0]
    assert all(narrow < wide for narrow, wide in found)
    assert found[1][1] > 1.9 * found[1][0]


def test_what_is_known_well_is_hardly_widened_however_narrow_the_bound_is() -> None:
    lengths = OutputLengths()
    known = lengths.group("m", "chat", "a", 100)
    for made in [50, 150] * 400:
        lengths.add(known, made, 0)

    as_it_is, widened = (doubt(lengths.tables, known, 100.0, 50.0, by) for by in (1.0, 16.0))

    assert widened < 1.5 * as_it_is
    new = lengths.group("m", "chat", "b", 100)
    assert doubt(lengths.tables, new, 100.0, 50.0, 16.0) > 4.0


def test_a_bound_follows_what_is_expected_as_it_gets_better() -> None:
    calibration = WaitCalibration()

    for turn in range(170):
        off = 2.0 if turn < 100 else -0.2
        for _ in range(50):
            calibration.observe(10.0, 1.0, 13.0, 10.0 + off, 100.0 * turn)

    assert calibration.sds < 1.0


def test_one_wait_far_beyond_its_bound_does_not_make_the_bound_boundless() -> None:
    calibration = WaitCalibration()

    for turn in range(50):
        calibration.observe(0.0, 1e-9, 0.0, 5.0, 100.0 * turn)

    assert 1.6 < calibration.sds <= 12.0


def test_the_bound_stays_above_the_mean_however_many_waits_were_shorter() -> None:
    calibration = WaitCalibration()

    for turn in range(300):
        calibration.observe(10.0, 2.0, 12.0, 6.0, 100.0 * turn)

    assert calibration.sds == 0.1


def test_the_bound_holds_nine_times_of_ten_once_it_is_calibrated() -> None:
    calibration, draw = WaitCalibration(), np.random.default_rng(0)
    held = []
    for turn in range(6000):
        mean_s = float(draw.uniform(5, 50))
        wait_s = mean_s * float(np.exp(draw.normal(0.05, 0.1)))
        upper_s = mean_s + calibration.sds * 0.05 * mean_s
        calibration.observe(mean_s, 0.05 * mean_s, upper_s, wait_s, 500.0 * turn)
        held.append(wait_s <= upper_s)

    assert np.mean(held[1000:]) == pytest.approx(0.9, abs=0.02)
    figures = calibration.figures()
    assert figures.count == 6000
    assert figures.coverage == pytest.approx(0.9, abs=0.03)
    assert 0.03 < figures.median_error < 0.12


def test_short_waits_are_not_compared_and_nothing_is_known_at_first() -> None:
    calibration = WaitCalibration()

    calibration.observe(0.2, 0.1, 0.3, 0.4, 0.0)

    assert calibration.figures().count == 0
    assert np.isnan(calibration.figures().coverage)


def test_waits_in_a_simulated_queue_are_predicted_with_wrong_step_times() -> None:
    made = in_bursts(
        repeated(trace(3000), 6000), requests_per_s(trace(3000), KIND), instances=1, seed=0
    )

    found = score_record([score_waits(made, KIND, LearnedWaits(), in_time=True)])

    assert found["compared"] > 3000
    assert found["median_error"] < 0.15
    assert 0.75 < found["coverage_90"] <= 1
    assert found["sharpness"] < 2


def test_step_times_are_misjudged_by_seed() -> None:
    assert misjudged(KIND, seed=1) == misjudged(KIND, seed=1)
    assert misjudged(KIND, seed=1) != misjudged(KIND, seed=2)
    assert misjudged(KIND, seed=1, off=0.0) == KIND


def test_prompts_longer_than_the_cache_are_refused_and_counted() -> None:
    made = trace(60)
    long = replace(made, prompt_tokens=np.where(np.arange(60) % 3 == 0, 20_000, 50))

    found = score_record([score_waits(long, KIND, LearnedWaits(), in_time=True)])

    assert found["refused"] == 20
    assert found["requests"] == 60


def test_a_trace_that_never_fits_is_an_error_with_a_hint() -> None:
    made = replace(trace(9), prompt_tokens=np.full(9, 20_000))

    with pytest.raises(StewardError, match="no request fits"):
        requests_per_s(made, KIND)


def test_rounds_of_a_repeated_trace_share_no_prefixes() -> None:
    made = requests_of(
        "p",
        arrival_s=[0.0, 1.0],
        prompt_tokens=[32, 32],
        output_tokens=[2, 2],
        classes=(INTERACTIVE,),
        prefix=[[0, 1], [0, 2]],
        prefix_block_tokens=16,
    )

    found = repeated(made, 4)

    first, second = found.prefix_ids[:4], found.prefix_ids[4:]
    assert not set(first.tolist()) & set(second.tolist())
    assert np.all(np.diff(found.arrival_s) > 0)
