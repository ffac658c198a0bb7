"""The report as one HTML file: nothing is loaded from anywhere, light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path

from steward.cli.output import clean
from steward.cli.views.chart import chart
from steward.cli.views.savings import SAVINGS_COLUMNS, SIMULATED, Account, rows_of
from steward.cli.words import moment, number
from steward.errors import StewardError
from steward.store.atomic import whole_file

__all__ = ["page", "write_page"]

STYLE = """
:root { color-scheme: light dark; --ink: #1a1d21; --quiet: #5b6570; --paper: #ffffff;
  --card: #f4f6f8; --rule: #d5dbe1; --line: #0b6e4f; --range: #0b6e4f33; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ebee; --quiet: #9aa5b1; --paper: #14171a;
  --card: #1e2327; --rule: #353c43; --line: #4cc79a; --range: #4cc79a33; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem 1rem 4rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p.simulated { border: 1px solid var(--rule); border-radius: .5rem; padding: .5rem 1rem; }
p.quiet { color: var(--quiet); } p { margin: .25rem 0; }
.cards { display: grid; gap: .75rem; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr));
  margin: 1.25rem 0; }
.card { background: var(--card); border-radius: .5rem; padding: .75rem 1rem; }
.card b { display: block; font-size: 1.6rem; line-height: 1.3; }
.card small { font-size: .9rem; font-weight: normal; white-space: nowrap; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .35rem .75rem .35rem 0; border-bottom: 1px solid var(--rule);
  vertical-align: top; }
svg { width: 100%; min-width: 32rem; height: auto; }
svg text { fill: var(--quiet); font: 12px system-ui, sans-serif; }
svg .grid { stroke: var(--rule); } svg .range { fill: var(--range); }
svg .line { fill: none; stroke: var(--line); stroke-width: 2; } svg circle { fill: var(--line); }
"""


def write_page(account: Account, file: Path) -> None:
    """Write the page; a file that was there stays whole until the new one is."""
    try:
        with whole_file(file) as out:
            out.write(page(account).encode())
    except OSError as fault:
        raise StewardError(
            f"the page cannot be written: {(fault.strerror or str(fault)).lower()}",
            where=str(file),
            hint="name a file in a folder that exists and that you may write to",
        ) from fault


def page(account: Account) -> str:
    """Return the whole page."""
    title = f"steward: {account.site}"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{_text(title)}</title><style>{STYLE}</style></head><body>",
            f"<h1>What steward saved at {_text(account.site)}</h1>",
            f'<p class="quiet">{_text(moment(account.made_s))}</p>',
            *([f'<p class="simulated">{_text(SIMULATED)}</p>'] if account.simulated else []),
            *_cards(account),
            "<h2>GPU-hours put to work, from the first outcome on</h2>",
            '<div class="scroll">',
            chart(account.curve, title="GPU-hours put to work over time, with their range"),
            "</div>",
            *_measured(account),
            *_assumed(account),
            *_decisions(account),
            *_findings(account),
            "</body></html>",
            "",
        ]
    )


def _text(value: object) -> str:
    return escape(clean(value))


def _cards(account: Account) -> Iterator[str]:
    yield '<div class="cards">'
    for name, mid, low, high, unit in rows_of(account):
        amount = f"<b>{_text(mid)} <small>{_text(unit)}</small></b>"
        yield f'<div class="card">{_text(name)}{amount}{_text(low)} to {_text(high)}</div>'
    yield "</div>"


def _measured(account: Account) -> Iterator[str]:
    savings = account.savings
    yield "<h2>Measured</h2>"
    yield (
        f"<p>{savings.outcomes} outcomes of {savings.decisions} decisions, each measured against "
        "what would have happened without it. The ranges hold with 95&nbsp;% confidence.</p>"
    )
    yield from _table(SAVINGS_COLUMNS, rows_of(account))


def _assumed(account: Account) -> Iterator[str]:
    assumed = account.savings.assumptions
    yield "<h2>Assumed</h2>"
    rows = (
        ("price of a GPU-hour", f"{number(assumed.price_per_gpu_hour)} {assumed.currency}"),
        ("host power that a GPU keeps on", f"{number(assumed.host_watts_per_gpu)} W"),
        ("power usage effectiveness", number(assumed.power_usage_effectiveness)),
        ("carbon per kWh", f"{number(assumed.co2_kg_per_kwh)} kg"),
    )
    yield from _table(("assumption", "value"), rows)
    yield '<p class="quiet">Set them under [savings] in the configuration.</p>'


def _decisions(account: Account) -> Iterator[str]:
    yield "<h2>Decisions</h2>"
    rows = [(state.value, str(count)) for state, count in account.states.items()]
    yield from _table(("state", "decisions"), rows) if rows else ("<p>None yet.</p>",)


def _findings(account: Account) -> Iterator[str]:
    yield "<h2>Findings that matter most</h2>"
    rows = [
        (each.severity.value, each.subject, each.title, moment(each.t_s))
        for each in account.findings
    ]
    columns = ("severity", "subject", "finding", "noticed")
    yield from _table(columns, rows) if rows else ("<p>None yet.</p>",)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield '<div class="scroll"><table><thead><tr>'
    yield "".join(f"<th>{_text(name)}</th>" for name in columns)
    yield "</tr></thead><tbody>"
    for row in rows:
        yield f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>"
    yield "</tbody></table></div>"
