"""`steward health forecast`: which units will fail soon, and how good such forecasts were."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from steward.cli.options import Json
from steward.cli.output import print_json, print_lines, print_note, print_table, waiting
from steward.errors import StewardError

__all__ = ["forecast"]

_DAY_S = 86_400.0
_LONGEST_DAYS = 3650.0

Events = Annotated[
    Path,
    typer.Option(
        "--events",
        metavar="FILE",
        help="CSV or Parquet: stays (insert, remove, serial number, event), or failures with their "
        "time and place (rack, enclosure, slot).",
    ),
]
Score = Annotated[
    bool, typer.Option("--score", help="Forecast the last third of the time, and compare.")
]
Horizon = Annotated[
    float, typer.Option("--horizon", metavar="DAYS", help="How far ahead a failure counts.")
]
Most = Annotated[int, typer.Option("--most", metavar="N", help="How many units are listed.")]


def forecast(
    events: Events,
    *,
    score: Score = False,
    horizon: Horizon = 30.0,
    most: Most = 20,
    as_json: Json = False,
) -> None:
    """List the units that are most likely to fail next, from a history of failures.

    With --score, each moment of the last third is forecast from what was known before it, beside
    the rate of each unit alone.
    """
    from steward.learn.failures import read_history

    if not 0 < horizon <= _LONGEST_DAYS:
        raise StewardError(
            f"a horizon of {horizon:g} days is not possible",
            where="--horizon",
            hint=f"above 0, at most {_LONGEST_DAYS:g}",
        )
    with waiting("reading and learning"):
        history = read_history(events)
        answer = _score(history, horizon) if score else _next(history, horizon, most)
    if as_json:
        print_json(answer)
    elif score:
        print_lines(_written(answer))
    else:
        print_table(
            ("unit", f"chance in {horizon:g} days", "failures so far"),
            [
                (row["unit"], f"{row['chance']:.2%}", f"{row['failures']}")
                for row in answer["units"]
            ],
            empty="no unit is in service at the end of this history",
        )
        print_note(f"{answer['basis']}; {answer['expected_failures']:.1f} failures expected in all")


def _score(history: Any, horizon_days: float) -> dict[str, Any]:  # noqa: ANN401 - imported late
    from steward.learn.failures import score

    return {
        **asdict(score(history, horizon_s=horizon_days * _DAY_S)),
        "horizon_days": horizon_days,
    }


def _next(history: Any, horizon_days: float, most: int) -> dict[str, Any]:  # noqa: ANN401 - as above
    from steward.learn.failures.latest import latest

    found = latest(history, horizon_s=horizon_days * _DAY_S)
    return {
        "horizon_days": horizon_days,
        "as_of_s": found.t_s,
        "basis": history.basis,
        "expected_failures": float(found.chances.sum()),
        "units": [
            {
                "unit": history.units[int(found.units[row])],
                "chance": float(found.chances[row]),
                "failures": int(found.failures[row]),
            }
            for row in found.order()[: max(0, most)]
        ],
    }


def _written(answer: dict[str, Any]) -> list[str]:
    low, high = answer["auc_gain_interval"]
    brier_low, brier_high = answer["brier_gain_interval"]
    return [
        f"{answer['basis']}",
        (
            f"  {answer['forecasts']:,} forecasts over {answer['horizon_days']:g} days at "
            f"{answer['panels']} moments, {answer['failures']:,} failures "
            f"({answer['expected_failures']:,.0f} expected)"
        ),
        (
            f"  AUC {answer['auc']:.3f}, by each unit's own rate {answer['baseline_auc']:.3f}: "
            f"{low:+.3f} to {high:+.3f} better"
        ),
        (
            f"  Brier score {answer['brier']:.3g}, by rates {answer['baseline_brier']:.3g}: "
            f"{brier_low:+.1%} to {brier_high:+.1%} better"
        ),
    ]
