"""What each kind of decision saved, with the carbon of its own hours, and a marked projection."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import outcome
from steward.model.outcome import Interval, savings_of
from steward.model.planning.carbon import CarbonSeries
from steward.model.savings_ledger import DAY_S, LEAST_DAYS, SavingsLedger
from steward.model.site import Assumptions
from steward.model.yardstick import ENERGY, GPU_TIME, RUN, WAITING

ASSUMED = Assumptions(
    price_per_gpu_hour=2.0,
    currency="USD",
    host_watts_per_gpu=100.0,
    power_usage_effectiveness=1.5,
    co2_kg_per_kwh=0.4,
)


def series(*grams: float, begin_s: float = 0.0) -> CarbonSeries:
    return CarbonSeries(region="DE", begin_s=begin_s, grams=np.array(grams))


def exactly(value: float) -> Interval:
    return Interval(low=value, mid=value, high=value)


def test_loans_are_worth_the_same_as_in_the_report() -> None:
    found = [outcome(f"d-{n}", gained=100.0 * n, idle_watts=80.0) for n in range(1, 5)]
    ledger = SavingsLedger(ASSUMED)
    for each in found:
        ledger.add("lend", each, first=True)

    (account,) = ledger.kinds()
    whole = savings_of(found, ASSUMED)
    assert (account.kind, account.decisions, account.outcomes) == ("lend", 4, 4)
    for name in ("gpu_hours", "cost", "energy_kwh", "co2_kg"):
        ours, theirs = getattr(account, name), getattr(whole, name)
        assert (ours.low, ours.mid, ours.high) == pytest.approx(
            (theirs.low, theirs.mid, theirs.high)
        )


def test_each_yardstick_has_its_own_column() -> None:
    ledger = SavingsLedger(ASSUMED)
    ledger.add("cap-power", outcome(gained=3.6e6, yardstick=ENERGY), first=True)
    ledger.add("reprioritise", outcome(gained=7200, yardstick=WAITING), first=True)
    ledger.add("drain-instance", outcome(gained=3600, yardstick=GPU_TIME), first=True)
    ledger.add("start", outcome(gained=3600, yardstick=RUN), first=True)

    found = {each.kind: each for each in ledger.kinds()}

    assert found["cap-power"].energy_kwh.mid == pytest.approx(1.5)  # at the meter
    assert found["cap-power"].co2_kg.mid == pytest.approx(0.6)
    assert found["reprioritise"].waiting_hours.mid == pytest.approx(2.0)
    assert found["drain-instance"].freed_gpu_hours.mid == pytest.approx(1.0)
    assert found["start"].gpu_hours.mid == found["start"].energy_kwh.mid == 0.0


def test_a_decision_with_several_outcomes_counts_once() -> None:
    ledger = SavingsLedger(ASSUMED)
    ledger.add("lend", outcome(), first=True)
    ledger.add("lend", outcome(), first=False)

    (account,) = ledger.kinds()

    assert (account.decisions, account.outcomes) == (1, 2)


def test_carbon_is_that_of_the_hours_in_which_it_was_saved() -> None:
    ledger = SavingsLedger(ASSUMED, series(100.0, 300.0))
    quarter = outcome(gained=3600, from_s=1800, to_s=1800 + 3600)  # half in each hour

    ledger.add("lend", quarter, first=True)

    (account,) = ledger.kinds()
    assert account.co2_kg.mid == pytest.approx(account.energy_kwh.mid * 0.2)
    assert account.hourly_share == pytest.approx(1.0)


def test_hours_that_no_file_has_take_the_assumption_and_that_is_said() -> None:
    ledger = SavingsLedger(ASSUMED, series(100.0))
    ledger.add("lend", outcome(gained=3600, from_s=1800, to_s=1800 + 3600), first=True)

    (account,) = ledger.kinds()

    assert account.co2_kg.mid == pytest.approx(account.energy_kwh.mid * 0.25)
    assert account.hourly_share == pytest.approx(0.5)


def test_an_outcome_of_no_length_takes_the_assumption() -> None:
    ledger = SavingsLedger(ASSUMED, series(100.0))
    ledger.add("lend", outcome(gained=3600, from_s=1800, to_s=1800), first=True)

    assert ledger.kinds()[0].co2_kg.mid == pytest.approx(ledger.kinds()[0].energy_kwh.mid * 0.4)


@given(st.floats(-1e4, 1e6), st.floats(1, 1e5))
def test_the_mean_of_hours_lies_between_the_least_and_the_most(begin: float, length: float) -> None:
    ledger = SavingsLedger(ASSUMED, series(100.0, 300.0, 200.0))
    part = outcome(gained=3600, from_s=begin, to_s=begin + length)

    ledger.add("lend", part, first=True)

    (account,) = ledger.kinds()
    assert 0.1 - 1e-9 <= account.co2_kg.mid / account.energy_kwh.mid <= 0.4 + 1e-9
    assert 0.0 <= account.hourly_share <= 1.0 + 1e-9


def days(*gpu_hours: float) -> SavingsLedger:
    ledger = SavingsLedger(ASSUMED)
    for day, hours in enumerate(gpu_hours):
        at_s = (day + 0.5) * DAY_S
        if hours:
            part = outcome(from_s=at_s - 60, to_s=at_s)
            values = {name: getattr(part, name) for name in ("decision", "t_s", "from_s", "to_s")}
            made = outcome(**{k: v for k, v in values.items() if k != "decision"}, gained=hours)
            ledger.add("lend", made, first=True)
    return ledger


def test_a_year_is_projected_from_whole_days_only() -> None:
    ledger = days(3.6e9, *[3600.0] * LEAST_DAYS, 3.6e9)

    found = ledger.projection()

    assert found is not None
    assert found.days == LEAST_DAYS
    assert found.gpu_hours.mid == pytest.approx(365.0)
    assert found.cost.mid == pytest.approx(730.0)
    assert found.gpu_hours.low == pytest.approx(found.gpu_hours.high)


def test_days_without_savings_count_and_widen_the_range() -> None:
    found = days(3600, *[7200.0, 0.0] * LEAST_DAYS, 3600).projection()

    assert found is not None
    assert found.gpu_hours.mid == pytest.approx(365.0)
    assert found.gpu_hours.low < 365 < found.gpu_hours.high


def test_few_days_and_none_are_no_year() -> None:
    assert SavingsLedger(ASSUMED).projection() is None
    assert days(*[3600.0] * (LEAST_DAYS + 1)).projection() is None
