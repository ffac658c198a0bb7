"""Cursors: where a list was left off. Clients hand them back and never look inside."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

from fastapi import Query

from steward.service.failures import RefusedError

__all__ = ["Cursor", "Limit", "cursor_at", "place_of"]

MOST_DIGITS = 18  # of a sequence number: more do not fit into a database's integer

Limit = Annotated[int, Query(ge=1, le=500, description="how many items at most")]
Cursor = Annotated[
    str | None,
    Query(max_length=64, description="`next_cursor` of the answer before; leave out to begin"),
]


def cursor_at(seq: int) -> str:
    """Write down a place in a list.

    >>> place_of(cursor_at(42))
    42
    """
    return base64.urlsafe_b64encode(f"s{seq}".encode()).decode().rstrip("=")


def place_of(cursor: str | None) -> int | None:
    """Read a place back; None means the beginning. 400 for what is no cursor of ours."""
    if cursor is None:
        return None
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        text = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, UnicodeError, ValueError):
        text = ""
    digits = text[1:]
    if text[:1] != "s" or not digits.isdecimal() or len(digits) > MOST_DIGITS:
        raise RefusedError(
            400,
            "this is not a cursor that steward gave out",
            where="query.cursor",
            hint="hand back `next_cursor` as it came, or leave it out to begin again",
        )
    return int(digits)
