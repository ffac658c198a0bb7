"""Reads pushed bodies within the memory that all such requests share."""

from __future__ import annotations

from fastapi import Request
from starlette.requests import ClientDisconnect

from steward.observe.intake.budget import Reservation
from steward.service.failures import RefusedError

__all__ = ["announced_bytes", "read_body"]


def announced_bytes(request: Request) -> int:
    """Return the declared length of a body; 0 if there is none."""
    length = request.headers.get("content-length", "")
    return int(length) if length.isdecimal() and len(length) < 16 else 0


async def read_body(request: Request, reservation: Reservation) -> bytes:
    """Return the whole body. One that announced no length is reserved for as it comes."""
    pieces: list[bytes] = []
    size = 0
    try:
        async for piece in request.stream():
            size += len(piece)
            reservation.grow(size)
            pieces.append(piece)
    except ClientDisconnect as fault:
        raise RefusedError(
            400, "the client closed the connection", where="body", hint="send it again"
        ) from fault
    return b"".join(pieces)
