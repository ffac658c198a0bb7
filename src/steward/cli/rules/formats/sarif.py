"""Findings as SARIF 2.1.0, which code hosts and editors show beside files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from steward import __version__
from steward.cli.output import clean, plain
from steward.inspection.markdown import as_markdown, as_plain

if TYPE_CHECKING:
    from steward.inspection.report import Diagnosis, EvidenceItem, RunReport
    from steward.model.rules import Rule, RuleSeverity

__all__ = ["as_sarif"]

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

Record = dict[str, object]


def as_sarif(report: RunReport) -> str:
    """Return the report as one SARIF log with one run."""
    rules = {each.rule.id: each.rule for each in report.findings}
    places = {rule: index for index, rule in enumerate(rules)}
    log: Record = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "steward",
                        "semanticVersion": __version__,
                        "informationUri": "https://github.com/steward-ml/steward",
                        "rules": [_rule(each) for each in rules.values()],
                    }
                },
                "invocations": [_invocation(report)],
                "results": [_result(each, places[each.rule.id]) for each in report.findings],
                "columnKind": "unicodeCodePoints",
            }
        ],
    }
    return json.dumps(plain(log), indent=2, ensure_ascii=False, allow_nan=False)


def _invocation(report: RunReport) -> Record:
    notes = [*report.notes, *(note for each in report.streams for note in each.notes)]
    told = [("error", str(each)) for each in report.unreadable]
    told += [("warning", note) for note in notes if ("error", note) not in told]
    message = [{"level": level, "message": {"text": clean(note)}} for level, note in told]
    return {"executionSuccessful": not report.unreadable} | (
        {"toolExecutionNotifications": message} if message else {}
    )


def _level(severity: RuleSeverity) -> str:
    return ("error", "error", "warning", "note", "note")[severity]


def _rule(rule: Rule) -> Record:
    parts = (("Cause", rule.cause), ("Impact", rule.impact), ("Mitigation", rule.mitigation))
    paragraphs = [(name, clean(text.strip())) for name, text in parts if text.strip()]
    paragraphs = paragraphs or [("Rule", clean(rule.title or rule.id))]
    plain_text = "\n\n".join(f"{name}:\n{as_plain(text)}" for name, text in paragraphs)
    markdown = "\n\n".join(f"**{name}**\n\n{as_markdown(text)}" for name, text in paragraphs)
    record: Record = {
        "id": rule.id,
        "shortDescription": {"text": clean(rule.title or rule.id)},
        "fullDescription": {
            "text": as_plain(clean(rule.description.strip() or rule.title or rule.id))
        },
        "help": {"text": plain_text, "markdown": markdown},
        "defaultConfiguration": {"level": _level(rule.severity)},
        "properties": {
            "tags": list(dict.fromkeys(rule.tags)),
            "category": rule.category,
            "severity": rule.severity.word,
        },
    }
    links = [each for each in rule.references if each.startswith(("http://", "https://"))]
    return record | ({"helpUri": quote(links[0], safe=_IN_URI)} if links else {})


_IN_URI = "%/:=&?~#+!$,;'@()*[]"


def _result(found: Diagnosis, index: int) -> Record:
    entity = f" on {found.entity}" if found.entity else ""
    often = f" ({found.hits} times)" if found.hits > 1 else ""
    record: Record = {
        "ruleId": found.rule.id,
        "ruleIndex": index,
        "level": _level(found.severity),
        "message": {"text": clean(f"{found.rule.title or found.rule.id}{entity}{often}")},
        "locations": _locations(found, found.evidence[:1]),
        "partialFingerprints": {"ruleAndEntity/v1": _fingerprint(found)},
        "occurrenceCount": found.hits,
        "properties": {
            "severity": found.severity.word,
            "entity": found.entity,
            "node": found.node,
            "firstTime": _time(found.first_t),
            "lastTime": _time(found.last_t),
        },
    }
    others = _locations(found, found.evidence[1:])
    numbered = [{"id": at} | each for at, each in enumerate(others, start=1)]
    return record | ({"relatedLocations": numbered} if numbered else {})


def _locations(found: Diagnosis, items: Sequence[EvidenceItem]) -> list[Record]:
    return [_location(found, each) for each in items]


def _location(found: Diagnosis, item: EvidenceItem) -> Record:
    entity = item.entity or found.entity
    logical: Record = (
        {"logicalLocations": [{"fullyQualifiedName": clean(entity), "kind": "resource"}]}
        if entity
        else {}
    )
    message = {"message": {"text": clean(item.text)[:1000]}}
    if not item.stream or not item.line:
        return logical | message
    region = {"startLine": item.line, "snippet": {"text": clean(item.text)}}
    place = {"artifactLocation": {"uri": _uri(item.stream)}, "region": region}
    return {"physicalLocation": place} | logical | message


def _uri(stream: str) -> str:
    path = Path(stream)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())


def _fingerprint(found: Diagnosis) -> str:
    return hashlib.sha256(f"{found.rule.id}\0{found.entity}".encode()).hexdigest()[:32]


def _time(t_s: float) -> str | None:
    try:
        return datetime.fromtimestamp(t_s, tz=UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return None
