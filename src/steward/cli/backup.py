"""`steward backup` and `steward restore`: the store as one file, and back."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from steward import __version__
from steward.cli.options import Config, Data, Json, read_settings
from steward.cli.output import print_json, print_lines, print_note, waiting
from steward.cli.words import moment

__all__ = ["backup", "restore"]

ArchiveOut = Annotated[
    Path, typer.Argument(metavar="FILE", help="Where to write it: a new .tar.gz file.")
]
ArchiveIn = Annotated[
    Path, typer.Argument(metavar="FILE", help="What `steward backup` wrote.", dir_okay=False)
]
NoTelemetry = Annotated[
    bool, typer.Option("--no-telemetry", help="Leave recorded samples and logs out.")
]
WithJobs = Annotated[
    bool, typer.Option("--with-jobs", help="Also checkpoints and logs of jobs; may be large.")
]


def backup(
    file: ArchiveOut,
    *,
    no_telemetry: NoTelemetry = False,
    with_jobs: WithJobs = False,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Write the store into one file; steward may run meanwhile.

    Journal, jobs, tokens, what was learnt, messages that wait, telemetry. A journal in PostgreSQL
    is not in it: use pg_dump.
    """
    from steward.store.archive import archive_store

    settings = read_settings(config, data)
    with waiting("writing"):
        made = archive_store(
            settings.store.path,
            file,
            made_s=time.time(),
            version=__version__,
            telemetry=not no_telemetry,
            jobs=with_jobs,
        )
    if settings.store.journal.startswith("postgresql"):
        print_note("the journal is in PostgreSQL: it is not in this file; use pg_dump")
    if as_json:
        print_json({"file": str(file), **_record(made)})
        return
    print_lines([f"{file}: {made.files:,} files, {made.bytes / 2**20:,.1f} MiB before packing"])
    if made.left_out:
        print_note(f"not in it: {', '.join(made.left_out)}")


def restore(
    file: ArchiveIn, *, config: Config = None, data: Data = None, as_json: Json = False
) -> None:
    """Make a store from such a file, in an empty folder; each file is checked first."""
    from steward.store.archive import restore_store

    store = read_settings(config, data).store.path
    with waiting("checking and writing"):
        found = restore_store(file, store)
    if as_json:
        print_json({"store": str(store), **_record(found)})
        return
    print_lines([f"{store}: {found.files:,} files as they were at {moment(found.made_s)}"])
    if found.left_out:
        print_note(f"it never had: {', '.join(found.left_out)}")


def _record(found: object) -> dict[str, object]:
    from dataclasses import asdict

    return asdict(found)  # type: ignore[call-overload,no-any-return]  # an `Archived`
