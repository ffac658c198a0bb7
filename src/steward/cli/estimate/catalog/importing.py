"""`steward estimate catalog import`: what other tools print, as a catalogue file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steward.cli.estimate.catalog.opened import open_catalog
from steward.cli.options import Config, Data, Json
from steward.cli.output import print_json, print_lines, print_warnings
from steward.errors import StewardError, unknown_name

if TYPE_CHECKING:
    from steward.clients.catalogs import Carbon, GpuNames, Imported
    from steward.model.planning.catalog import Accelerator, CatalogSite, Engine, Queue, Source

__all__ = ["import_"]

_MOST_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    texts: tuple[str, ...]
    where: str
    site: str
    source: Source
    names: GpuNames
    carbon: Mapping[str, Carbon]
    gpu_rate: float | None


def import_(  # noqa: PLR0913 - options of a command
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="slurm, kubernetes, prices, sites, gpus, carbon.")
    ],
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE…", help="What the other tool printed; - is stdin."),
    ],
    *,
    site: Annotated[
        str,
        typer.Option(
            "--site",
            metavar="NAME",
            help="slurm, kubernetes: name of the site. Others: only sites of this pattern.",
        ),
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="The catalogue file; without it, stdout."),
    ] = None,
    as_of: Annotated[
        str,
        typer.Option("--as-of", metavar="DAY", help="As of when it holds, as 2026-08-12."),
    ] = "",
    source: Annotated[str, typer.Option("--source", metavar="TEXT", help="Where it is from.")] = "",
    carbon: Annotated[
        Path | None,
        typer.Option("--carbon", metavar="FILE", help="A table of carbon per kilowatt-hour."),
    ] = None,
    region: Annotated[
        str,
        typer.Option("--region", metavar="KEY", help="Row of the carbon table: OH, DEU."),
    ] = "",
    gpu_rate: Annotated[
        float | None,
        typer.Option("--gpu-rate", min=0, help="sites: price of a GPU-hour beside that of cores."),
    ] = None,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Make a catalogue file of what scontrol, sinfo or kubectl print, or of published tables.

    slurm: `scontrol show partition`, `scontrol show node`, `sinfo --json`, one or both.
    kubernetes: `kubectl get nodes -o json`.
    """
    from steward.clients.catalogs import GpuNames, read_carbon
    from steward.model.planning.catalog import Catalog
    from steward.model.planning.catalog import Source as FactSource
    from steward.store.atomic import whole_file
    from steward.store.catalog import catalog_text

    if kind not in _KINDS:
        raise unknown_name("kind of catalogue", kind, _KINDS)
    texts = tuple(map(_read, files))
    where = ", ".join(map(str, files))
    default = _day_of(files) if kind in _LIVE else ""
    given = _Given(
        texts=texts,
        where=where,
        site=site,
        source=FactSource(
            text=source or ", ".join(file.name for file in files), as_of=as_of or default
        ),
        names=GpuNames(_accelerators(config, data)),
        carbon=read_carbon(_read(carbon), where=str(carbon)) if carbon is not None else {},
        gpu_rate=gpu_rate,
    )
    imported = _KINDS[kind](given)
    if kind in _LIVE:
        imported = replace(imported, notes=(*imported.notes, *given.names.note()))
    found = _placed(imported, given, region, all_sites=kind in _LIVE)
    if not given.source.as_of and kind not in _DATED:
        found = replace(found, notes=(*found.notes, "as of when it holds is not known: --as-of"))
    catalog = Catalog(sites=found.sites, accelerators=found.accelerators)
    heading = f"imported from {where} by `steward estimate catalog import {kind}`"
    text = catalog_text(catalog, heading=heading)
    print_warnings(found.notes)
    if out is not None:
        with whole_file(out) as file:
            file.write(text.encode())
    queues = sum(len(each.queues) for each in found.sites)
    if as_json:
        counts = {"sites": len(found.sites), "queues": queues}
        counts["accelerators"] = len(found.accelerators)
        print_json({"file": str(out or ""), **counts, "notes": found.notes})
    elif out is None:
        typer.echo(text, nl=False)
    else:
        what = f"{len(found.sites)} sites, {queues} queues, {len(found.accelerators)} accelerators"
        print_lines([f"{what} in {out}"])


def _accelerators(config: Path | None, data: Path | None) -> tuple[Accelerator, ...]:
    """Return those of the catalogue; an import may be what repairs a broken one."""
    from steward.store.catalog import builtin_file, read_packages

    try:
        return open_catalog(config, data).catalog.accelerators
    except StewardError as fault:
        print_warnings([f"the catalogue is not used to name GPUs: {fault}"])
        return read_packages([builtin_file()])[0].catalog.accelerators


def _prices(given: _Given) -> Imported:
    from steward.clients.catalogs import read_prices

    return read_prices(
        _only(given), source=given.source, names=given.names, carbon=given.carbon, where=given.where
    )


