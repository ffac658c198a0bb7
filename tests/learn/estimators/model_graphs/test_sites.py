"""What measured runs change: a GPU's speed, its context, and the limits."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log

import pytest

from recorded_traces import recorded_trace
from steward.errors import StewardError
from steward.learn.estimators.model_graphs.answers import ModelEstimate, estimate_model
from steward.learn.estimators.model_graphs.calibration import Spread, calibration, widened
from steward.learn.estimators.model_graphs.gpu_types import gpu_type
from steward.learn.estimators.model_graphs.question import ModelQuestion
from steward.learn.estimators.model_graphs.scores import measured_runs
from steward.learn.estimators.model_graphs.sites import MeasuredRun, Site, fit_site, state_name

_ASKED = ModelQuestion(model="gpt2", batch=4, amp=True, gpu="a6000")


def _run(seconds: float, model: str = "gpt2", reserved: float = 1.0) -> MeasuredRun:
    trace = recorded_trace("gpt2_b4_train")
    held = trace["reserved_bytes"] * reserved
    return MeasuredRun(
        question=replace(_ASKED, model=model),
        trace=trace,
        step_s=seconds,
        reserved_bytes=held,
        device_bytes=held + 5e8,
    )


def _answer(site: Site | None) -> ModelEstimate:
    return estimate_model(_ASKED, None, find_batch=False, site=site)


def _site(*runs: MeasuredRun) -> Site:
    return fit_site(runs, calibration(), name="lab", like=gpu_type("a6000"))


def test_a_slow_gpu_is_answered_slower_after_three_runs() -> None:
    fast, slow = _site(*[_run(0.05)] * 3), _site(*[_run(0.2)] * 3)

    assert _likely(_answer(fast)) < _likely(_answer(slow))


def _likely(found: ModelEstimate) -> float:
    assert found.step_s is not None
    return found.step_s.likely


def _reach(found: ModelEstimate) -> float:
    assert found.step_s is not None
    return log(found.step_s.high / found.step_s.low)


def test_each_run_narrows_the_limits_of_time() -> None:
    reaches = [_reach(_answer(None))]
    reaches += [_reach(_answer(_site(*[_run(0.1)] * count))) for count in (1, 3, 12)]

    assert reaches == sorted(reaches, reverse=True)
    assert reaches[0] > reaches[-1] * 1.1


def test_runs_of_another_model_narrow_less_than_runs_of_this_one() -> None:
    own = _site(*[_run(0.1)] * 3)
    other = _site(*[_run(0.1, "gpt2-other")] * 3)

    assert _reach(_answer(own)) < _reach(_answer(other))


def test_the_context_of_a_gpu_is_the_one_that_was_measured() -> None:
    found = _answer(_site(_run(0.1)))

    assert found.device_bytes.likely - found.reserved_bytes.likely == pytest.approx(5e8)


def test_memory_above_what_was_predicted_raises_the_answer_for_that_model() -> None:
    plain, more = _answer(_site(_run(0.1))), _answer(_site(*[_run(0.1, reserved=1.2)] * 3))

    assert more.reserved_bytes.likely > plain.reserved_bytes.likely * 1.05


def test_a_site_survives_being_saved() -> None:
    site = _site(_run(0.1), _run(0.12, "other"))

    assert Site.from_payload(site.payload()) == site


def test_no_runs_are_refused() -> None:
    with pytest.raises(StewardError, match="no row can be used"):
        _site()


def test_a_name_without_letters_is_refused() -> None:
    with pytest.raises(StewardError, match="names no GPU"):
        state_name("--- ")


def test_rows_that_cannot_be_used_are_named_and_the_others_are_kept() -> None:
    good = {"model": "gpt2", "mode": "train", "batch": "4", "step_s": "0.1"}

    runs, failed = measured_runs([good, {**good, "model": "?"}, {**good, "step_s": ""}], None, "l4")

    assert [run.step_s for run in runs] == [0.1]
    assert [each["line"] for each in failed] == [3, 4]


def test_a_spread_trusts_many_runs_more_than_one() -> None:
    spread = Spread(between_models=0.1, within_model=0.2)

    (one, wide), (many, narrow) = spread.after([0.3]), spread.after([0.3] * 20)

    assert 0 < one < many < 0.3
    assert spread.within_model < narrow < wide
    assert spread.after([])[0] == 0
    assert spread.after([])[1] == pytest.approx((0.1**2 + 0.2**2) ** 0.5)


def test_widened_limits_contain_the_narrow_ones() -> None:
    low, high = widened((0.8, 1.3), 0.2)

    assert low < 0.8
    assert high > 1.3
    assert low > exp(-2)
