"""Scripts of a whole plan, written to a folder."""

from __future__ import annotations

from pathlib import Path
from typing import assert_never

from steward.errors import StewardError
from steward.model.planning.catalog import Catalog, CatalogSite, Engine
from steward.model.planning.plan import Choice, Plan
from steward.planning.scripts.job import PlannedJob, Program, Script
from steward.planning.scripts.kubernetes import kubernetes_scripts
from steward.planning.scripts.shell import shell_script
from steward.planning.scripts.slurm import slurm_scripts
from steward.store.atomic import whole_file

__all__ = ["scripts_of", "write_scripts"]


def scripts_of(plan: Plan, catalog: Catalog, program: Program, *, most: int) -> tuple[Script, ...]:
    """Return the scripts of the first choices, in the order of the plan."""
    found: list[Script] = []
    for place, choice in enumerate(plan.front[:most], 1):
        site = catalog.site(choice.site)
        job = PlannedJob(
            choice=choice,
            request=plan.request,
            site=site,
            queue=site.queue(choice.queue),
            program=program,
            gpu_names=_gpu_names(site, choice, catalog),
        )
        found += _scripts(job, place)
    return tuple(found)


def _gpu_names(site: CatalogSite, choice: Choice, catalog: Catalog) -> tuple[str, ...]:
    """Return all names of a choice's GPUs; nothing where the site has no others."""
    models = {queue.gpu_model for queue in site.queues if queue.gpus_per_node}
    if not choice.way.gpus or len(models) < 2:
        return ()
    model = site.queue(choice.queue).gpu_model
    known = catalog.accelerator(model)
    return tuple(dict.fromkeys((model, *((known.name, *known.aliases) if known else ()))))


def _scripts(job: PlannedJob, place: int) -> tuple[Script, ...]:
    match job.site.engine:
        case Engine.SLURM:
            return slurm_scripts(job, place)
        case Engine.KUBERNETES:
            return kubernetes_scripts(job, place)
        case Engine.LOCAL | Engine.CLOUD:
            return shell_script(job, place)
        case _:
            assert_never(job.site.engine)


def write_scripts(scripts: tuple[Script, ...], folder: Path) -> None:
    """Write the scripts; files of these names are replaced, each as a whole."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for each in scripts:
            path = folder / each.name
            with whole_file(path) as out:
                out.write(each.text.encode())
            if each.name.endswith(".sh"):
                path.chmod(0o755)
    except OSError as fault:
        raise StewardError(
            f"scripts cannot be written: {(fault.strerror or str(fault)).lower()}",
            where=str(folder),
            hint="name a folder that you may write to",
        ) from fault
