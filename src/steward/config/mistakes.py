"""Mistakes of a configuration: all of them, with lines and hints."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from steward.config.checked_values import MASK, masked_url
from steward.config.locate import KeyPath
from steward.config.settings import Settings
from steward.errors import StewardError, did_you_mean

__all__ = [
    "Mistake",
    "SettingsError",
    "Wrong",
    "dotted",
    "is_secret",
    "kind_at",
    "path_of",
    "possible_keys",
    "shown",
    "wrong_of",
]

REFERENCE = "docs/reference/configuration.md lists every key; `steward config show` the values"
_KINDS = {
    "float_type": "a number",
    "int_type": "a whole number",
    "string_type": "text in quotes",
    "tuple_type": 'a list, like ["a", "b"]',
    "list_type": 'a list, like ["a", "b"]',
    "bool_type": "true or false",
    "dict_type": "a table",
    "model_type": "a table",
    "finite_number": "a finite number",
}
_BOUNDS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SECRET_PARTS = ("password", "secret", "token")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One thing that is wrong: the key, its place, the problem and what would help."""

    key: str
    where: str  # FILE:LINE:COLUMN, or the environment variable
    problem: str
    hint: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}" + (f" ({self.hint})" if self.hint else "")


class SettingsError(StewardError):
    """All mistakes of a configuration in one error; `config check` shows them one by one."""

    def __init__(self, mistakes: Sequence[Mistake], *, where: str) -> None:
        self.mistakes = tuple(mistakes)
        if len(mistakes) == 1:
            only = mistakes[0]
            super().__init__(only.problem, where=only.where, hint=only.hint or REFERENCE)
            return
        lines = "".join(f"\n  {mistake}" for mistake in mistakes)
        super().__init__(f"{len(mistakes)} mistakes{lines}", where=where, hint=REFERENCE)


def dotted(path: KeyPath) -> str:
    """Write a path as a person would: `observe.collectors[1]`, `tenants.'bio lab'.weight`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
            continue
        key = part if _BARE.fullmatch(part) else repr(part)
        text += f".{key}" if text else key
    return text


def is_secret(path: KeyPath) -> bool:
    """Return True if the key's name marks a secret, which must not be printed."""
    return any(word in str(part).lower() for part in path for word in _SECRET_PARTS)


def shown(path: KeyPath, value: object) -> str:
    """Write a value into a message, never a secret, never pages of it."""
    if is_secret(path):
        return f"'{MASK}'"
    if isinstance(value, str):
        text = f"'{masked_url(value)}'"
    elif isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, Mapping):
        return "a table"
    else:
        text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """A mistake at a key, without the place where it was set."""

    path: KeyPath
    problem: str
    hint: str = ""
    at_key: bool = False  # the key itself is wrong, not its value


def wrong_of(error: ErrorDetails) -> Wrong:
    """Convert one of pydantic's errors."""
    path, kind, given = path_of(error), error["type"], error["input"]
    name = dotted(path)
    if kind == "extra_forbidden":
        return _unknown_key(path)
    if kind == "enum":
        return _unknown_choice(path, given)
    if kind in _BOUNDS:
        word, bound = _BOUNDS[kind]
        limit = error["ctx"][bound]
        problem = f"{name} is {shown(path, given)}; it must be {word} {limit:g}"
        return Wrong(path=path, problem=problem)
    if kind in ("missing", "literal_error"):
        return _lacking(path) if kind == "missing" else _no_such_word(path, error)
    if kind == "steward":
        context = error["ctx"]
        return Wrong(path=path, problem=f"{name} {context['problem']}", hint=context["hint"])
    wanted = _KINDS.get(kind, error["msg"])
    return Wrong(path=path, problem=f"{name} is {shown(path, given)}, not {wanted}")


def _lacking(path: KeyPath) -> Wrong:
    return Wrong(path=path[:-1], problem=f"[{dotted(path[:-1])}] lacks the key '{path[-1]}'")


def _no_such_word(path: KeyPath, error: ErrorDetails) -> Wrong:
    expected = error["ctx"]["expected"].replace("' or '", "', '").replace("'", "")
    given = error["input"]
    return Wrong(
        path=path,
        problem=f"{dotted(path)} is {shown(path, given)}, not one of {expected}",
        hint=did_you_mean(str(given), expected.split(", ")),
    )


def path_of(error: ErrorDetails) -> KeyPath:
    """Return which key an error is about; pydantic marks mistakes of a key itself at the end."""
    return tuple(part for part in error["loc"] if part != "[key]")


def kind_at(path: KeyPath) -> Any:  # noqa: ANN401 - a type, a generic alias or a union
    """Return the type of what may stand at a path of the settings, None when nothing may."""
    kind: Any = Settings
    for part in path:
        field = kind.model_fields.get(part) if _is_model(kind) else None
        kind = field.annotation if field is not None else _entry_of(kind)
    return kind


def possible_keys(path: KeyPath) -> tuple[str, ...]:
    """Return the keys that a table may have; none when it may have any."""
    kind = kind_at(path)
    return tuple(kind.model_fields) if _is_model(kind) else ()


def _is_model(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _entry_of(kind: object) -> object:
    """Return what the values of a dict type are."""
    args = get_args(kind)
    return args[1] if len(args) == 2 else None


def _unknown_key(path: KeyPath) -> Wrong:
    possible = possible_keys(path[:-1])
    table, key = dotted(path[:-1]), str(path[-1])
    problem = f"[{table}] has no key '{key}'" if table else f"there is no section [{key}]"
    return Wrong(
        path=path,
        problem=f"{problem}; possible: {', '.join(possible)}",
        hint=did_you_mean(key, possible) or _misplaced(key),
        at_key=True,
    )


def _misplaced(key: str) -> str:
    """Return the section that has such a key, if exactly one has."""
    homes = [section for section in Settings.model_fields if key in possible_keys((section,))]
    return f"it belongs into [{homes[0]}]" if len(homes) == 1 else ""


def _unknown_choice(path: KeyPath, given: object) -> Wrong:
    choices = _choices_at(path)
    problem = f"{dotted(path)} is {shown(path, given)}, not one of {', '.join(choices)}"
    return Wrong(path=path, problem=problem, hint=did_you_mean(str(given), choices))


def _choices_at(path: KeyPath) -> tuple[str, ...]:
    kind = kind_at(path)
    enums = [each for each in (kind, *get_args(kind)) if _is_enum(each)]
    return tuple(str(member.value) for enum in enums for member in enum)


def _is_enum(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Enum)
