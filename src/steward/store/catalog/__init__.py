"""The catalogue of sites and accelerators: YAML files, one by one and merged.

Belongs here: reading, writing and merging catalogues. Does not: formats of other tools
(`clients`), checking requests and prices (`decide.planning`), signing (`store.packages`).
"""

from __future__ import annotations

from steward.store.catalog.faults import CatalogFaults
from steward.store.catalog.files import (
    Examined,
    builtin_file,
    catalog_files,
    examine,
    parse_catalog,
    read_packages,
)
from steward.store.catalog.merging import CatalogPackage, Conflict, Merged, merge
from steward.store.catalog.writer import catalog_text

__all__ = [
    "CatalogFaults",
    "CatalogPackage",
    "Conflict",
    "Examined",
    "Merged",
    "builtin_file",
    "catalog_files",
    "catalog_text",
    "examine",
    "merge",
    "parse_catalog",
    "read_packages",
]