def _sites(given: _Given) -> Imported:
    from steward.clients.catalogs import read_sites

    return read_sites(
        _only(given),
        source=given.source,
        names=given.names,
        gpu_rate=given.gpu_rate,
        where=given.where,
    )


def _gpus(given: _Given) -> Imported:
    from steward.clients.catalogs import read_gpus

    return read_gpus(_only(given), source=given.source, where=given.where)


def _carbon(given: _Given) -> Imported:
    from steward.clients.catalogs import carbon_sites, read_carbon

    carbon = read_carbon(_only(given), where=given.where)
    if not all("-" in key for key in carbon):
        hint = "give a table of countries or states by --carbon FILE --region KEY"
        raise StewardError("this table has no cloud regions", where=given.where, hint=hint)
    return carbon_sites(carbon, source=given.source)


def _slurm(given: _Given) -> Imported:
    from steward.clients.catalogs import Imported
    from steward.clients.slurm.site_queues import read_slurm_site
    from steward.model.planning.catalog import Engine

    found = read_slurm_site(given.texts, source=given.source, where=given.where)
    site = _one_site(given, Engine.SLURM, found.queues)
    return Imported(sites=(site,), notes=(*found.notes, *_taken_for(found.queues, site)))


def _kubernetes(given: _Given) -> Imported:
    from steward.clients.catalogs import Imported
    from steward.clients.kubernetes.site_queues import read_kubernetes_site
    from steward.model.planning.catalog import Engine

    found = read_kubernetes_site(_only(given), source=given.source, where=given.where)
    site = replace(_one_site(given, Engine.KUBERNETES, found.queues), region=found.region)
    return Imported(sites=(site,), notes=(*found.notes, *_taken_for(found.queues, site)))


def _one_site(given: _Given, engine: Engine, queues: tuple[Queue, ...]) -> CatalogSite:
    from steward.model.planning.catalog import CatalogSite

    if not given.site:
        problem = "the site has no name"
        raise StewardError(problem, where=given.where, hint="give it one by --site NAME")
    named = tuple(replace(each, gpu_model=given.names.name(each.gpu_model)) for each in queues)
    return CatalogSite(name=given.site, engine=engine, queues=named, source=given.source)


def _taken_for(queues: tuple[Queue, ...], site: CatalogSite) -> list[str]:
    """Return what the names of GPUs were taken for: an a100 may have 40 GB or 80."""
    pairs = zip(queues, site.queues, strict=True)
    taken = {(old.gpu_model, new.gpu_model) for old, new in pairs if old.gpu_model != new.gpu_model}
    return [
        f"'{old}' is taken for {new}: correct `gpu_model` if it is another"
        for old, new in sorted(taken)
    ]


_KINDS: Mapping[str, Callable[[_Given], Imported]] = {
    "slurm": _slurm,
    "kubernetes": _kubernetes,
    "prices": _prices,
    "sites": _sites,
    "gpus": _gpus,
    "carbon": _carbon,
}
_LIVE = ("slurm", "kubernetes")  # as of when the file was written
_DATED = ("sites",)  # each row has its day


def _placed(found: Imported, given: _Given, region: str, *, all_sites: bool) -> Imported:
    """Take the sites that are wanted, and give them the carbon of their region."""
    sites = found.sites
    if given.site and not all_sites:
        sites = tuple(each for each in sites if fnmatchcase(each.name, given.site))
        if not sites:
            names = ", ".join(each.name for each in found.sites[:20])
            problem = f"no site in it is called '{given.site}'"
            raise StewardError(problem, where=given.where, hint=f"it has: {names}")
    if region:
        if region not in given.carbon:
            hint = "give the table by --carbon" if not given.carbon else "keys are as DEU, or OH"
            raise StewardError(f"no carbon is known for '{region}'", where="--region", hint=hint)
        grams = given.carbon[region].grams_per_kwh
        sites = tuple(replace(each, region=region, grams_per_kwh=grams) for each in sites)
    return replace(found, sites=sites)


def _only(given: _Given) -> str:
    if len(given.texts) != 1:
        raise StewardError("this kind takes one file", where=given.where, hint="import one by one")
    return given.texts[0]


def _read(file: Path) -> str:
    try:
        if str(file) == "-":
            raw = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with file.open("rb") as opened:
                raw = opened.read(_MOST_BYTES + 1)
    except OSError as fault:
        problem = f"cannot be read: {fault.strerror or fault}"
        raise StewardError(problem, where=str(file), hint="name a file with its output") from None
    if len(raw) > _MOST_BYTES:
        hint = "it should be the output of a command, or a table"
        raise StewardError("more than 256 MiB", where=str(file), hint=hint)
    return raw.decode("utf-8-sig", errors="replace")


def _day_of(files: list[Path]) -> str:
    """Return the day on which the oldest file was written; stdin is of today."""
    times = [file.stat().st_mtime for file in files if file.is_file()]
    now = datetime.now(tz=UTC)
    return (datetime.fromtimestamp(min(times), tz=UTC) if times else now).date().isoformat()
