"""`GET /api/v1/journal` and `/api/v1/stream`: everything that was written, read on or followed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Header, Query
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import Field

from steward.service.api.paging import MOST_DIGITS, Cursor, Limit, cursor_at, place_of
from steward.service.api.replies import RecordReply, Reply, failures
from steward.service.failures import RefusedError
from steward.service.live_state import LiveState
from steward.store.journal import JournalEntry

__all__ = ["journal_routes"]

MOST_STREAMS = 64
AT_ONCE = 200
LOOK_EVERY_S = 0.5

Kind = Literal[
    "event",
    "finding",
    "recurrence",
    "opinion",
    "pattern",
    "decision",
    "verdict",
    "choice",
    "approval",
    "receipt",
    "outcome",
]


class EntryReply(Reply):
    """One line of the journal."""

    seq: int
    t_s: float
    kind: Kind
    id: str
    cause: str = Field(description="the finding or decision that led to this, or empty")
    value: RecordReply


class JournalPage(Reply):
    """Journal entries, oldest first."""

    items: list[EntryReply]
    next_cursor: str | None = Field(
        description="read on from here; the same as was given while there is nothing new"
    )


class TurnReply(Reply):
    """Sent whenever the loop has gone round."""

    turns: int
    t_s: float
    last_turn_s: float


def journal_routes(live_state: LiveState) -> APIRouter:
    """Return the routes about the journal."""
    routes = APIRouter(tags=["journal"])
    place = _Places(MOST_STREAMS)

    @routes.get("/journal", responses=failures())
    def journal(
        limit: Limit = 100,
        cursor: Cursor = None,
        kind: Annotated[
            list[Kind] | None, Query(description="only these kinds; may be repeated")
        ] = None,
    ) -> JournalPage:
        """Read the journal, oldest entries first."""
        after = place_of(cursor) or 0
        entries = live_state.loop.journal.read(after=after, kinds=tuple(kind or ()), limit=limit)
        last = cursor_at(entries[-1].seq) if entries else cursor
        return JournalPage(items=[_reply(entry) for entry in entries], next_cursor=last)

    @routes.get(
        "/stream",
        response_class=EventSourceResponse,
        responses=failures(),
        dependencies=[Depends(place)],
    )
    async def stream(
        after: Annotated[int | None, Depends(_begin)],
    ) -> AsyncIterator[ServerSentEvent]:
        """Follow the journal: `entry` events with an id, and a `turn` event per turn.

        A client that was cut off goes on where it was, by the usual `Last-Event-ID`.
        """
        async for event in _follow(live_state, after):
            yield event

    return routes


class _Places:
    """Limits the number of open streams; a place is free again when its stream ends."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0

    async def __call__(self) -> AsyncIterator[None]:
        if self._taken >= self._most:
            raise RefusedError(
                429,
                f"{self._most} streams are open already",
                hint="close one, or read /api/v1/journal",
                headers={"Retry-After": "10"},
            )
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1


def _begin(
    last_event_id: Annotated[
        str | None, Header(max_length=64, description="go on after this entry's `seq`")
    ] = None,
) -> int | None:
    if last_event_id is None:
        return None
    if not (last_event_id.isdecimal() and len(last_event_id) <= MOST_DIGITS):
        raise RefusedError(
            400,
            "Last-Event-ID is not an id that steward sent",
            where="header.last-event-id",
            hint="send the number back as it came, or leave it out to begin with what is new",
        )
    return int(last_event_id)


async def _follow(live_state: LiveState, after: int | None) -> AsyncIterator[ServerSentEvent]:
    journal = live_state.loop.journal
    seq = after if after is not None else await asyncio.to_thread(journal.newest)
    turns = -1
    while not live_state.closing.is_set():
        entries = await asyncio.to_thread(journal.read, after=seq, limit=AT_ONCE)
        for entry in entries:
            seq = entry.seq
            yield ServerSentEvent(event="entry", id=str(seq), data=_reply(entry))
        status = live_state.loop.status
        if status.turns != turns:
            turns = status.turns
            yield ServerSentEvent(event="turn", data=TurnReply.model_validate(status))
        if len(entries) < AT_ONCE:
            await asyncio.sleep(LOOK_EVERY_S)


def _reply(entry: JournalEntry) -> EntryReply:
    return EntryReply.model_validate(entry)
