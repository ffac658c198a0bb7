"""`/api/v1/findings` and `/api/v1/patterns`: findings, opinions on them, and patterns."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from steward.model.finding import Finding
from steward.model.identity import FindingId
from steward.service.api.paging import Cursor, Limit, cursor_at, place_of
from steward.service.api.replies import (
    FindingReply,
    OpinionReply,
    PatternReply,
    Reply,
    StoryReply,
    failures,
)
from steward.service.authentication import User
from steward.service.live_state import LiveState
from steward.store.opinions import OpinionName

__all__ = ["finding_routes"]


Id = Annotated[
    str,
    Path(max_length=100, pattern="^[!-~]+$", description="a finding's id, e.g. `f-0123456789ab`"),
]


class Remark(BaseModel):
    """Optional note beside an opinion."""

    model_config = ConfigDict(extra="forbid")
    note: str = Field("", max_length=2000, description="kept in the journal beside the opinion")


class FindingStoryReply(Reply):
    """A finding with all that came of it. `hits` counts all matches of its rule so far."""

    finding: FindingReply
    hits: int
    opinions: list[OpinionReply]
    stories: list[StoryReply]


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


def finding_routes(live_state: LiveState) -> APIRouter:
    """Return the routes about findings and patterns."""
    routes = APIRouter(tags=["findings"])

    @routes.get("/findings", responses=failures())
    def findings(limit: Limit = 50, cursor: Cursor = None) -> FindingPage:
        """List what was noticed, newest first."""
        entries = live_state.loop.journal.read(
            kinds=("finding",), before=place_of(cursor), newest_first=True, limit=limit
        )
        now = live_state.refresh().open_findings
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

    @routes.get("/findings/{finding}", responses=failures(404))
    def story(finding: Id) -> FindingStoryReply:
        """Return one finding with its evidence, opinions on it, and decisions."""
        return FindingStoryReply.model_validate(live_state.finding(FindingId(finding)))

    _add_opinions(routes, live_state)

    @routes.get("/patterns", responses=failures())
    def patterns() -> PatternList:
        """List what is known to keep happening."""
        found = live_state.refresh().patterns
        return PatternList(items=[PatternReply.model_validate(each) for each in found])

    return routes


def _add_opinions(routes: APIRouter, live_state: LiveState) -> None:
    def said(
        request: Request, finding: str, word: OpinionName, remark: Remark | None
    ) -> OpinionReply:
        user: User = request.state.user
        note = remark.note if remark else ""
        return OpinionReply.model_validate(
            live_state.record_opinion(FindingId(finding), word, user=user, note=note)
        )

    @routes.post("/findings/{finding}/confirm", status_code=202, responses=failures(404))
    def confirm(request: Request, finding: Id, remark: Remark | None = None) -> OpinionReply:
        """Confirm a finding: its rule is trusted more."""
        return said(request, finding, "confirm", remark)

    @routes.post("/findings/{finding}/dismiss", status_code=202, responses=failures(404))
    def dismiss(request: Request, finding: Id, remark: Remark | None = None) -> OpinionReply:
        """Dismiss a finding as wrong or not worth knowing: its rule is trusted less."""
        return said(request, finding, "dismiss", remark)
