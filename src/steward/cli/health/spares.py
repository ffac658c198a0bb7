"""`steward health spares`: how many spare nodes it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from steward.cli.health.report import Target
from steward.cli.options import Json
from steward.cli.output import print_json, print_lines, waiting
from steward.errors import StewardError

__all__ = ["spares"]

AccountFiles = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[FILE]...",
        help="`sacctmgr -P show event`, `scontrol show node`, or Kubernetes's nodes and events: "
        "when nodes were out of service.",
    ),
]
Nodes = Annotated[
    int | None, typer.Option("--nodes", min=1, help="How many have to be up; else all there are.")
]
Available = Annotated[
    float | None,
    typer.Option("--available", help="Share of the time a node is up, where no file tells."),
]
GroupNodes = Annotated[
    int | None, typer.Option("--group", min=2, help="Nodes that fail together: of a rack, say.")
]
GroupDown = Annotated[
    float, typer.Option("--group-down", help="Share of the time that a group is down as a whole.")
]


def spares(  # noqa: PLR0913 - options of a command
    files: AccountFiles = None,
    *,
    nodes: Nodes = None,
    available: Available = None,
    target: Target = 0.999,
    group: GroupNodes = None,
    group_down: GroupDown = 0.0,
    as_json: Json = False,
) -> None:
    """Say how many spare nodes it takes, if each fails by itself and as outages really came."""
    if files:
        answer = _measured(files, nodes, target)
    elif available is not None and nodes is not None:
        answer = _given(nodes, available, target, (group, group_down))
    else:
        raise StewardError(
            "there is nothing to count from",
            where="steward health spares",
            hint="name files of node states, or give --nodes and --available",
        )
    if as_json:
        print_json(answer)
    else:
        print_lines(_lines(answer))


def _measured(files: list[Path], nodes: int | None, target: float) -> dict[str, Any]:
    from steward.health.exposure import is_empty, window_of
    from steward.health.report import spare_plans
    from steward.learn.reliability import availability
    from steward.observe.accounting import read_accounts

    with waiting("reading"):
        read = read_accounts(files)
        window_s = window_of([], read)
    if not read.spells or is_empty(window_s):
        raise StewardError(
            "no node was ever out of service in these files",
            where=str(files[0]),
            hint="`sacctmgr -P show event start=...` has when nodes were down or drained",
        )
    found = availability(read.spells, read.nodes(), window_s)
    needed = nodes or found.nodes
    plans = spare_plans(read, found, window_s, needed=needed, target=target)
    return {"availability": found, "plans": plans}


def _given(
    nodes: int, available: float, target: float, group: tuple[int | None, float]
) -> dict[str, Any]:
    from steward.decide.health.spares import GroupOutages, spares_for
    from steward.model.outcome import Interval

    size, down = group
    if not 0 <= down < 1:
        raise StewardError(
            f"a group cannot be down for {down:g} of the time",
            where="--group-down",
            hint="0 to below 1",
        )
    known = Interval(low=available, mid=available, high=available)
    plans = {"independent": spares_for(nodes, known, target=target)}
    if size is not None:
        together = GroupOutages(nodes=size, down_share=down)
        plans["groups together"] = spares_for(nodes, known, target=target, groups=together)
    return {"availability": None, "plans": plans}


def _lines(answer: dict[str, Any]) -> list[str]:
    from steward.health.page import interval, percent

    lines, found = [], answer["availability"]
    if found is not None:
        lines.append(
            f"{found.nodes:,} nodes over {found.hours:,.0f} h: available "
            f"{percent(found.available)}, MTTF h {interval(found.mttf_h)}, "
            f"MTTR h {interval(found.mttr_h)}"
        )
    return lines + [
        f"  {name}: {plan.spares:,} spares ({plan.low:,} to {plan.high:,}) for {plan.needed:,} "
        f"nodes, {plan.share:.1%}; enough are up for {plan.reached:.4%} of the time"
        for name, plan in answer["plans"].items()
    ]
