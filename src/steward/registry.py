"""Finds a plug by its name: first in a room's table, then among installed packages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import TypeVar, cast

from steward.errors import StewardError, unknown_name

__all__ = ["group_of", "known", "resolve"]

P = TypeVar("P")
Make = Callable[..., P]


def group_of(kind: str) -> str:
    """Return the entry point group for a kind of plug.

    >>> group_of("collector"), group_of("policy")
    ('steward.collectors', 'steward.policies')
    """
    return f"steward.{kind[:-1]}ies" if kind.endswith("y") else f"steward.{kind}s"


def _outside(kind: str) -> dict[str, Callable[[], object]]:
    return {point.name: point.load for point in entry_points(group=group_of(kind))}


def known(kind: str, table: Mapping[str, Make[P]]) -> tuple[str, ...]:
    """Return the names of all plugs of a kind, built in or installed."""
    return tuple(sorted({*table, *_outside(kind)}))


def resolve(kind: str, name: str, table: Mapping[str, Make[P]]) -> Make[P]:
    """Return what makes the plug: a class, or any callable that returns one.

    `kind` is the port in lower case. Built-in plugs win over outside ones of the same name.
    """
    if name in table:
        return table[name]
    outside = _outside(kind)
    if name not in outside:
        raise unknown_name(kind, name, (*table, *outside))
    try:
        return cast("Make[P]", outside[name]())
    except Exception as fault:
        raise StewardError(
            f"the installed {kind} '{name}' cannot be imported: {fault}",
            where=f"entry point {group_of(kind)}",
            hint="reinstall or remove the package that provides it",
        ) from fault
