"""`steward estimate greener`: what waiting for greener hours would save."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from steward.cli.options import Json
from steward.cli.output import print_json, print_note, print_table, waiting

__all__ = ["greener"]


def greener(
    file: Annotated[
        Path, typer.Argument(help="CSV with `region, hour_utc, grams_per_kwh`; gzip is fine.")
    ],
    *,
    forecasts: Annotated[
        Path | None,
        typer.Option(
            "--forecasts",
            metavar="FILE",
            help="Forecasts of others: `region, issued_utc, hour_utc, forecast_g_per_kwh`.",
        ),
    ] = None,
    hours: Annotated[
        float, typer.Option("--hours", min=0.1, max=168.0, help="How long each job runs.")
    ] = 4.0,
    slack: Annotated[
        int, typer.Option("--slack", min=1, max=168, help="How many hours it may wait.")
    ] = 24,
    since: Annotated[
        datetime | None,
        typer.Option(
            "--since",
            formats=["%Y-%m-%d"],
            metavar="DATE",
            help="The first job's day (UTC), as 2026-07-01. Default: half of each series.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Replay a job every hour that starts when no later hour within its slack is forecast better.

    Forecasts know only what was over when they were made. `oracle` knows all hours in advance.
    """
    from dataclasses import asdict

    from steward.sim.greener import replay_greener
    from steward.store.grid_carbon import read_carbon

    series = read_carbon(file, forecasts)
    from_s = None if since is None else since.replace(tzinfo=UTC).timestamp()
    with waiting(f"forecasting {len(series)} regions"):
        found = replay_greener(series, run_s=hours * 3600.0, slack_h=slack, from_s=from_s)
    if as_json:
        print_json(asdict(found))
        return
    columns = ("region", "g/kWh", "saved", "95 %", "oracle", "waited", "jobs over 2 % worse")
    rows = [
        (
            each.region,
            f"{each.grams_now:.0f}",
            f"{each.saved_share:.1%}",
            f"{each.low_share:.1%} to {each.high_share:.1%}",
            f"{each.oracle_share:.1%}",
            f"{each.waited_h:.1f} h",
            f"{each.worse_jobs_share:.1%}",
        )
        for each in found.regions
    ]
    print_table(columns, rows, empty="no region")
    print_note(
        f"together {found.saved_share:.1%} of the carbon is saved, {found.of_oracle_share:.0%} of "
        f"what knowing all hours would; running all in the greenest region would save "
        f"{found.best_region_share:.0%}"
    )
    if found.left_out:
        print_note(f"too short a history: {', '.join(found.left_out)}")
