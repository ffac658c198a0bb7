"""`steward estimate catalog list`: every site, or every accelerator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from steward.cli.estimate.catalog.opened import age_of, now_s, open_catalog
from steward.cli.options import Config, Data, Json
from steward.cli.output import print_json, print_note, print_table
from steward.cli.words import number

if TYPE_CHECKING:
    from steward.model.planning.catalog import Accelerator, CatalogSite

__all__ = ["list_"]

_NONE = (
    "no site yet: `steward estimate catalog import` makes one of what scontrol or a cloud prints"
)


def list_(
    *,
    accelerators: Annotated[
        bool, typer.Option("--accelerators", help="List accelerators instead of sites.")
    ] = False,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """List sites with their engine, GPUs and age of facts, or accelerators with their rates."""
    catalog = open_catalog(config, data).catalog
    now = now_s()
    if as_json:
        sites = [
            {**_record(each), "as_of": _oldest(each), "old": _is_old(each, now)}
            for each in catalog.sites
        ]
        print_json(catalog.accelerators if accelerators else sites)
    elif accelerators:
        columns = ["accelerator", "memory", "bandwidth", "watts", "bf16", "fp32", "also called"]
        print_table(columns, map(_accelerator_row, catalog.accelerators), empty="no accelerator")
    else:
        columns = ["site", "engine", "queues", "GPUs", "g/kWh", "as of"]
        print_table(columns, [_site_row(each, now) for each in catalog.sites], empty=_NONE)
        if any(_is_old(each, now) for each in catalog.sites):
            print_note("limits and prices marked as old are older than a year: check them")


def _record(site: CatalogSite) -> dict[str, object]:
    return {
        "name": site.name,
        "engine": site.engine,
        "region": site.region,
        "queues": [queue.name for queue in site.queues],
        "gpu_models": _models(site),
        "grams_per_kwh": site.grams_per_kwh,
    }


def _models(site: CatalogSite) -> list[str]:
    return list(dict.fromkeys(queue.gpu_model for queue in site.queues if queue.gpu_model))


def _oldest(site: CatalogSite) -> str:
    days = [queue.source.as_of for queue in site.queues if queue.source.as_of]
    return min(days, default=site.source.as_of)


def _is_old(site: CatalogSite, now: float) -> bool:
    return _age(site, now).endswith("(old)")


def _age(site: CatalogSite, now: float) -> str:
    from steward.model.planning.catalog import Source

    return age_of(Source(text="", as_of=_oldest(site)), now)


def _site_row(site: CatalogSite, now: float) -> tuple[str, ...]:
    models = _models(site)
    listed = ", ".join(models[:4]) + (f" and {len(models) - 4} more" if len(models) > 4 else "")
    grams = "unknown" if site.grams_per_kwh is None else number(site.grams_per_kwh)
    count = str(len(site.queues))
    return (site.name, site.engine.value, count, listed or "none", grams, _age(site, now))


def _accelerator_row(each: Accelerator) -> tuple[str, ...]:
    def tera(name: str) -> str:
        rate = each.flops.get(name)
        return "" if rate is None else f"{rate / 1e12:g}"

    return (
        each.name,
        f"{each.memory_bytes / 1e9:g} GB",
        f"{each.memory_bytes_per_s / 1e9:g} GB/s",
        f"{each.watts:g}",
        tera("bf16"),
        tera("fp32"),
        ", ".join(each.aliases),
    )
