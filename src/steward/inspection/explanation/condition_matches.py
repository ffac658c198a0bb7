"""Where each condition of a rule holds, and the entries that matter kept for trying again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import re2

from steward.decide.rules.engine import RuleEngine
from steward.decide.rules.metric import MetricWatch, compile_metric
from steward.decide.rules.terms import Prefilter, TermHits, compile_term
from steward.errors import StewardError
from steward.inspection.explanation.description import what_words
from steward.inspection.feeds import Feed, Piece, by_time
from steward.inspection.report import Proof, proof_of
from steward.model.rules import (
    Clause,
    Item,
    LogBlock,
    MetricTerm,
    Mode,
    Negation,
    Rule,
    RuleNode,
    SourceLocation,
    Term,
)

__all__ = ["ConditionMatches", "Kept", "look"]

_MOST_ENTRIES = 50_000  # that are kept for trying again
_PLACES = 1000  # of one condition
_TEXT = 400


@dataclass(slots=True, kw_only=True)
class ConditionMatches:
    """One condition of a rule, and where it holds."""

    label: str
    what: Term | MetricTerm
    source: str
    forbids: bool
    place: SourceLocation
    times: int = 0
    elsewhere: int = 0
    other_case: int = 0
    places: list[Proof] = field(default_factory=list)

    @property
    def words(self) -> str:
        """What it asks for."""
        return what_words(self.what)


@dataclass(slots=True, kw_only=True)
class Kept:
    """What was seen, and all pieces with only the entries that some condition holds for."""

    spots: list[ConditionMatches]
    pieces: list[Piece] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    notes: tuple[str, ...] = ()


def look(rule: Rule, feeds: Sequence[Feed], *, mode: Mode) -> Kept:
    """Read all feeds once."""
    spots = list(_spots(rule.root, "", forbids=False, outer=None))
    lines, series = _Lines(spots), _Series(spots)
    kept = Kept(spots=spots, names=[each.name for each in feeds])
    engine = RuleEngine([rule], mode=mode)  # knows which metrics are needed
    entries = 0
    for piece in by_time([(each.name, each.pieces(engine, mode)) for each in feeds]):
        if isinstance(piece, LogBlock):
            small = lines.take(piece, room=_MOST_ENTRIES - entries)
            entries += len(small)
            kept.pieces.append(small)
        elif not isinstance(piece, str):
            series.take(piece)
            kept.pieces.append(piece)
    series.finish()
    if entries >= _MOST_ENTRIES:
        kept.notes = (f"only the first {_MOST_ENTRIES:,} lines that matter were tried again",)
    return kept


def _spots(
    node: RuleNode, label: str, *, forbids: bool, outer: SourceLocation | None
) -> Iterator[ConditionMatches]:
    parts: list[tuple[str, Clause | Negation, bool]] = []
    parts += [(f"{label}{n}", each, forbids) for n, each in enumerate(node.clauses, start=1)]
    parts += [(f"{label}unless {n}", each, True) for n, each in enumerate(node.negations, start=1)]
    for name, each, denies in parts:
        # All within a negative condition belongs to that condition.
        place = outer or (each.place if denies else None)
        if isinstance(each.what, RuleNode):
            yield from _spots(each.what, f"{name}.", forbids=denies, outer=place)
        else:
            yield ConditionMatches(
                label=name,
                what=each.what,
                source=node.source,
                forbids=denies,
                place=place or each.place,
            )


class _Lines:
    """Finds terms in blocks, as written and in other capitals."""

    def __init__(self, spots: Sequence[ConditionMatches]) -> None:
        self._spots = [spot for spot in spots if isinstance(spot.what, Term)]
        own = dict.fromkeys(spot.what for spot in self._spots)
        self._folded = {term: _other_case(term) for term in own if isinstance(term, Term)}
        every = dict.fromkeys([*own, *filter(None, self._folded.values())])
        self._numbers = {term: number for number, term in enumerate(every)}
        self._own = np.array([number for number, _ in enumerate(own)], dtype=np.int64)
        self._prefilter = Prefilter([term for term in every if isinstance(term, Term)])

    def take(self, block: LogBlock, *, room: int) -> LogBlock:
        """Count what holds, and return the block with only those entries."""
        found = self._prefilter.find(block)
        for spot in self._spots:
            self._count(spot, block, found)
        mine = np.unique(found.entry[np.isin(found.term, self._own)])[: max(room, 0)]
        return LogBlock(
            stream=block.stream,
            buffer=block.buffer,
            start=block.start[mine],
            end=block.end[mine],
            t_ns=block.t_ns[mine],
            line=block.line[mine],
            joined=block.joined[mine],
            timed=block.timed[mine],
        )

    def _count(self, spot: ConditionMatches, block: LogBlock, found: TermHits) -> None:
        term = spot.what
        entries = found.entry[found.term == self._numbers[term]]
        if block.stream.source not in ("", spot.source) and spot.source:
            spot.elsewhere += len(entries)
            return
        spot.times += len(entries)
        folded = self._folded[term] if isinstance(term, Term) else None
        if folded is not None:
            spot.other_case += int((found.term == self._numbers[folded]).sum())
        for entry in entries[: _PLACES - len(spot.places)].tolist():
            spot.places.append(
                Proof(
                    t=int(block.t_ns[entry]) / 1e9,
                    text=block.text(entry)[:_TEXT].decode("utf-8", "replace"),
                    stream=block.stream.name,
                    line=int(block.line[entry]),
                )
            )


def _other_case(term: Term) -> Term | None:
    """Return the same term for which capitals do not matter."""
    if term.kind == "jq":
        return None
    text = re2.escape(term.text) if term.kind == "value" else term.text
    folded = Term(kind="regex", text=f"(?i){text}")
    try:
        compile_term(folded)
    except StewardError:
        return None
    return folded if folded != term else None


class _Series:
    """Finds when conditions on series hold."""

    def __init__(self, spots: Sequence[ConditionMatches]) -> None:
        self._watches: list[tuple[ConditionMatches, MetricWatch]] = [
            (spot, compile_metric(spot.what)) for spot in spots if isinstance(spot.what, MetricTerm)
        ]

    def take(self, piece: Piece) -> None:
        if isinstance(piece, tuple | int | LogBlock):
            return
        for spot, watch in self._watches:
            self._note(spot, watch.add(piece))

    def finish(self) -> None:
        for spot, watch in self._watches:
            self._note(spot, watch.finish())

    def _note(self, spot: ConditionMatches, items: Sequence[Item]) -> None:
        spot.times += len(items)
        spot.places += [proof_of(item) for item in items[: _PLACES - len(spot.places)]]
