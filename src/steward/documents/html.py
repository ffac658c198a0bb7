"""The page of a report, its style and its tables. All text is escaped by `escaped`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path

from steward.errors import StewardError
from steward.store.atomic import whole_file

__all__ = ["document", "escaped", "table", "write_document"]

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Nothing may be loaded or run, whatever a log or a trace has put into a page.
_ALLOWED = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
:root { color-scheme: light dark; --ink: #1a1d21; --quiet: #5b6570; --paper: #ffffff;
  --card: #f4f6f8; --rule: #d5dbe1; --line: #0b6e4f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ebee; --quiet: #9aa5b1; --paper: #14171a;
  --card: #1e2327; --rule: #353c43; --line: #4cc79a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 64rem; padding: 1.5rem 1rem 4rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p, ul { margin: .25rem 0; overflow-wrap: anywhere; } .quiet { color: var(--quiet); }
.note { background: var(--card); border-radius: .5rem; padding: .6rem 1rem; margin: .75rem 0; }
.cards { display: grid; gap: .75rem; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr));
  margin: 1.25rem 0; }
.card { background: var(--card); border-radius: .5rem; padding: .6rem 1rem; }
.card b { display: block; font-size: 1.5rem; line-height: 1.3; }
.scroll { overflow-x: auto; } a { color: inherit; }
table { border-collapse: collapse; width: 100%; font-size: .93rem; }
th, td { text-align: left; padding: .35rem .75rem .35rem 0; border-bottom: 1px solid var(--rule);
  vertical-align: top; }
code { background: var(--card); border-radius: .25rem; padding: .1rem .3rem;
  overflow-wrap: anywhere; }
svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--quiet); font: 12px system-ui, sans-serif; }
svg .grid { stroke: var(--rule); } svg .line { fill: none; stroke: var(--line); stroke-width: 2; }
"""


def escaped(value: object) -> str:
    """Return text that is safe in HTML and SVG; control characters are replaced."""
    return escape(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(value)))


def document(title: str, parts: Iterable[str], *, style: str = "") -> str:
    """Return a whole page; `style` goes on from the shared one."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{_ALLOWED}">',
            f"<title>{escaped(title)}</title>",
            f"<style>{_STYLE}{style}</style></head><body><main>",
            *parts,
            "</main></body></html>",
            "",
        ]
    )


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Return a table of texts that scrolls by itself where it is too wide."""
    yield '<div class="scroll"><table class="texts"><thead><tr>'
    yield "".join(f'<th scope="col">{escaped(name)}</th>' for name in columns)
    yield "</tr></thead><tbody>"
    for row in rows:
        yield f"<tr>{''.join(f'<td>{escaped(cell)}</td>' for cell in row)}</tr>"
    yield "</tbody></table></div>"


def write_document(text: str, file: Path) -> None:
    """Write a page; a file that was there stays whole until the new one is."""
    try:
        with whole_file(file) as out:
            out.write(text.encode())
    except OSError as fault:
        raise StewardError(
            f"the report cannot be written: {(fault.strerror or str(fault)).lower()}",
            where=str(file),
            hint="name a file in a folder that exists and that you may write to",
        ) from fault
