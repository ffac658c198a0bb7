"""`steward rules pack`, `install`, `packages`, `remove`: share rules as signed archive files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steward.cli.options import Config, Data, Json
from steward.cli.output import print_note
from steward.cli.packaging import (
    Downgrade,
    DryRun,
    Key,
    Name,
    NewKey,
    Out,
    Package,
    PackageName,
    Trust,
    Unsigned,
    Version,
    install_package,
    list_packages,
    pack_folder,
    public_key,
    remove_package,
)
from steward.cli.rules.options import store_folder

__all__ = ["install", "pack", "packages", "remove"]

AT_NEXT_START = "a steward that runs now takes it up when it is started again"

Folder = Annotated[
    Path | None, typer.Argument(metavar="DIR", help="The folder of rules, with their examples.")
]


def pack(  # noqa: PLR0913 - a command's options are its parameters
    folder: Folder = None,
    *,
    out: Out = None,
    name: Name = None,
    version: Version = "0.1.0",
    key: Key = None,
    new_key: NewKey = None,
    as_json: Json = False,
) -> None:
    """Pack a folder of rules into one file for sharing.

    The same folder gives the same bytes. With --new-key alone, only a key is created.
    """
    from steward.store.packages import RULES

    pack_folder(
        folder,
        kind=RULES,
        check=_check,
        out=out,
        name=name,
        version=version,
        key=key,
        new_key=new_key,
        as_json=as_json,
    )


def install(  # noqa: PLR0913 - a command's options are its parameters
    file: Package,
    *,
    trust: Trust = None,
    unsigned: Unsigned = False,
    downgrade: Downgrade = False,
    dry_run: DryRun = False,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Check a package of rules, and install it.

    Nothing is written before everything was checked: signature, paths, sizes, digests, every rule.
    """
    from steward.store.packages import RULES, InstallOptions, packages_folder

    options = InstallOptions(
        trust=public_key(trust) if trust else None,
        unsigned=unsigned,
        downgrade=downgrade,
        dry_run=dry_run,
    )
    folder = packages_folder(store_folder(config, data))
    done = install_package(file, folder, options, kind=RULES, check=_check, as_json=as_json)
    if not as_json and not dry_run and done.done != "same":
        print_note(AT_NEXT_START)


def packages(*, config: Config = None, data: Data = None, as_json: Json = False) -> None:
    """List installed packages of rules, and trusted keys."""
    from steward.store.packages import RULES, packages_folder

    list_packages(packages_folder(store_folder(config, data)), kind=RULES, as_json=as_json)


def remove(
    name: PackageName,
    *,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Remove an installed package of rules."""
    from steward.store.packages import RULES, packages_folder

    folder = packages_folder(store_folder(config, data))
    remove_package(name, folder, kind=RULES, as_json=as_json)
    if not as_json:
        print_note(AT_NEXT_START)


def _check(rules: Path) -> None:
    from steward.inspection.checks import valid_rules

    valid_rules([rules], lenient=False)
