"""`/api/v1/decisions`: list, explain, approve, reject, undo; `/api/v1/approvals`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from steward.model.decision import Choice, DecisionState
from steward.model.frame import T_S, Frame
from steward.model.identity import DecisionId
from steward.service.api.paging import Cursor, Limit, cursor_at, place_of
from steward.service.api.replies import (
    ChoiceReply,
    FindingReply,
    Number,
    Reply,
    StandingApprovalReply,
    StoryReply,
    failures,
)
from steward.service.authentication import User
from steward.service.live_state import LiveState
from steward.store.choices import ApprovalRequest, ChoiceName
from steward.store.explain import DecisionExplanation
from steward.store.story_search import find_stories

__all__ = ["decision_routes"]

MOST_READ = 2000  # stories per request

Id = Annotated[
    str,
    Path(max_length=100, pattern="^[!-~]+$", description="a decision's id, e.g. `d-0123456789ab`"),
]


class StoryItem(StoryReply):
    """A decision in a list."""

    seq: int


class StoryPageReply(Reply):
    """Decisions, newest first."""

    items: list[StoryItem]
    next_cursor: str | None = Field(
        description="null at the end of the list; a page that was filtered can be short before it"
    )


class SamplesReply(Reply):
    """One series behind a decision; as many times as values."""

    entity: str
    metric: str
    t_s: list[float]
    values: list[Number]


class ExplanationReply(Reply):
    """From a decision back to the samples that it rests on."""

    story: StoryReply
    findings: list[FindingReply]
    samples: list[SamplesReply]


class ChoiceNote(BaseModel):
    """Optional note beside a choice."""

    model_config = ConfigDict(extra="forbid")
    note: str = Field("", max_length=2000, description="kept in the journal beside the choice")


def decision_routes(live_state: LiveState) -> APIRouter:
    """Return the routes about decisions."""
    routes = APIRouter(tags=["decisions"])

    @routes.get("/decisions", responses=failures())
    def decisions(
        limit: Limit = 50,
        cursor: Cursor = None,
        state: Annotated[
            list[DecisionState] | None, Query(description="only these states; may be repeated")
        ] = None,
    ) -> StoryPageReply:
        """List decisions, newest first."""
        return _page(live_state, limit, before=place_of(cursor), states=frozenset(state or ()))

    @routes.get("/decisions/{decision}", responses=failures(404))
    def explanation(decision: Id) -> ExplanationReply:
        """Explain one decision: its story, its findings, its samples."""
        return _explained(live_state.explain(DecisionId(decision)))

    _add_choices(routes, live_state)
    _add_approvals(routes, live_state)
    return routes


def _add_choices(routes: APIRouter, live_state: LiveState) -> None:
    def record(
        request: Request, decision: str, choice: ChoiceName, note: ChoiceNote | None
    ) -> Choice:
        user: User = request.state.user
        text = note.note if note else ""
        return live_state.choose(DecisionId(decision), choice, user=user, note=text)

    replies = failures(404, 409)

    @routes.post("/decisions/{decision}/approve", status_code=202, responses=replies)
    def approve(request: Request, decision: Id, note: ChoiceNote | None = None) -> ChoiceReply:
        """Approve a decision. The loop carries it out in its next turn."""
        return ChoiceReply.model_validate(record(request, decision, "approve", note))

    @routes.post("/decisions/{decision}/reject", status_code=202, responses=replies)
    def reject(request: Request, decision: Id, note: ChoiceNote | None = None) -> ChoiceReply:
        """Reject a decision that waits."""
        return ChoiceReply.model_validate(record(request, decision, "reject", note))

    @routes.post("/decisions/{decision}/undo", status_code=202, responses=replies)
    def undo(request: Request, decision: Id, note: ChoiceNote | None = None) -> ChoiceReply:
        """Undo a decision. The loop does so in its next turn."""
        return ChoiceReply.model_validate(record(request, decision, "undo", note))


class StandingApprovalBody(BaseModel):
    """An approval in advance."""

    model_config = ConfigDict(extra="forbid")
    tenant: str = Field(max_length=200, description="whose GPUs")
    action: str = Field(max_length=40, description="type of the action, as `lend`")
    hours: float = Field(ge=0.01, le=24 * 30, strict=True, description="how long, in real hours")
    gpus: int = Field(ge=1, le=1_000_000, strict=True, description="how many GPUs in all")
    note: str = Field("", max_length=2000)


def _add_approvals(routes: APIRouter, live_state: LiveState) -> None:
    @routes.get("/approvals", responses=failures())
    def approvals() -> list[StandingApprovalReply]:
        """List the standing approvals that are in force."""
        found = live_state.standing_approvals()
        return [StandingApprovalReply.model_validate(each) for each in found]

    @routes.post("/approvals", status_code=201, responses=failures())
    def approve_ahead(request: Request, body: StandingApprovalBody) -> StandingApprovalReply:
        """Approve one tenant's actions of one type in advance, for a while."""
        user: User = request.state.user
        made = live_state.approve_in_advance(ApprovalRequest(**body.model_dump()), user=user)
        return StandingApprovalReply.model_validate(made)

    @routes.delete("/approvals/{approval}", responses=failures(404))
    def revoke_approval(request: Request, approval: Id) -> StandingApprovalReply:
        """Revoke a standing approval."""
        user: User = request.state.user
        return StandingApprovalReply.model_validate(live_state.revoke(approval, user=user))


def _page(
    live_state: LiveState, limit: int, *, before: int | None, states: frozenset[DecisionState]
) -> StoryPageReply:
    page = find_stories(
        live_state.loop.journal, states=states, before=before, limit=limit, most_read=MOST_READ
    )
    items = [
        StoryItem(seq=seq, **StoryReply.model_validate(story).model_dump())
        for seq, story in page.stories
    ]
    more = None if page.before is None else cursor_at(page.before)
    return StoryPageReply(items=items, next_cursor=more)


def _explained(found: DecisionExplanation) -> ExplanationReply:
    return ExplanationReply(
        story=StoryReply.model_validate(found.story),
        findings=[FindingReply.model_validate(finding) for finding in found.findings],
        samples=[_samples(name, frame) for name, frame in found.samples.items()],
    )


def _samples(name: str, frame: Frame) -> SamplesReply:
    entity, _, metric = name.rpartition(" ")
    values = frame[metric].to_list() if metric in frame.columns else [None] * frame.height
    return SamplesReply(entity=entity, metric=metric, t_s=frame[T_S].to_list(), values=values)
