"""`steward estimate catalog check`: every fault of catalogue files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steward.cli.estimate.catalog.opened import now_s, old_notes
from steward.cli.options import Json
from steward.cli.output import print_json, print_lines, print_warnings

if TYPE_CHECKING:
    from steward.model.planning.catalog import Catalog

__all__ = ["check"]


def check(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE…", help="Catalogue files, or folders of them.")
    ],
    *,
    as_json: Json = False,
) -> None:
    """Check catalogue files: all faults at once, GPUs that nobody knows, facts that are too old.

    Exit status 1 if there are faults.
    """
    from steward.store.catalog import builtin_file, examine, merge

    found = [examine(file) for file in files]
    faults = [fault for each in found for fault in each.faults]
    builtin = examine(builtin_file()).package
    merged = merge([builtin, *(each.package for each in found)])
    notes = [*map(str, merged.conflicts), *_notes(merged.catalog)]
    sites = merged.catalog.sites
    queues = sum(len(site.queues) for site in sites)
    own = {each.name for one in found for each in one.package.catalog.accelerators}
    if as_json:
        listed = [
            {"where": str(each.place), "problem": each.problem, "hint": each.hint}
            for each in faults
        ]
        counts = {"sites": len(sites), "queues": queues, "accelerators": len(own)}
        print_json({"faults": listed, "notes": notes, **counts})
    else:
        if faults:
            print_lines(f"  {fault}" for fault in faults)
        print_warnings(notes)
        text = f"{len(sites)} sites with {queues} queues and {len(own)} accelerators"
        print_lines([f"{text}: {f'{len(faults)} faults' if faults else 'no fault'}"])
    if faults:
        raise typer.Exit(1)


def _notes(catalog: Catalog) -> list[str]:
    now = now_s()
    notes = [note for site in catalog.sites for note in old_notes(site, list(site.queues), now)]
    for site in catalog.sites:
        models = dict.fromkeys(queue.gpu_model for queue in site.queues if queue.gpu_model)
        unknown = [model for model in models if catalog.accelerator(model) is None]
        if unknown:
            listed = ", ".join(unknown[:10])
            notes.append(f"{site.name}: no accelerator is called {listed}; steward knows no speed")
    return notes
