"""`steward estimate catalog show`: one site with its queues, or whether a request fits there."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

import typer

from steward.cli.estimate.catalog.opened import age_of, now_s, old_notes, open_catalog
from steward.cli.options import Config, Data, Json
from steward.cli.output import print_json, print_lines, print_table, print_warnings
from steward.cli.words import number, span
from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.model.planning.catalog import CatalogSite, Charging, Queue

__all__ = ["charge_text", "show"]


def show(
    name: Annotated[str, typer.Argument(metavar="SITE", help="A site, as `list` shows it.")],
    *,
    only: Annotated[
        str, typer.Option("--queue", metavar="PATTERN", help="Queues, as gpu*; without it all.")
    ] = "*",
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Show a site: limits, charging rule and age of each of its queues."""
    merged = open_catalog(config, data)
    site = merged.catalog.site(name)
    queues = [queue for queue in site.queues if fnmatchcase(queue.name, only)]
    if site.queues and not queues:
        names = ", ".join(queue.name for queue in site.queues[:20])
        raise StewardError(f"no queue is called '{only}'", where=name, hint=f"its queues: {names}")
    now = now_s()
    notes = old_notes(site, queues, now)
    if as_json:
        print_json({**_record(site, queues), "notes": notes, "from": merged.origins[name]})
        return
    print_lines(_lines(site, merged.origins[name]))
    columns = ("queue", "node", "GPUs", "nodes", "time", "charge", "as of")
    print_table(columns, [_row(site, each, now) for each in queues], empty="it has no queues")
    print_warnings(notes)


def _record(site: CatalogSite, queues: list[Queue]) -> dict[str, object]:
    return {
        "name": site.name,
        "engine": site.engine,
        "region": site.region,
        "grams_per_kwh": site.grams_per_kwh,
        "power_usage_effectiveness": site.power_usage_effectiveness,
        "steward_site": site.steward_site,
        "source": site.source,
        "queues": queues,
    }


def _lines(site: CatalogSite, origin: str) -> list[str]:
    grams = "unknown" if site.grams_per_kwh is None else f"{number(site.grams_per_kwh)} g/kWh"
    building = f"the building draws {site.power_usage_effectiveness:g} W for each W"
    lines = [
        f"{site.name} ({site.engine.value})",
        f"  carbon of its grid: {grams}; {building}",
    ]
    if site.steward_site:
        lines.append(f"  submitted to as the site '{site.steward_site}' of the configuration")
    return [*lines, f"  from {origin}", ""]


def _row(site: CatalogSite, queue: Queue, now: float) -> tuple[str, ...]:
    cores = f"{queue.cores_per_node} cores" if queue.cores_per_node else "? cores"
    size = queue.memory_bytes_per_node
    memory = f"{size / 1e9:.4g} GB" if size else "? GB"
    gpus = f"{queue.gpus_per_node} x {queue.gpu_model or '?'}" if queue.gpus_per_node else "none"
    most = queue.max_nodes if queue.max_nodes is not None else queue.nodes
    nodes = f"{queue.min_nodes} to {'any' if most is None else most}"
    marks = [
        "" if queue.shared_nodes else "whole nodes",
        "interruptible" if queue.interruptible else "",
    ]
    limit = "any" if queue.max_s is None else span(queue.max_s)
    source = queue.source if queue.source.as_of else site.source
    return (
        queue.name,
        ", ".join([cores, memory, *(mark for mark in marks if mark)]),
        gpus,
        nodes,
        limit,
        charge_text(queue.charging),
        age_of(source, now),
    )


def charge_text(rule: Charging) -> str:
    """Return a charging rule as a phrase."""
    from steward.model.planning.catalog import Basis

    if rule.basis is Basis.FREE:
        return "unknown" if rule.usd_per_unit is None else "free"
    parts = [f"{rule.rate:g} {rule.unit}/{rule.basis.value}"]
    if rule.gpu_rate:
        parts.append(f"{rule.gpu_rate:g} {rule.unit}/gpu-hour")
    return " + ".join(parts)
