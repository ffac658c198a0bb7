"""Findings as JSON, for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from steward.cli.output import plain

if TYPE_CHECKING:
    from steward.inspection.report import Diagnosis, RunReport

__all__ = ["as_json", "as_record"]


def as_json(report: RunReport, *, one_line: bool = False) -> str:
    """Return the whole report as one JSON value; on one line after others of a stream."""
    record = {
        "rules": report.rules,
        "lines": report.lines,
        "bytes": report.bytes,
        "samples": report.samples,
        "unparsed": report.unparsed,
        "seconds": report.seconds,
        "findings": [as_record(each) for each in report.findings],
        "streams": report.streams,
        "counts": report.counts,
        "notes": report.notes,
        "errors": [each.as_record() for each in report.unreadable],
    }
    return json.dumps(
        plain(record), indent=None if one_line else 2, ensure_ascii=False, allow_nan=False
    )


def as_record(found: Diagnosis) -> dict[str, object]:
    """Return one finding as a JSON record."""
    rule = found.rule
    return {
        "rule": rule.id,
        "severity": found.severity.word,
        "title": rule.title,
        "first_t": found.first_t,
        "last_t": found.last_t,
        "hits": found.hits,
        "entity": found.entity,
        "node": found.node,
        "cause": rule.cause.strip(),
        "mitigation": rule.mitigation.strip(),
        "evidence": found.evidence,
    }
