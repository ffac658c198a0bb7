"""Folders of rules: the built-in packs, and installed packages."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from steward.errors import StewardError
from steward.store.packages.manifest import Manifest

__all__ = [
    "CURRENT",
    "MANIFEST",
    "Installed",
    "catalogs_folder",
    "installed_packages",
    "packages_folder",
    "shipped",
]

MANIFEST = "manifest.json"
SIGNATURE = "manifest.sig"
CURRENT = "current"  # a link to the version in use


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """An installed package."""

    manifest: Manifest
    folder: Path  # of its rules, or catalogue files
    signed_by: str  # fingerprint of the key; '' if unsigned


def shipped() -> Path:
    """Return the folder of the packs that come with steward: in a clone, a link to `rules`."""
    return Path(__file__).parents[2] / "packs"


def packages_folder(store: Path) -> Path:
    """Return the packages folder of a store folder."""
    return store / "packages"


def catalogs_folder(store: Path) -> Path:
    """Return the folder of packages of catalogues, with trusted keys of its own."""
    return store / "catalogs"


def installed_packages(folder: Path) -> tuple[Installed, ...]:
    """Return the installed packages by name; a missing folder has none."""
    found = []
    for link in sorted(folder.glob(f"*/{CURRENT}")):
        file = link / MANIFEST
        try:
            manifest = Manifest.of(file.read_bytes(), where=str(file))
            signed_by = _signed_by(link)
        except OSError as fault:
            problem = f"it cannot be read: {fault.strerror}"
            hint = f"remove {link.parent} and install the package again"
            raise StewardError(problem, where=str(file), hint=hint) from fault
        inside = Path(os.path.realpath(link)) / manifest.kind.name
        found.append(Installed(manifest=manifest, folder=inside, signed_by=signed_by))
    return tuple(found)


def _signed_by(link: Path) -> str:
    file = link / "signed-by"
    return file.read_text(encoding="utf-8").strip() if file.exists() else ""
