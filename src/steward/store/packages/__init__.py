"""Packages of rules: signed, versioned files that travel without a network.

Belongs here: making them, opening them with suspicion, and where rules that were installed lie.
Does not: what a rule file may say (`store.rules`), or whether its patterns can run (`decide`).
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
