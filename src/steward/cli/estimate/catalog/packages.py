"""`steward estimate catalog pack`, `verify`, `install`, `packages`, `remove`: share catalogues."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steward.cli.options import Config, Data, Json, read_settings
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

__all__ = ["install", "pack", "packages", "remove", "verify"]

Folder = Annotated[
    Path | None, typer.Argument(metavar="DIR", help="The folder of catalogue files.")
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
    """Pack a folder of catalogue files into one file for sharing.

    The same folder gives the same bytes. With --new-key alone, only a key is created.
    """
    from steward.store.packages import CATALOG

    pack_folder(
        folder,
        kind=CATALOG,
        check=_check,
        out=out,
        name=name,
        version=version,
        key=key,
        new_key=new_key,
        as_json=as_json,
    )


def verify(
    file: Package,
    *,
    trust: Trust = None,
    unsigned: Unsigned = False,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Check a package: its signature, digests, and everything in it. Nothing is written."""
    from steward.store.packages import CATALOG, InstallOptions

    options = InstallOptions(
        trust=public_key(trust) if trust else None, unsigned=unsigned, downgrade=True, dry_run=True
    )
    folder = _folder(config, data)
    install_package(file, folder, options, kind=CATALOG, check=_check, as_json=as_json)


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
    """Check a package of catalogues, and install it.

    What is installed wins over what comes with steward; files of `planning.catalog` win over both.
    """
    from steward.store.packages import CATALOG, InstallOptions

    options = InstallOptions(
        trust=public_key(trust) if trust else None,
        unsigned=unsigned,
        downgrade=downgrade,
        dry_run=dry_run,
    )
    folder = _folder(config, data)
    install_package(file, folder, options, kind=CATALOG, check=_check, as_json=as_json)


def packages(*, config: Config = None, data: Data = None, as_json: Json = False) -> None:
    """List installed packages of catalogues, and trusted keys."""
    from steward.store.packages import CATALOG

    list_packages(_folder(config, data), kind=CATALOG, as_json=as_json)


def remove(
    name: PackageName, *, config: Config = None, data: Data = None, as_json: Json = False
) -> None:
    """Remove an installed package of catalogues."""
    from steward.store.packages import CATALOG

    remove_package(name, _folder(config, data), kind=CATALOG, as_json=as_json)


def _folder(config: Path | None, data: Path | None) -> Path:
    from steward.store.packages import catalogs_folder

    return catalogs_folder(read_settings(config, data).store.path)


def _check(folder: Path) -> None:
    from steward.store.catalog import read_packages

    read_packages([folder])
