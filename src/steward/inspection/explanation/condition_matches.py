"""Scan of feeds for the conditions of a rule; matching entries are kept for trials."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import re2

from steward.decide.rules.engine import RuleEngine
from steward.decide.rules.metric import MetricWatch, compile_metric
from steward.decide.rules.terms import Prefilter, TermHits, compile_term
from steward.errors import StewardError
from steward.inspection.explanation.description import describe_condition
from steward.inspection.feeds import Feed, Piece, merge_by_time
from steward.inspection.report import EvidenceItem, evidence_item
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

__all__ = ["ConditionMatches", "ConditionScan", "scan_conditions"]

_MOST_ENTRIES = 50_000  # kept for trials
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
    places: list[EvidenceItem] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The condition as part of a sentence."""
        return describe_condition(self.what)


@dataclass(slots=True, kw_only=True)
class ConditionScan:
    """Matches of all conditions, and all pieces with only the matching entries."""

    conditions: list[ConditionMatches]
    pieces: list[Piece] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    notes: tuple[str, ...] = ()


def scan_conditions(rule: Rule, feeds: Sequence[Feed], *, mode: Mode) -> ConditionScan:
    """Read all feeds once and record where each condition holds."""
    conditions = list(_conditions(rule.root, "", forbids=False, outer=None))
    lines, series = _Lines(conditions), _Series(conditions)
    scan = ConditionScan(conditions=conditions, names=[each.name for each in feeds])
    engine = RuleEngine([rule], mode=mode)  # knows which metrics are needed
    entries = 0
    for piece in merge_by_time([(each.name, each.pieces(engine, mode)) for each in feeds]):
        if isinstance(piece, LogBlock):
            small = lines.add(piece, room=_MOST_ENTRIES - entries)
            entries += len(small)
            scan.pieces.append(small)
        elif not isinstance(piece, str):
            series.add(piece)
            scan.pieces.append(piece)
    series.finish()
    if entries >= _MOST_ENTRIES:
        scan.notes = (f"only the first {_MOST_ENTRIES:,} lines that matter were tried again",)
    return scan


def _conditions(
    node: RuleNode, label: str, *, forbids: bool, outer: SourceLocation | None
) -> Iterator[ConditionMatches]:
    parts: list[tuple[str, Clause | Negation, bool]] = []
    parts += [(f"{label}{n}", each, forbids) for n, each in enumerate(node.clauses, start=1)]
    parts += [(f"{label}unless {n}", each, True) for n, each in enumerate(node.negations, start=1)]
    for name, each, denies in parts:
        # All within a negative condition belongs to that condition.
        place = outer or (each.place if denies else None)
        if isinstance(each.what, RuleNode):
            yield from _conditions(each.what, f"{name}.", forbids=denies, outer=place)
        else:
            yield ConditionMatches(
                label=name,
                what=each.what,
                source=node.source,
                forbids=denies,
                place=place or each.place,
            )


class _Lines:
    """Find terms in blocks, as written and ignoring case."""

    def __init__(self, conditions: Sequence[ConditionMatches]) -> None:
        self._conditions = [
            condition for condition in conditions if isinstance(condition.what, Term)
        ]
        own = dict.fromkeys(condition.what for condition in self._conditions)
        self._folded = {term: _other_case(term) for term in own if isinstance(term, Term)}
        every = dict.fromkeys([*own, *filter(None, self._folded.values())])
        self._numbers = {term: number for number, term in enumerate(every)}
        self._own = np.array([number for number, _ in enumerate(own)], dtype=np.int64)
        self._prefilter = Prefilter([term for term in every if isinstance(term, Term)])

    def add(self, block: LogBlock, *, room: int) -> LogBlock:
        """Count matches, and return the block with only the matching entries."""
        found = self._prefilter.find(block)
        for condition in self._conditions:
            self._count(condition, block, found)
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

    def _count(self, condition: ConditionMatches, block: LogBlock, found: TermHits) -> None:
        term = condition.what
        entries = found.entry[found.term == self._numbers[term]]
        if block.stream.source not in ("", condition.source) and condition.source:
            condition.elsewhere += len(entries)
            return
        condition.times += len(entries)
        folded = self._folded[term] if isinstance(term, Term) else None
        if folded is not None:
            condition.other_case += int((found.term == self._numbers[folded]).sum())
        for entry in entries[: _PLACES - len(condition.places)].tolist():
            condition.places.append(
                EvidenceItem(
                    t=int(block.t_ns[entry]) / 1e9,
                    text=block.text(entry)[:_TEXT].decode("utf-8", "replace"),
                    stream=block.stream.name,
                    line=int(block.line[entry]),
                )
            )


def _other_case(term: Term) -> Term | None:
    """Return the term without regard to case."""
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
    """Find when conditions on series hold."""

    def __init__(self, conditions: Sequence[ConditionMatches]) -> None:
        self._watches: list[tuple[ConditionMatches, MetricWatch]] = [
            (condition, compile_metric(condition.what))
            for condition in conditions
            if isinstance(condition.what, MetricTerm)
        ]

    def add(self, piece: Piece) -> None:
        if isinstance(piece, tuple | int | LogBlock):
            return
        for condition, watch in self._watches:
            self._note(condition, watch.add(piece))

    def finish(self) -> None:
        for condition, watch in self._watches:
            self._note(condition, watch.finish())

    def _note(self, condition: ConditionMatches, items: Sequence[Item]) -> None:
        condition.times += len(items)
        condition.places += [
            evidence_item(item) for item in items[: _PLACES - len(condition.places)]
        ]
