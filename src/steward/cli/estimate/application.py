"""`steward estimate app`: what an application needs in a configuration, from its campaign."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from steward.cli.estimate.campaign import campaigns_folder
from steward.cli.options import Config, Data, Json
from steward.cli.output import clean, print_json, print_table
from steward.cli.words import number, span
from steward.errors import StewardError, did_you_mean

__all__ = ["application", "campaign_folder", "read_configuration"]


def application(
    name: Annotated[
        str, typer.Argument(metavar="NAME|FOLDER", help="A campaign, or the folder of one.")
    ],
    *,
    values: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PARAMETER=VALUE", help="A parameter; again for each."),
    ] = None,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Estimate the time and memory of one configuration, with limits and what they rest on."""
    from steward.learn.estimators.applications.runner import learned_application

    learned = learned_application(campaign_folder(name, campaigns_folder(config, data)))
    found = learned.estimate(read_configuration(values or []))
    if as_json:
        print_json(found)
        return
    rows = [
        (
            _NAMES[each.quantity],
            *(_written(each.quantity, x) for x in (each.low, each.mid, each.high)),
            each.basis,
        )
        for each in found
    ]
    print_table(("quantity", "low", "likely", "high", "based on"), rows, empty="")


def campaign_folder(name: str, campaigns: Path) -> Path:
    """Return the folder of a campaign, by its name or as it is."""
    if "/" in name or Path(name).is_dir():
        return Path(name)
    known = sorted(each.name for each in campaigns.iterdir()) if campaigns.is_dir() else []
    if name not in known:
        hint = did_you_mean(name, known) or f"known: {', '.join(known) or 'none'}"
        problem = f"there is no campaign called {clean(name)!r}"
        raise StewardError(problem, where=str(campaigns), hint=hint)
    return campaigns / name


def read_configuration(values: Sequence[str]) -> dict[str, str]:
    """Return parameters with their values."""
    found: dict[str, str] = {}
    for each in values:
        name, given, value = each.partition("=")
        if not given or not name or name in found:
            hint = "write --set size=512, once for each parameter"
            problem = f"{each!r} is no setting" if name not in found else f"{name} is given twice"
            raise StewardError(problem, where="--set", hint=hint)
        found[name] = value
    return found


def _written(quantity: str, value: float) -> str:
    return span(value) if quantity.endswith("_s") else f"{number(value / 2**20)} MiB"


_NAMES = {
    "run.time_s": "run time",
    "run.memory_bytes": "peak memory",
    "run.gpu_memory_bytes": "peak GPU memory",
}
