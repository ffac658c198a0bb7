"""Findings as one self-contained HTML file; all text of logs is escaped."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from steward.cli.output import clean
from steward.cli.rules.formats.drawing import drawing
from steward.cli.rules.formats.text import evidence_line
from steward.cli.words import log_time, moment, span
from steward.documents import document, escaped
from steward.inspection.markdown import as_html

if TYPE_CHECKING:
    from steward.inspection.report import Diagnosis, EvidenceItem, RunReport, StreamReport
    from steward.inspection.series.curves import EvidenceCurve

__all__ = ["as_page"]

_SHOWN = 500  # findings on one page
_STREAMS = 200
_MIB = 2**20
_NAMES = ("critical", "high", "medium", "low", "info")
_STYLE = """
:root { --range: #c2410c22; --critical: #b42318; --high: #c2410c; --medium: #946200;
  --low: #1d6fa5; --info: #5b6570; }
@media (prefers-color-scheme: dark) { :root { --range: #fb923c33; --critical: #ff8a80;
  --high: #ffb26b; --medium: #f2cc60; --low: #7cc4f0; --info: #9aa5b1; } }
h3 { font-size: 1.05rem; margin: 0; overflow-wrap: anywhere; } td a { white-space: nowrap; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
article { border: 1px solid var(--rule); border-left: .3rem solid var(--info); border-radius: .4rem;
  margin: 1rem 0; padding: .8rem 1rem; }
.tag { border: 1px solid currentcolor; border-radius: 1rem; font-size: .8rem; padding: .05rem .5rem;
  white-space: nowrap; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .2rem .8rem;
  margin: .6rem 0; }
dt { color: var(--quiet); } dd { margin: 0; overflow-wrap: anywhere; }
dd p, dd ul, dd ol { margin: 0 0 .3rem; } dd ul, dd ol { padding-left: 1.2rem; }
code { font-size: .88em; }
pre { background: var(--card); border-radius: .4rem; font-size: .82rem; margin: .5rem 0;
  overflow-x: auto; padding: .6rem .8rem; }
pre span { color: var(--quiet); user-select: none; }
svg { max-width: 45rem; } svg .fired { fill: var(--range); } svg .line { stroke-width: 1.6; }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; } dd { margin-bottom: .4rem; } }
""" + "".join(
    f".{name} {{ color: var(--{name}); }} article.at-{name} {{ border-left-color: var(--{name}); }}"
    for name in _NAMES
)

Curves = Mapping[tuple[str, str], tuple["EvidenceCurve", ...]]


def as_page(report: RunReport, curves: Curves) -> str:
    """Return the whole page."""
    shown = report.findings[:_SHOWN]
    parts = (
        "<h1>What rules found</h1>",
        f'<p class="quiet">{escaped(moment(time.time()))}: {_read(report)}</p>',
        *_cards(report),
        *_table(shown),
        *(_article(at, each, curves) for at, each in enumerate(shown)),
        *_rest(report),
        *_streams(report.streams),
    )
    return document(f"steward: {len(report.findings)} findings", parts, style=_STYLE)


def _read(report: RunReport) -> str:
    parts = [f"{report.lines:,} lines ({report.bytes / _MIB:,.1f} MiB)"] if report.streams else []
    parts += [f"{report.samples:,} rows of telemetry"] if report.samples else []
    return f"{report.rules} rules over {' and '.join(parts) or 'nothing'} in {span(report.seconds)}"


def _cards(report: RunReport) -> Iterator[str]:
    yield '<div class="cards">'
    for name in _NAMES:
        often = sum(each.severity.word == name for each in report.findings)
        yield f'<div class="card"><b class="{name}">{often:,}</b>{name}</div>'
    yield "</div>"


def _table(findings: Sequence[Diagnosis]) -> Iterator[str]:
    if not findings:
        yield "<p>Nothing was found.</p>"
        return
    yield '<div class="scroll"><table><tr><th>severity</th><th>rule</th><th>title</th>'
    yield '<th>entity</th><th class="n">hits</th><th>first</th><th>last</th></tr>'
    for at, each in enumerate(findings):
        cells = [
            f'<td class="{each.severity.word}">{each.severity.word}</td>',
            f'<td><a href="#f{at}">{escaped(each.rule.id)}</a></td>',
            f"<td>{escaped(each.rule.title)}</td><td>{escaped(each.entity)}</td>",
            f'<td class="n">{each.hits:,}</td>',
            f"<td>{escaped(log_time(each.first_t))}</td><td>{escaped(log_time(each.last_t))}</td>",
        ]
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</table></div>"


def _article(at: int, found: Diagnosis, curves: Curves) -> str:
    rule, word = found.rule, found.severity.word
    entity = f" on {escaped(found.entity)}" if found.entity else ""
    first, last = escaped(log_time(found.first_t)), escaped(log_time(found.last_t))
    when = f"at {first}" if first == last else f"from {first} to {last}"
    often = f"{found.hits:,} {'hit' if found.hits == 1 else 'hits'}"
    parts = [
        f'<article class="at-{word}" id="f{at}">',
        f'<h3><span class="tag {word}">{word}</span> {escaped(rule.title or rule.id)}</h3>',
        f'<p class="quiet">{escaped(rule.id)}{entity}, {often} {when}</p>',
        *_meaning(found),
        *(drawing(each) for each in curves.get((rule.id, found.entity), ())),
        *_evidence(found.evidence),
        *_references(rule.references),
        "</article>",
    ]
    return "\n".join(parts)


def _meaning(found: Diagnosis) -> Iterator[str]:
    rule, treatment = found.rule, found.rule.treatment
    paragraphs = [
        ("what it is", rule.description),
        ("cause", rule.cause),
        ("impact", rule.impact),
        ("what to do", rule.mitigation),
        ("advice", treatment.advice if treatment else ""),
    ]
    filled = [(name, as_html(clean(text))) for name, text in paragraphs if text.strip()]
    if filled:
        yield "<dl>"
        for name, text in filled:
            yield f"<dt>{name}</dt><dd>{text}</dd>"
        yield "</dl>"


def _evidence(items: Sequence[EvidenceItem]) -> Iterator[str]:
    if items:
        yield f"<pre>{chr(10).join(_evidence_row(each) for each in items)}</pre>"


def _evidence_row(item: EvidenceItem) -> str:
    if item.metric:
        return escaped(evidence_line(item))
    where = f"{item.stream}:{item.line}" if item.stream else f"{log_time(item.t)} event"
    return f"<span>{escaped(where)}</span> {escaped(item.text)}"


def _references(links: Sequence[str]) -> Iterator[str]:
    safe = [each for each in links if each.startswith(("https://", "http://"))]
    if safe:
        yield "<ul>"
        for each in safe:
            yield f'<li><a rel="noreferrer" href="{escaped(each)}">{escaped(each)}</a></li>'
        yield "</ul>"


def _rest(report: RunReport) -> Iterator[str]:
    if len(report.findings) > _SHOWN:
        yield f"<p>{len(report.findings) - _SHOWN:,} more findings are in the JSON form.</p>"
    for fault in report.unreadable:
        yield f"<p><strong>Not read:</strong> {escaped(str(fault))}</p>"
    for note in report.notes:
        yield f'<p class="quiet">{escaped(note)}</p>'


def _streams(streams: Sequence[StreamReport]) -> Iterator[str]:
    if not streams:
        return
    yield '<h2>What was read</h2><div class="scroll"><table><tr><th>log</th><th>source</th>'
    yield '<th>format</th><th class="n">lines</th><th class="n">MiB</th>'
    yield '<th class="n">without a time</th></tr>'
    for each in streams[:_STREAMS]:
        notes = "".join(
            f'<br><span class="quiet">{escaped(note)}</span>' for note in each.notes[:5]
        )
        yield (
            f"<tr><td>{escaped(each.stream)}{notes}</td><td>{escaped(each.source)}</td>"
            f'<td>{escaped(each.format)}</td><td class="n">{each.lines:,}</td>'
            f'<td class="n">{each.bytes / _MIB:,.1f}</td>'
            f'<td class="n">{each.unparsed:,}</td></tr>'
        )
    yield "</table></div>"
    if len(streams) > _STREAMS:
        yield f'<p class="quiet">and {len(streams) - _STREAMS:,} more</p>'
