"""What the catalogue says about a submission to Slurm: hints, since sbatch alone decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from steward.cli.options import chosen_site
from steward.clients.job_directives import options_body
from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.config import Settings
    from steward.decide.planning.limits import Asked
    from steward.model.planning.catalog import Catalog, Queue

__all__ = ["limit_note"]


def limit_note(options: Mapping[str, str], settings: Settings) -> str:
    """Return which limits of its partition a job would break, and as of when they held.

    Nothing where the site, or the partition, is not in the configured catalogue. That is the site
    whose `steward_site` is the chosen one, or whose name is that of the main one.
    """
    partition = options.get("partition") or options.get("p", "")  # short ones stay as they are
    if not settings.planning.catalog or not partition:
        return ""
    from steward.config.catalog import read_catalog

    try:
        catalog = read_catalog(settings).catalog
        queues = _queues(catalog, settings, partition)
        asked = _asked(options)
    except StewardError as fault:
        return f"its limits were not checked: {fault}"
    return _sentences(asked, queues, catalog)


def _queues(catalog: Catalog, settings: Settings, partition: str) -> list[tuple[Queue, str]]:
    """Return the queues of a partition, and as of when their limits held."""
    from steward.model.planning.catalog import Engine

    chosen = chosen_site()
    return [
        (queue, queue.source.as_of or site.source.as_of or "an unknown day")
        for site in catalog.sites
        if site.engine is Engine.SLURM
        and (site.steward_site == chosen if chosen else site.name == settings.site.name)
        for queue in site.queues
        if (queue.submit_as or queue.name) == partition
    ]


def _asked(options: Mapping[str, str]) -> Asked:
    from steward.decide.planning.limits import Asked

    nodes = (options.get("nodes") or options.get("N", "")).partition("-")[0]
    known = ("gpus", "cpus-per-task", "mem", "time")
    body = options_body({name: options[name] for name in known if options.get(name)})
    return Asked(
        gpus=body["gpus"],
        cores=max(1, body["cpus"]),
        memory_bytes=body["memory_bytes"],
        nodes=int(nodes) if nodes.isdecimal() and int(nodes) else None,
        run_s=body["time_limit_s"] or 0.0,
    )


def _sentences(asked: Asked, queues: list[tuple[Queue, str]], catalog: Catalog) -> str:
    from steward.decide.planning.limits import validate

    found = [
        (validate(asked, queue, catalog.accelerator(queue.gpu_model)), day) for queue, day in queues
    ]
    if not found or any(fit.fits for fit, _ in found):
        return ""
    fit, day = found[0]
    texts = (each.text.partition(" and saves no")[0] for each in fit.violations)
    return f"the catalogue says, as of {day}: {'; '.join(texts)}"
