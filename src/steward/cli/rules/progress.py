"""Progress output while rules run, and findings as they come."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from steward.cli.output import clean, plain
from steward.cli.words import log_time

if TYPE_CHECKING:
    from steward.inspection.feeds import EngineInput
    from steward.inspection.runner import Listeners
    from steward.model.rules import Hit, Rule

__all__ = ["hit_line", "print_hits", "reading_progress"]

NS_PER_S = 1e9
_EVERY_S = 0.2
_MIB = 2**20


@contextmanager
def reading_progress() -> Iterator[Listeners]:
    """Show counts of bytes read and hits on stderr, if it is a terminal."""
    from steward.inspection.runner import Listeners

    if not sys.stderr.isatty():
        yield Listeners()
        return
    from rich.console import Console

    size = hits = 0
    shown_s = 0.0
    with Console(stderr=True).status(_start_message()) as status:

        def piece(piece: EngineInput) -> None:
            nonlocal size, shown_s
            size += getattr(piece, "read_bytes", 0)
            if time.monotonic() - shown_s > _EVERY_S:
                shown_s = time.monotonic()
                status.update(f"{size / _MIB:,.0f} MiB read, {hits:,} hits")

        def hit(_hit: Hit) -> None:
            nonlocal hits
            hits += 1

        yield Listeners(hit=hit, piece=piece)


def _start_message() -> str:
    from steward.compiled import is_compiled, is_plain

    if is_plain() or is_compiled("kernel"):
        return "reading"
    return "compiling once for this machine, about 15 s"


def print_hits(rules: Sequence[Rule], *, as_json: bool) -> Listeners:
    """Print each hit at once: a line of text, or a line of JSON."""
    from steward.inspection.runner import Listeners

    by_id = {rule.id: rule for rule in rules}

    def hit(hit: Hit) -> None:
        rule = by_id[hit.rule]
        typer.echo(_json_line(hit, rule) if as_json else hit_line(hit, rule))
        sys.stdout.flush()

    return Listeners(hit=hit)


def hit_line(hit: Hit, rule: Rule) -> str:
    """Return one hit as a line."""
    last = hit.items[-1] if hit.items else None
    where = f" [{last.stream}:{last.line}]" if last is not None and last.stream else ""
    entity = f" {hit.entity}" if hit.entity else ""
    text = last.text.splitlines()[0] if last is not None and last.text else ""
    words = f"{log_time(hit.t_ns / NS_PER_S)} {rule.severity.word} {rule.id}{entity} {rule.title}"
    return clean(f"{words}{where}: {text[:300]}")


def _json_line(hit: Hit, rule: Rule) -> str:
    from steward.inspection.report import node_of

    record = {
        "rule": rule.id,
        "severity": rule.severity.word,
        "title": rule.title,
        "t": hit.t_ns / NS_PER_S,
        "entity": hit.entity,
        "node": node_of(hit.entity, (each.text for each in hit.items)),
        "evidence": [
            {"t": each.t_ns / NS_PER_S, "text": each.text, "stream": each.stream, "line": each.line}
            for each in hit.items
        ],
    }
    return json.dumps(plain(record), ensure_ascii=False, allow_nan=False)
