"""Settings from the environment: `STEWARD_SECTION__KEY=value` wins over the file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import get_origin

from steward.config.locate import KeyPath
from steward.config.mistakes import Mistake, kind_at, possible_keys
from steward.config.settings import Settings

__all__ = ["Override", "misspelt", "overrides_in", "variable_of"]

PREFIX = "STEWARD_"
JOINT = "__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """One variable and what it sets."""

    path: KeyPath
    value: object
    variable: str


def overrides_in(
    environment: Mapping[str, str], named: Mapping[str, Iterable[str]] | None = None
) -> tuple[Override, ...]:
    """Return what the environment sets, by variable.

    `named` has the names of the tables that a file has, by section.
    Variables are upper case without `-`, so the name of a tenant or a receiver is matched
    regardless of those, and a plug's `_` is read as `-`.
    """
    folded = {
        (section, _folded(name)): name for section, names in (named or {}).items() for name in names
    }
    found = []
    for variable in sorted(environment):
        rest = variable.removeprefix(PREFIX)
        if variable.startswith(PREFIX) and JOINT in rest:
            path = _path(rest.split(JOINT), folded)
            value = _value(path, environment[variable])
            found.append(Override(path=path, value=value, variable=variable))
    return tuple(found)


def misspelt(environment: Mapping[str, str]) -> tuple[Mistake, ...]:
    """Return each variable that lacks an underscore: it would set nothing, silently."""
    meant = {variable_of(path).replace(JOINT, "_"): variable_of(path) for path in _fixed_paths()}
    return tuple(
        Mistake(
            key="",
            where=f"environment variable {name}",
            problem="sets nothing; possible: STEWARD_SECTION__KEY, with two underscores",
            hint=f"did you mean '{meant[name]}'?",
        )
        for name in sorted(environment)
        if name in meant
    )


def variable_of(path: KeyPath) -> str:
    """Return the variable that sets a key.

    >>> variable_of(("loop", "every_s"))
    'STEWARD_LOOP__EVERY_S'
    """
    return PREFIX + JOINT.join(_folded(str(part)).upper() for part in path)


def _fixed_paths() -> list[KeyPath]:
    return [
        (section, key) for section in Settings.model_fields for key in possible_keys((section,))
    ]


def _folded(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "_", name.lower())


def _path(parts: list[str], named: Mapping[tuple[str, str], str]) -> KeyPath:
    path = [part.lower() for part in parts]
    if len(path) > 1:
        path[1] = named.get((path[0], _folded(path[1])), path[1])
    if path[0] == "plugs" and len(path) > 1:
        path[1] = path[1].replace("_", "-")
    return tuple(path)


def _value(path: KeyPath, text: str) -> object:
    kind = kind_at(path)
    if kind is str:
        return text
    value = _toml(text)
    if get_origin(kind) is tuple and isinstance(value, str):
        return [part.strip() for part in text.split(",") if part.strip()]
    return value


def _toml(text: str) -> object:
    if "\n" in text:
        return text
    try:
        value: object = tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text
    return value
