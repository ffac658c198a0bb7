"""Reads the catalogue of a site: what comes with steward, what was installed, what it names."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from steward.config.settings import Settings
from steward.store.catalog import Merged, builtin_file, merge, read_packages
from steward.store.packages import catalogs_folder, installed_packages

__all__ = ["catalog_paths", "read_catalog"]


def catalog_paths(settings: Settings) -> list[Path]:
    """Return the files and folders that are read: the later wins."""
    installed = [each.folder for each in installed_packages(catalogs_folder(settings.store.path))]
    own = [Path(each).expanduser() for each in settings.planning.catalog]
    return [builtin_file(), *installed, *own]


def read_catalog(settings: Settings, more: Iterable[Path] = ()) -> Merged:
    """Return all packages as one catalogue, `more` last, or raise every fault in them."""
    return merge(read_packages([*catalog_paths(settings), *more]))
