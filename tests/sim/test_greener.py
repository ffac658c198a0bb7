import numpy as np
import pytest

from steward.errors import StewardError
from steward.learn.estimators.grid_carbon import GridCarbon
from steward.model.planning.carbon import CarbonSeries, IssuedForecasts
from steward.sim.greener import replay_greener

HOURS = 24 * 120


def series(
    region: str = "X", *, hours: int = HOURS, noise: float = 0.0, seed: int = 0
) -> CarbonSeries:
    at = np.arange(hours)
    random = np.random.default_rng(seed)
    weather = np.cumsum(random.standard_normal(hours)) * noise
    grams = 300 + 100 * np.sin(2 * np.pi * at / 24) + weather - 0.02 * np.cumsum(weather * 0)
    return CarbonSeries(region=region, begin_s=0.0, grams=np.maximum(grams, 1.0))


def test_a_day_that_repeats_is_forecast_exactly() -> None:
    known = series()

    ahead = GridCarbon(ahead_h=24).next_hours(known)

    expected = 300 + 100 * np.sin(2 * np.pi * (HOURS + np.arange(24)) / 24)
    assert ahead == pytest.approx(expected, abs=1.0)


def test_a_forecast_knows_nothing_of_later_hours() -> None:
    known = series(noise=2.0)
    at = HOURS - 100
    changed = CarbonSeries(
        region="X", begin_s=0.0, grams=np.append(known.grams[:at], np.full(100, 9999.0))
    )
    carbon = GridCarbon(ahead_h=12)

    before = carbon.forecasts(known, at - 50, at + 1)
    after = carbon.forecasts(changed, at - 50, at + 1)

    assert before == pytest.approx(after, rel=1e-9)


def test_forecasts_of_others_that_are_right_are_believed_and_wrong_ones_are_not() -> None:
    known = series(noise=6.0, seed=1)
    issued = np.arange(0, HOURS - 96, 24)
    truth = np.stack([known.grams[at : at + 96] for at in issued])
    rubbish = np.random.default_rng(2).uniform(0, 1000, truth.shape)
    carbon, first, last = GridCarbon(ahead_h=12), HOURS - 24 * 40, HOURS - 24 * 10
    hours = np.arange(first, last)[24 * 20 :, None] + np.arange(12)

    def error(said: np.ndarray | None) -> float:
        forecasts = None if said is None else IssuedForecasts(issued_h=issued, grams=said)
        asked = CarbonSeries(region="X", begin_s=0.0, grams=known.grams, forecasts=forecasts)
        found = carbon.forecasts(asked, first, last)[24 * 20 :]
        return float(np.mean(np.abs(found - known.grams[hours])))

    assert error(truth) < 0.5 * error(None)
    assert error(rubbish) < 1.15 * error(None)


def test_jobs_that_may_wait_save_nearly_all_that_a_regular_day_allows() -> None:
    saving = replay_greener([series(noise=0.5)], run_s=4 * 3600.0, slack_h=24)

    assert saving.oracle_share > 0.2
    assert saving.of_oracle_share > 0.95
    assert saving.worst_share < 0
    [region] = saving.regions
    assert region.low_share <= region.saved_share <= region.high_share


def test_nothing_is_saved_where_all_hours_are_alike() -> None:
    flat = CarbonSeries(region="F", begin_s=0.0, grams=np.full(HOURS, 50.0))

    saving = replay_greener([flat], run_s=3600.0, slack_h=12)

    assert saving.saved_share == pytest.approx(0.0, abs=1e-9)
    assert saving.of_oracle_share == 1.0


def test_a_region_with_a_short_history_is_left_out_and_named() -> None:
    saving = replay_greener([series(), series("short", hours=400)], run_s=3600.0, slack_h=12)

    assert saving.left_out == ("short",)


def test_without_any_history_it_says_how_much_is_needed() -> None:
    with pytest.raises(StewardError, match="no region has enough history") as fault:
        replay_greener([series("short", hours=400)], run_s=3600.0, slack_h=12)

    assert "hours" in (fault.value.hint or "")


def test_a_region_without_any_carbon_saves_nothing_and_worsens_nothing() -> None:
    clean = CarbonSeries(region="C", begin_s=0.0, grams=np.zeros(HOURS))

    saving = replay_greener([clean], run_s=3600.0, slack_h=12)

    assert (saving.saved_share, saving.oracle_share) == (0.0, 0.0)
    assert saving.regions[0].worst_week_share == 0.0
