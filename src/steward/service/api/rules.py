"""`/api/v1/rules`: the rules of this site, whether they run, and how they did."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from pydantic import Field

from steward.errors import did_you_mean
from steward.inspection.explanation import describe_conditions
from steward.model.rules import RuleState
from steward.service.api.replies import (
    FindingReply,
    Number,
    Reply,
    Text,
    TreatmentReply,
    failures,
)
from steward.service.failures import RefusedError
from steward.service.live_state import LiveState
from steward.service.rulebook import RuleRow

__all__ = ["rule_routes"]

SeverityWord = Literal["critical", "high", "medium", "low", "info"]
Id = Annotated[
    str, Path(max_length=200, pattern="^[!-~]+$", description="a rule's id, as `STW-GPU-0022`")
]
SHOWN = 20  # findings of one rule


class HitsReply(Reply):
    """Matches in the ten minutes from `t_s` on."""

    t_s: float
    hits: int


class RuleItem(Reply):
    """A rule in a list. `weight` is how far it was right so far, from 0 to 1."""

    id: str
    pack: str
    state: RuleState
    why: Text = Field(description="it is off or faulty")
    title: Text
    severity: SeverityWord | None
    category: str
    fired: int
    findings: int
    confirmed: int
    dismissed: int
    decisions: int
    refused: int
    undone: int
    met: int
    missed: int
    judged: int
    weight: Number
    low: Number
    high: Number
    retire: bool
    last_s: Number
    history: list[HitsReply]


class RuleList(Reply):
    """All rules: faulty ones first, then those that matched last."""

    items: list[RuleItem]


class RuleReply(RuleItem):
    """One rule, with what it means and what it waits for."""

    description: Text
    cause: Text
    impact: Text
    mitigation: Text
    references: list[str]
    tags: list[str]
    waits_for: list[str]
    treatment: TreatmentReply | None
    file: str
    line: int
    newest: list[FindingReply]


def rule_routes(live_state: LiveState) -> APIRouter:
    """Return the routes about rules."""
    routes = APIRouter(tags=["rules"])

    @routes.get("/rules", responses=failures())
    def rules(
        state: Annotated[list[RuleState] | None, Query(description="only these")] = None,
        pack: Annotated[str, Query(description="only of this pack", max_length=200)] = "",
        severity: Annotated[list[SeverityWord] | None, Query(description="only these")] = None,
    ) -> RuleList:
        """List rules with their statistics."""
        items = [
            _item(row)
            for row in live_state.refresh().rules
            if (not state or row.standing.state in state)
            and (not pack or row.standing.pack == pack)
            and (not severity or _word(row) in severity)
        ]
        return RuleList(items=items)

    @routes.get("/rules/{rule}", responses=failures(404))
    def rule(rule: Id) -> RuleReply:
        """Return one rule with its texts and statistics."""
        snapshot = live_state.refresh()
        row = next((each for each in snapshot.rules if each.id == rule), None)
        if row is None:
            there = [each.id for each in snapshot.rules]
            hint = did_you_mean(rule, there) or "GET /api/v1/rules lists them"
            raise RefusedError(404, f"there is no rule '{rule}'", where="path.rule", hint=hint)
        found = [each for each in snapshot.findings if each.rule == rule][:SHOWN]
        return _told(row, [FindingReply.model_validate(each) for each in found])

    return routes


def _word(row: RuleRow) -> SeverityWord | None:
    words: dict[int, SeverityWord] = {
        0: "critical",
        1: "high",
        2: "medium",
        3: "low",
        4: "info",
    }
    return words[int(row.severity)] if row.severity is not None else None


def _fields(row: RuleRow) -> dict[str, object]:
    stats, standing = row.stats, row.standing
    counted = {
        name: getattr(stats, name)
        for name in RuleItem.model_fields
        if name != "history" and name in type(stats).__slots__
    }
    return counted | {
        "id": row.id,
        "pack": standing.pack,
        "state": standing.state,
        "why": standing.why,
        "title": row.title,
        "severity": _word(row),
        "category": standing.rule.category if standing.rule is not None else "",
        "history": [HitsReply(t_s=t_s, hits=hits) for t_s, hits in stats.history],
    }


def _item(row: RuleRow) -> RuleItem:
    return RuleItem.model_validate(_fields(row))


def _told(row: RuleRow, newest: list[FindingReply]) -> RuleReply:
    rule = row.standing.rule
    meaning = ("description", "cause", "impact", "mitigation")
    return RuleReply.model_validate(
        _fields(row)
        | {name: getattr(rule, name) if rule is not None else "" for name in meaning}
        | {
            "references": list(rule.references) if rule is not None else [],
            "tags": list(rule.tags) if rule is not None else [],
            "waits_for": describe_conditions(rule) if rule is not None else [],
            "treatment": rule.treatment if rule is not None else None,
            "file": row.standing.place.file,
            "line": row.standing.place.line,
            "newest": newest,
        }
    )
