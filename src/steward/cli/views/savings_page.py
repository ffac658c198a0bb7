"""The report as one HTML file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from steward.cli.views.chart import chart
from steward.cli.views.savings import (
    KIND_COLUMNS,
    SAVINGS_COLUMNS,
    SIMULATED,
    Account,
    kind_rows,
    projection_lines,
    rows_of,
    stop_cost_text,
)
from steward.cli.words import moment, number
from steward.documents import document, escaped, table, write_document

__all__ = ["page", "write_page"]

STYLE = """
:root { --range: #0b6e4f33; }
@media (prefers-color-scheme: dark) { :root { --range: #4cc79a33; } }
.card small { font-size: .9rem; font-weight: normal; white-space: nowrap; }
svg { min-width: 32rem; } svg .range { fill: var(--range); } svg circle { fill: var(--line); }
"""


def write_page(account: Account, file: Path) -> None:
    """Write the page; a file that was there stays whole until the new one is."""
    write_document(page(account), file)


def page(account: Account) -> str:
    """Return the whole page."""
    parts = (
        f"<h1>What steward saved at {escaped(account.site)}</h1>",
        f'<p class="quiet">{escaped(moment(account.made_s))}</p>',
        *([f'<p class="note">{escaped(SIMULATED)}</p>'] if account.simulated else []),
        *_cards(account),
        "<h2>GPU-hours put to work, from the first outcome on</h2>",
        '<div class="scroll">',
        chart(account.curve, title="GPU-hours put to work over time, with their range"),
        "</div>",
        *_measured(account),
        *_kinds(account),
        *_projected(account),
        *_assumed(account),
        *_decisions(account),
        *_findings(account),
    )
    return document(f"steward: {account.site}", parts, style=STYLE)


def _cards(account: Account) -> Iterator[str]:
    yield '<div class="cards">'
    for name, mid, low, high, unit in rows_of(account):
        amount = f"<b>{escaped(mid)} <small>{escaped(unit)}</small></b>"
        yield f'<div class="card">{escaped(name)}{amount}{escaped(low)} to {escaped(high)}</div>'
    yield "</div>"


def _measured(account: Account) -> Iterator[str]:
    savings = account.savings
    yield "<h2>Measured</h2>"
    yield (
        f"<p>{savings.outcomes} outcomes of {savings.decisions} decisions, each measured against "
        "what would have happened without it. The ranges hold with 95&nbsp;% confidence.</p>"
    )
    if text := stop_cost_text(account):
        yield f"<p>{escaped(text)}.</p>"
    yield from table(SAVINGS_COLUMNS, rows_of(account))


def _kinds(account: Account) -> Iterator[str]:
    yield "<h2>By kind of decision</h2>"
    rows = list(kind_rows(account))
    yield from table(KIND_COLUMNS, rows) if rows else ("<p>None yet.</p>",)


def _projected(account: Account) -> Iterator[str]:
    yield "<h2>Projected, not measured</h2>"
    yield '<div class="note">'
    yield from (f"<p>{escaped(line.strip())}</p>" for line in projection_lines(account))
    yield "</div>"


def _assumed(account: Account) -> Iterator[str]:
    assumed = account.savings.assumptions
    yield "<h2>Assumed</h2>"
    rows = (
        ("price of a GPU-hour", f"{number(assumed.price_per_gpu_hour)} {assumed.currency}"),
        ("host power that a GPU keeps on", f"{number(assumed.host_watts_per_gpu)} W"),
        ("power usage effectiveness", number(assumed.power_usage_effectiveness)),
        ("carbon per kWh", f"{number(assumed.co2_kg_per_kwh)} kg"),
    )
    yield from table(("assumption", "value"), rows)
    yield '<p class="quiet">Set them under [savings] in the configuration.</p>'


def _decisions(account: Account) -> Iterator[str]:
    yield "<h2>Decisions</h2>"
    rows = [(state.value, str(count)) for state, count in account.states.items()]
    yield from table(("state", "decisions"), rows) if rows else ("<p>None yet.</p>",)


def _findings(account: Account) -> Iterator[str]:
    yield "<h2>Findings that matter most</h2>"
    rows = [
        (each.severity.value, each.place, each.title, moment(each.t_s)) for each in account.findings
    ]
    columns = ("severity", "subject", "finding", "noticed")
    yield from table(columns, rows) if rows else ("<p>None yet.</p>",)
