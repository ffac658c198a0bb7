"""Sites beside the main one: what `[sites.NAME]` inherits, and what is always its own.

A site is one engine with its own loop, store folder, journal, guard and process. Its table has the
sections of a configuration file; what it leaves out is as in the rest of the file, except what two
processes cannot share.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from steward.config.locate import KeyPath
from steward.config.mistakes import Wrong

__all__ = ["SITES", "own_paths", "site_raw", "wrong_sites"]

SITES = "sites"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_NOT_SHARED: tuple[KeyPath, ...] = (
    (SITES,),
    ("site",),
    ("jobs",),  # this machine's jobs are the main site's
    ("store", "folder"),
    ("store", "journal"),
    ("service", "port"),
    ("service", "socket"),
    ("service", "otlp_grpc_port"),
)


def site_raw(raw: Mapping[str, Any], name: str, *, folder: Path) -> dict[str, Any]:
    """Return the values of a site as a file of its own would have them."""
    base = copy.deepcopy(dict(raw))
    for path in _NOT_SHARED:
        _remove(base, path)
    own: dict[str, Any] = {
        "site": {"name": name},
        "jobs": {"enabled": False},
        "store": {"folder": str(folder / SITES / name)},
        "service": {"port": 0},
    }
    return _merged(_merged(base, own), raw[SITES][name])


def wrong_sites(raw: Mapping[str, Any]) -> tuple[Wrong, ...]:
    """Return what is wrong with the tables of sites as such."""
    sites = raw.get(SITES)
    tables = sites.items() if isinstance(sites, dict) else ()
    found = [_wrong_site(name, table) for name, table in tables if isinstance(table, dict)]
    return tuple(each for each in found if each is not None)


def own_paths(table: Mapping[str, Any], path: KeyPath = ()) -> set[KeyPath]:
    """Return all keys that a table has, and those of tables in it."""
    found: set[KeyPath] = set()
    for key, value in table.items():
        found.add((*path, key))
        if isinstance(value, Mapping):
            found |= own_paths(value, (*path, key))
    return found


def _wrong_site(name: str, table: Mapping[str, Any]) -> Wrong | None:
    path: KeyPath = (SITES, name)
    if not _NAME.fullmatch(name):
        problem = f"'{name}' cannot be the name of a site: it names a folder"
        hint = "use letters, digits, - and _, at most 63, and begin with a letter or digit"
        return Wrong(path=path, problem=problem, hint=hint, at_key=True)
    if SITES in table:
        problem = f"site '{name}' has sites of its own"
        hint = f"write them beside it: [{SITES}.OTHER]"
        return Wrong(path=(*path, SITES), problem=problem, hint=hint, at_key=True)
    return None


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return both with the second's values where both have some; tables are merged by key."""
    merged = dict(base)
    for key, value in over.items():
        there = merged.get(key)
        both = isinstance(there, Mapping) and isinstance(value, Mapping)
        merged[key] = _merged(there, value) if both else value  # type: ignore[arg-type]
    return merged


def _remove(raw: dict[str, Any], path: KeyPath) -> None:
    table: Any = raw
    for part in path[:-1]:
        table = table.get(part) if isinstance(table, dict) else None
    if isinstance(table, dict):
        table.pop(path[-1], None)
