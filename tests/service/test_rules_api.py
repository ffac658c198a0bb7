from __future__ import annotations

from dataclasses import replace

import pytest

from factories import finding
from service.bed import MakeBed, ServiceBed
from steward.model.finding import Opinion, Quote, Recurrence
from steward.model.identity import FindingId
from steward.model.rules import (
    Clause,
    Rule,
    RuleNode,
    RuleSeverity,
    RuleStanding,
    RuleState,
    SourceLocation,
    Term,
)
from steward.model.treatment import Treatment
from steward.store.tokens import Role

ROOT = RuleNode(kind="set", clauses=(Clause(what=Term(kind="value", text="oops")),), source="a.b")
RULE = Rule(
    id="R-0001",
    key="k",
    hash="h",
    root=ROOT,
    title="It broke",
    severity=RuleSeverity.HIGH,
    cause="a cause",
    mitigation="do this",
    treatment=Treatment(action="send", advice="say so"),
    place=SourceLocation(file="rules/mine/r/rule.yaml", line=2),
)
STANDINGS = (
    RuleStanding(id="R-0001", state=RuleState.ON, rule=RULE, pack="mine", place=RULE.place),
    RuleStanding(id="R-0002", state=RuleState.OFF, rule=replace(RULE, id="R-0002"), pack="b"),
    RuleStanding(id="broken", state=RuleState.FAULTY, why="line 3: no"),
)
FOUND = replace(
    finding(),
    id=FindingId("f-1"),
    rule="R-0001",
    quotes=(Quote(t_s=999.0, text="oops <b>", stream="a.log", line=7, entity="n1"),),
)


@pytest.fixture
def bed(make_bed: MakeBed) -> ServiceBed:
    made = make_bed()
    made.loop.rules = STANDINGS
    again = Recurrence(finding=FOUND.id, rule="R-0001", from_s=1000.0, t_s=1500.0, hits=4)
    made.loop.journal.append([FOUND, again])
    return made


def test_rules_are_listed_with_their_state_and_statistics(bed: ServiceBed) -> None:
    broken, first, off = bed.client.get("/api/v1/rules").json()["items"]

    assert (broken["id"], broken["state"], broken["why"]) == ("broken", "faulty", "line 3: no")
    assert broken["severity"] is None
    assert (first["id"], first["severity"], first["fired"]) == ("R-0001", "high", 5)
    assert first["history"] == [{"t_s": 600.0, "hits": 1}, {"t_s": 1200.0, "hits": 4}]
    assert (off["state"], off["fired"], off["last_s"]) == ("off", 0, None)


@pytest.mark.parametrize(
    ("asked", "ids"),
    [
        ("state=on", ["R-0001"]),
        ("state=off&state=faulty", ["broken", "R-0002"]),
        ("pack=b", ["R-0002"]),
        ("severity=high", ["R-0001", "R-0002"]),
        ("severity=low", []),
    ],
)
def test_the_list_can_be_narrowed(bed: ServiceBed, asked: str, ids: list[str]) -> None:
    items = bed.client.get(f"/api/v1/rules?{asked}").json()["items"]

    assert [each["id"] for each in items] == ids


def test_one_rule_says_what_it_waits_for_and_what_it_found(bed: ServiceBed) -> None:
    told = bed.client.get("/api/v1/rules/R-0001").json()

    assert told["waits_for"] == [
        "It waits for this in logs of source a.b:",
        "  1. a line with `oops`",
    ]
    assert (told["cause"], told["treatment"]["advice"]) == ("a cause", "say so")
    assert [each["id"] for each in told["newest"]] == ["f-1"]
    assert bed.client.get("/api/v1/rules/broken").json()["waits_for"] == []
    missing = bed.client.get("/api/v1/rules/R-00010")
    fault = missing.json()["error"]
    assert (missing.status_code, fault["where"]) == (404, "path.rule")
    assert fault["hint"].startswith("did you mean 'R-000")


def test_a_finding_has_its_lines_its_matches_and_what_people_said(bed: ServiceBed) -> None:
    said = bed.client.post("/api/v1/findings/f-1/confirm", json={"note": "yes"})
    told = bed.client.get("/api/v1/findings/f-1").json()

    assert said.status_code == 202
    assert told["hits"] == 5
    assert told["finding"]["quotes"][0]["line"] == 7
    assert [(each["opinion"], each["note"]) for each in told["opinions"]] == [("confirm", "yes")]
    assert bed.client.get("/api/v1/rules/R-0001").json()["confirmed"] == 1
    assert bed.client.get("/api/v1/findings/f-9").status_code == 404


def test_who_only_looks_may_not_judge(make_bed: MakeBed) -> None:
    bed = make_bed(host="0.0.0.0")  # noqa: S104 - nothing listens
    bed.loop.journal.append([FOUND])
    viewer = bed.bearer("bob", Role.VIEWER)

    answer = bed.client.post("/api/v1/findings/f-1/dismiss", headers=viewer)

    assert answer.status_code == 403
    assert "bob is a viewer" in answer.json()["error"]["problem"]


def test_the_journal_tells_of_opinions_and_recurrences(bed: ServiceBed) -> None:
    bed.loop.journal.append(
        [Opinion(finding=FOUND.id, rule="R-0001", t_s=1.0, opinion="dismiss", user="ann")]
    )

    items = bed.client.get("/api/v1/journal?kind=opinion&kind=recurrence").json()["items"]

    assert [(each["kind"], each["cause"]) for each in items] == [
        ("recurrence", "f-1"),
        ("opinion", "f-1"),
    ]
    assert items[0]["value"]["hits"] == 4
    assert items[1]["value"]["opinion"] == "dismiss"
