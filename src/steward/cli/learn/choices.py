"""Options that are one of a few words."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

from steward.errors import unknown_name

__all__ = ["chosen"]

E = TypeVar("E", bound=Enum)


def chosen(kind: type[E], word: str, option: str) -> E:
    """Return the member of that value, or say which there are."""
    try:
        return kind(word)
    except ValueError:
        raise unknown_name("value", word, [each.value for each in kind], where=option) from None
