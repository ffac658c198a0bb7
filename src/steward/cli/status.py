"""`steward status`: does it run, does its engine answer, and the same of all sites."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from steward.cli.options import Config, Data, Json, chosen_site, read_draft
from steward.cli.output import print_json, print_table
from steward.cli.site_processes import site_sockets
from steward.cli.words import ago, moment

if TYPE_CHECKING:
    from steward.model.site import SiteHealth

__all__ = ["status"]

COLUMNS = ("site", "state", "last turn", "faults", "dashboard", "what is wrong")


def status(*, config: Config = None, data: Data = None, as_json: Json = False) -> None:
    """Show whether steward runs here and its engine answers, and the same of each site.

    Exits 1 unless all are fine.
    """
    from steward.clients.site_health import ask_healths

    draft = read_draft(config, data)
    settings = draft.settled()
    sockets = {chosen_site() or settings.site.name: settings.socket_path}
    found = ask_healths(sockets | site_sockets(draft))
    if as_json:
        print_json([asdict(each) for each in found])
    else:
        present_s = time.time()
        print_table(COLUMNS, [_row(each, present_s) for each in found], empty="")
    raise typer.Exit(0 if all(each.is_fine for each in found) else 1)


def _row(health: SiteHealth, present_s: float) -> list[str]:
    turned_s, since_s = health.last_turn_t_s, health.since_s
    since = "" if since_s is None else f" (since {moment(since_s)})"
    return [
        health.name,
        health.state.value,
        "" if turned_s is None else ago(turned_s, present_s),
        str(health.faults),
        health.url,
        health.text + since,
    ]
