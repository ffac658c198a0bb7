"""Packages of rules: signed, versioned files that travel without a network.

Belongs here: making them, opening them with suspicion, and where rules that were installed lie.
Does not: what a rule file may say (`store.rules`), or whether its patterns can run (`decide`).
"""

from __future__ import annotations

from steward.store.packages.places import Installed, installed_packages, packages_folder, shipped

__all__ = ["Installed", "installed_packages", "packages_folder", "shipped"]
