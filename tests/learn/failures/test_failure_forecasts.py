"""Forecasts of failures from their history."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.errors import StewardError
from steward.learn.failures import FailureForecasts, read_history, score
from steward.learn.failures.forecasts import unit_rates
from steward.learn.failures.history import FailureHistory
from steward.learn.failures.latest import latest
from steward.learn.failures.panels import DAY_S, Panel, panels
from steward.learn.failures.scores import auc


def made(*, seed: int = 0, units: int = 600, days: int = 900, bad: int = 12) -> FailureHistory:
    """Return a history in which all units of some enclosures fail far more often."""
    rng = np.random.default_rng(seed)
    enclosure = np.arange(units) // 10
    rate = np.where(np.isin(enclosure, np.arange(bad)), 1 / 900, 1 / 40_000)
    pairs = [
        (float(t), unit)
        for unit in range(units)
        for t in np.cumsum(rng.exponential(1 / rate[unit], 20))
        if t < days
    ]
    times, who = zip(*sorted(pairs), strict=True)
    return FailureHistory(
        units=tuple(f"u{i}" for i in range(units)),
        event_s=np.array(times) * DAY_S,
        event_unit=np.array(who, np.int64),
        stay_unit=np.arange(units, dtype=np.int64),
        stay_from_s=np.zeros(units),
        stay_to_s=np.full(units, days * DAY_S),
        unit_places={"enclosure": enclosure.astype(np.int64)},
        stay_places={},
        basis="made",
    )


@pytest.fixture(scope="module")
def history() -> FailureHistory:
    return made()


def test_places_that_fail_often_are_found_beyond_what_each_unit_shows(
    history: FailureHistory,
) -> None:
    found = score(history, horizon_s=30 * DAY_S)

    assert found.auc > found.baseline_auc
    assert found.auc_gain_interval[0] > 0
    assert found.brier < 1.05 * found.baseline_brier  # with 48 failures no more can be told
    assert 0.5 < found.expected_failures / found.failures < 2


def test_forecasts_know_nothing_of_what_comes_later(history: FailureHistory) -> None:
    cut_s = 600 * DAY_S
    before = history.event_s <= cut_s
    shorter = FailureHistory(
        units=history.units,
        event_s=history.event_s[before],
        event_unit=history.event_unit[before],
        stay_unit=history.stay_unit,
        stay_from_s=history.stay_from_s,
        stay_to_s=history.stay_to_s,
        unit_places=history.unit_places,
        stay_places={},
        basis="made",
    )

    whole = list(panels(history, step_s=50 * DAY_S, horizon_s=30 * DAY_S))
    part = list(panels(shorter, step_s=50 * DAY_S, horizon_s=30 * DAY_S))

    early = [i for i, each in enumerate(whole) if each.t_s <= cut_s]
    assert len(early) > 5
    for i in early:
        np.testing.assert_array_equal(whole[i].features, part[i].features)


def test_before_anything_failed_there_is_a_forecast_already(history: FailureHistory) -> None:
    first = next(panels(history, step_s=DAY_S, horizon_s=30 * DAY_S))

    chances = FailureForecasts(horizon_s=30 * DAY_S).predict(first)

    assert ((chances >= 0) & (chances <= 1)).all()


def test_the_newest_forecast_lists_units_of_bad_places_first(history: FailureHistory) -> None:
    found = latest(history, horizon_s=30 * DAY_S)

    worst = found.units[found.order()[:60]]
    assert np.isin(history.unit_places["enclosure"][worst], np.arange(12)).mean() > 0.8


def test_the_rate_of_a_unit_is_drawn_towards_all_where_little_is_known() -> None:
    panel = Panel(
        t_s=0.0,
        level=0.0,
        units=np.arange(3),
        features=np.zeros((3, 1), np.float32),
        failed=np.zeros(3, np.bool_),
        counts=np.array([0.0, 5.0, 0.0]),
        exposure_s=np.array([1.0, 1.0, 1e-6]) * 1e8,
    )

    quiet, often, unknown = unit_rates(panel, horizon_s=1e6)

    assert quiet < unknown < often


@given(
    chances=st.lists(st.sampled_from([0.1, 0.2, 0.5, 0.9]), min_size=4, max_size=30),
    data=st.data(),
)
def test_the_auc_is_the_share_of_pairs_in_the_right_order(
    chances: list[float], data: st.DataObject
) -> None:
    failed = data.draw(st.lists(st.booleans(), min_size=len(chances), max_size=len(chances)))
    bad = [c for c, f in zip(chances, failed, strict=True) if f]
    good = [c for c, f in zip(chances, failed, strict=True) if not f]
    pairs = [(b > g) + (b == g) / 2 for b in bad for g in good]

    found = auc(np.array(chances), np.array(failed))

    assert np.isnan(found) if not pairs else found == pytest.approx(sum(pairs) / len(pairs))


def test_a_history_of_stays_is_read(tmp_path: Path) -> None:
    rows = ["SN,location,insert,remove,duration,out,event"]
    for i in range(40):
        rows.append(
            f"A{i:05d},c{i % 3}-0c0s1n{i % 2},2015-01-01 00:00:00,"
            f"2016-01-{1 + i % 28:02d} 00:00:00,1,TRUE,DBE"
        )
        rows.append(f"A{i:05d},c1-0c0s1n1,2016-02-01 00:00:00,2018-01-01 00:00:00,1,FALSE,")
    rows.append("A00001,c0-0c0s1n0,,2016-03-01 00:00:00,,,OTB")
    file = tmp_path / "stays.csv"
    file.write_text("\n".join(rows))

    found = read_history(file)

    assert (len(found.units), len(found.event_s), len(found.stay_unit)) == (40, 41, 80)
    assert (np.diff(found.event_s) >= 0).all()
    assert "place" in found.stay_places


def test_units_of_a_history_of_events_are_all_places_there_can_be(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = [",Timestamp,rack,enclosure,slot,position"]
    for i in range(60):
        rack, enclosure, slot = i % 4, i // 4 % 3, int(rng.integers(20))
        rows.append(
            f"{i},2020-01-{1 + i % 28:02d}T00:00:00-0500,{rack},{enclosure},{slot},{slot // 5}"
        )
    file = tmp_path / "events.csv"
    file.write_text("\n".join(rows))

    found = read_history(file)

    slots = len({row.split(",")[4] for row in rows[1:]})
    assert len(found.units) == 4 * 3 * slots
    assert len(found.event_s) == 60
    assert {"rack", "rack/enclosure", "position"} <= set(found.unit_places)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot be read as a table"),
        ("a,b\n", "no rows"),
        ("a,b\n1,2\n", "no column of times"),
        ("Timestamp,slot\nyesterday,2\nx,3\n", "no time in column"),
        ("Timestamp\n2020-01-01T00:00:00Z\n", "says what failed"),
        ("insert,remove,x\n2020-01-01,2020-01-02,3\n", "column of unit"),
        (
            "Timestamp,slot\n2020-01-01T00:00:00Z,2\n2020-01-02T00:00:00Z,2\n2020-01-03,3\n",
            "3 failures",
        ),
    ],
)
def test_tables_that_are_no_history_are_refused_with_what_is_missing(
    tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "h.csv"
    file.write_text(text)

    with pytest.raises(StewardError, match=said):
        read_history(file)


def test_a_history_without_a_failure_in_its_last_third_cannot_be_scored() -> None:
    history = made(days=200, units=60)
    ended = FailureHistory(
        units=history.units,
        event_s=history.event_s,
        event_unit=history.event_unit,
        stay_unit=history.stay_unit,
        stay_from_s=history.stay_from_s,
        stay_to_s=np.full(len(history.units), 700 * DAY_S),
        unit_places=history.unit_places,
        stay_places={},
        basis="made",
    )

    with pytest.raises(StewardError, match="nothing can be scored"):
        score(ended, horizon_s=30 * DAY_S)
