"""Reads a long JSON list entry by entry: a queue of 100,000 jobs is 300 MB of text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from steward.errors import StewardError

__all__ = ["read_entries"]

T = TypeVar("T")
MOST_STUCK = 2**26  # text without one whole entry in it: this is not a list of anything
_DECODER = json.JSONDecoder()
_BETWEEN = re.compile(r"[\s,]*")


def read_entries(
    chunks: Iterable[str], key: str, *, make: Callable[[Any], T | None]
) -> tuple[list[T], int, dict[str, Any]]:
    """Return what `make` makes of each entry of the list `key`, how many it refused, and the rest.

    The rest is the document around the list, with Slurm's errors.
    """
    opening = re.compile(rf'"{re.escape(key)}"\s*:\s*\[')
    made: list[T] = []
    refused, text, head = 0, "", ""
    pieces = iter(chunks)
    for chunk in pieces:
        text += chunk
        if not head:
            found = opening.search(text)
            if not found:
                continue
            head, text = text[: found.end()], text[found.end() :]
        values, text, over = _whole_entries(text)
        each_made = [make(value) for value in values]
        made += [each for each in each_made if each is not None]
        refused += sum(each is None for each in each_made)
        if over:
            return made, refused, _rest(head + text + "".join(pieces), key)
        if len(text) > MOST_STUCK:
            break
    if head:
        raise StewardError(f"the list of {key} is cut off or broken after {len(made)} entries")
    return made, refused, _rest(text, key)


def _whole_entries(text: str) -> tuple[list[Any], str, bool]:
    """Return the entries that are there in full, the text after them, and whether that was all."""
    values: list[Any] = []
    at = _end_of_gap(text, 0)
    while at < len(text) and text[at] != "]":
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (json.JSONDecodeError, RecursionError):
            return values, text[at:], False
        values.append(value)
        at = _end_of_gap(text, at)
    return values, text[at:], at < len(text)


def _end_of_gap(text: str, at: int) -> int:
    found = _BETWEEN.match(text, at)
    return found.end() if found else at


def _rest(text: str, key: str) -> dict[str, Any]:
    try:
        rest = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as fault:
        raise StewardError(f"the answer about {key} is not JSON: {fault}") from fault
    if not isinstance(rest, dict):
        raise StewardError(f"the answer about {key} is not an object")
    return rest
