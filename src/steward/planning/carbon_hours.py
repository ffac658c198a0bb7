"""Carbon of the hours ahead, by region: from a file that has them, or forecast from the past."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from steward.errors import StewardError
from steward.learn.estimators.grid_carbon import GridCarbon
from steward.model.planning.carbon import HOUR_S, CarbonSeries
from steward.model.planning.outlook import Outlook
from steward.store.grid_carbon import read_carbon

__all__ = ["carbon_ahead"]

_NEAR_H = 3  # hours that a record may be behind the present
_HINT = "give a forecast from the present hour on, or a record of a month or more up to it"


def carbon_ahead(path: Path, now_s: float) -> Outlook:
    """Return each region's hours from the present one on.

    A region whose hours go on after the present one has its forecast in the file. One that is
    recorded up to now is forecast, from the present hour on where that is recorded already; others
    are left out.
    """
    now_h = int(now_s // HOUR_S)
    series = read_carbon(path)
    found = {each.region: hours for each in series for hours in _hours(each, now_h)}
    if not found:
        raise StewardError(
            f"it says nothing of the hours from now on: {_extent(series, now_s)}",
            where=str(path),
            hint=_HINT,
        )
    return Outlook(grams_by_hour=found, hours_from_s=now_h * HOUR_S)


def _hours(series: CarbonSeries, now_h: int) -> Iterator[tuple[float, ...]]:
    """Return the hours of a region, or nothing where they are not known."""
    first_h = int(series.begin_s // HOUR_S)
    gone = now_h - first_h
    behind = gone - len(series.grams)  # -1: the present hour is the last one
    if gone < 0 or behind > _NEAR_H:
        return
    recorded = tuple(series.grams[gone:].tolist())
    estimator = GridCarbon()
    if len(recorded) <= 1 and len(series.grams) >= estimator.least_history_h:
        yield (*recorded, *estimator.next_hours(series)[max(behind, 0) :].tolist())
    elif recorded:
        yield recorded


def _extent(series: Sequence[CarbonSeries], now_s: float) -> str:
    """Return when the hours of a file begin, where that is to come, else when they end."""
    begin_s = min(each.begin_s for each in series)
    if begin_s > now_s:
        return f"it begins at {_moment(begin_s)}"
    return f"it ends at {_moment(max(each.end_s for each in series))}"


def _moment(t_s: float) -> str:
    return f"{datetime.fromtimestamp(t_s, tz=UTC):%Y-%m-%d %H:%M} UTC"
