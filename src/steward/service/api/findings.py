"""`GET /api/v1/findings` and `/api/v1/patterns`: what was noticed, and what keeps happening."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field

from steward.model.finding import Finding
from steward.service.api.paging import Cursor, Limit, cursor_at, place_of
from steward.service.api.replies import FindingReply, PatternReply, Reply, failures
from steward.service.board import Board

__all__ = ["finding_routes"]


class FindingItem(FindingReply):
    """A finding in a list. `open`: it still holds at this moment."""

    seq: int
    open: bool


class FindingPage(Reply):
    """Findings, newest first."""

    items: list[FindingItem]
    next_cursor: str | None = Field(description="null at the end of the list")


class PatternList(Reply):
    """All patterns known now."""

    items: list[PatternReply]


def finding_routes(board: Board) -> APIRouter:
    """Return the routes about findings and patterns."""
    routes = APIRouter(tags=["findings"])

    @routes.get("/findings", responses=failures())
    def findings(limit: Limit = 50, cursor: Cursor = None) -> FindingPage:
        """List what was noticed, newest first."""
        entries = board.loop.journal.read(
            kinds=("finding",), before=place_of(cursor), newest_first=True, limit=limit
        )
        now = board.look().open_findings
        items = [
            FindingItem(
                **FindingReply.model_validate(entry.value).model_dump(),
                seq=entry.seq,
                open=entry.value.id in now,
            )
            for entry in entries
            if isinstance(entry.value, Finding)
        ]
        more = cursor_at(entries[-1].seq) if len(entries) == limit else None
        return FindingPage(items=items, next_cursor=more)

    @routes.get("/patterns", responses=failures())
    def patterns() -> PatternList:
        """List what is known to keep happening."""
        found = board.look().patterns
        return PatternList(items=[PatternReply.model_validate(each) for each in found])

    return routes
