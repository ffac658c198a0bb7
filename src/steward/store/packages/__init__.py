"""Packages of rules and of catalogues: signed, versioned archive files.

Belongs here: writing, reading and installing packages, and their folders. Does not: the language of
rule files (`store.rules`) and catalogues (`store.catalog`), or compiling patterns (`decide`).
"""

from __future__ import annotations

from steward.store.packages.archive_writer import PackageRequest, Packed, pack
from steward.store.packages.installation import Installation, InstallOptions, install, remove
from steward.store.packages.keys import PublicKey, make_key, read_key, trusted_keys
from steward.store.packages.kinds import CATALOG, RULES, PackageKind
from steward.store.packages.locations import (
    Installed,
    catalogs_folder,
    installed_packages,
    packages_folder,
    shipped,
)
from steward.store.packages.manifest import Manifest

__all__ = [
    "CATALOG",
    "RULES",
    "InstallOptions",
    "Installation",
    "Installed",
    "Manifest",
    "PackageKind",
    "PackageRequest",
    "Packed",
    "PublicKey",
    "catalogs_folder",
    "install",
    "installed_packages",
    "make_key",
    "pack",
    "packages_folder",
    "read_key",
    "remove",
    "shipped",
    "trusted_keys",
]
