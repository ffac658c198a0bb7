"""Packages of rules: signed, versioned archive files.

Belongs here: writing, reading and installing packages, and their folders. Does not: the language of
rule files (`store.rules`), or compiling patterns (`decide`).
"""

from __future__ import annotations

from steward.store.packages.archive_writer import PackageRequest, Packed, pack
from steward.store.packages.installation import Installation, InstallOptions, install, remove
from steward.store.packages.keys import PublicKey, make_key, read_key, trusted_keys
from steward.store.packages.locations import Installed, installed_packages, packages_folder, shipped
from steward.store.packages.manifest import Manifest

__all__ = [
    "InstallOptions",
    "Installation",
    "Installed",
    "Manifest",
    "PackageRequest",
    "Packed",
    "PublicKey",
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
