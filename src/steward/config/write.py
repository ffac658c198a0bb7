"""Writes the settings in force as TOML, each value with where it comes from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from steward.config.checked_values import MASK, masked_url
from steward.config.locate import KeyPath
from steward.config.mistakes import is_secret
from steward.config.read import Draft
from steward.config.settings import Settings

__all__ = ["as_toml", "leaves_of", "values_of"]


def values_of(settings: Settings) -> dict[str, Any]:
    """Return all settings as plain values. Secrets are covered."""
    plain = settings.model_dump(mode="json", exclude_none=True)
    covered = _covered(plain, ())
    return covered if isinstance(covered, dict) else {}


def leaves_of(values: Mapping[str, Any]) -> list[KeyPath]:
    """Return the path of every value that is not a table."""
    return [
        (*path, key)
        for path, table in _tables(values, ())
        for key, value in table.items()
        if not _is_table(value)
    ]


def as_toml(draft: Draft, origins: Mapping[KeyPath, str] | None = None) -> str:
    """Return a TOML text that a file could hold; a comment names the source of each value.

    `origins` names sources that are not in the draft, such as a command-line option.
    """
    lines: list[str] = []
    for path, table in _tables(values_of(draft.settings), ()):
        leaves = {key: value for key, value in table.items() if not _is_table(value)}
        if not leaves and (len(path) < 2 or any(map(_is_table, table.values()))):
            continue
        lines.append(f"[{'.'.join(_key(str(part)) for part in path)}]")
        for key, value in leaves.items():
            place = (*path, key)
            origin = (origins or {}).get(place) or draft.origin(place)
            lines.append(f"{_key(key)} = {_value(value)}  # {origin}")
        lines.append("")
    return "\n".join(lines)


def _tables(table: Mapping[str, Any], path: KeyPath) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    if path:
        yield path, table
    for key, value in table.items():
        if _is_table(value):
            yield from _tables(value, (*path, key))


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping)


def _key(key: str) -> str:
    bare = key.isascii() and key.replace("-", "").replace("_", "").isalnum()
    return key if bare else _text(key)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Enum):
        return _text(str(value.value))
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(each) for each in value)}]"
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(key)} = {_value(each)}" for key, each in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    return str(value)


def _text(text: str) -> str:
    # JSON's escapes are TOML's too, but for DEL, which JSON leaves as it is.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _covered(value: object, path: KeyPath) -> object:
    if isinstance(value, dict):
        return {key: _covered(each, (*path, key)) for key, each in value.items()}
    if isinstance(value, str) and value:
        return MASK if is_secret(path) else masked_url(value)
    return value
