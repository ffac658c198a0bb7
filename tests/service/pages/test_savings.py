"""The Savings page says what each kind of decision brought, and marks what nobody measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from factories import outcome
from steward.model.outcome import Savings, savings_of
from steward.model.savings_ledger import DAY_S, SavingsLedger
from steward.model.site import Assumptions
from steward.service.live_state import StateSnapshot
from steward.service.pages.savings import kind_table, projection_text

ASSUMED = Assumptions(
    price_per_gpu_hour=2.0,
    currency="EUR",
    host_watts_per_gpu=100.0,
    power_usage_effectiveness=1.5,
    co2_kg_per_kwh=0.4,
)


class Shown:
    """The part of a snapshot that these tables read."""

    def __init__(self, days: int) -> None:
        ledger = SavingsLedger(ASSUMED)
        for day in range(days):
            part = replace(outcome(gained=3600.0), from_s=day * DAY_S, to_s=day * DAY_S + 60)
            ledger.add("<lend>", part, first=True)
        self.kinds = ledger.kinds()
        self.projection = ledger.projection()
        self.savings: Savings = savings_of((), ASSUMED)


def snapshot(days: int) -> StateSnapshot:
    return cast("Any", Shown(days))


def test_each_kind_has_a_row_with_its_currency_and_escaped_name() -> None:
    text = str(kind_table(snapshot(3)))

    assert "&lt;lend&gt;" in text
    assert "EUR" in text
    assert "3.00 (" in text


def test_nothing_measured_is_said() -> None:
    assert "No outcome was measured yet" in str(kind_table(snapshot(0)))
    assert "None before 7 whole days" in str(projection_text(snapshot(3)))


def test_a_year_names_the_days_that_it_rests_on() -> None:
    text = str(projection_text(snapshot(10)))

    assert "days like the 8 that were measured" in text
    assert "365" in text
