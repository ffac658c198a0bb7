"""Rules and blocks in letters, for the engine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from decide.rules.reference import LetterRule, MatchedLine
from steward.model.rules import Clause, LogBlock, Negation, Rule, RuleNode, Stream, Term


def term(letter: str) -> Term:
    return Term(kind="value", text=f"<{letter}>")


def node_of(wanted: LetterRule, *, source: str = "letters") -> RuleNode:
    return RuleNode(
        kind="sequence" if wanted.ordered else "set",
        clauses=tuple(Clause(what=term(letter)) for letter in wanted.terms),
        negations=tuple(
            Negation(
                what=term(each.term),
                window_ns=each.window,
                slide_ns=each.slide,
                anchor=each.anchor,
                absolute=each.absolute,
            )
            for each in wanted.forbidden
        ),
        window_ns=wanted.window,
        source=source,
    )


def rule_of(root: RuleNode, name: str = "R-0001") -> Rule:
    return Rule(id=name, key=name, hash=name, root=root)


def block_of(
    lines: Sequence[MatchedLine | tuple[int, str]], stream: Stream | None = None, *, first: int = 0
) -> LogBlock:
    """Return a block of lines: in letters, or as they are with their time."""
    texts, times = [], []
    for line in lines:
        if isinstance(line, MatchedLine):
            texts.append(
                "".join(f"<{letter}>" for letter in sorted(line.contains)).encode() or b"x"
            )
            times.append(line.t)
        else:
            times.append(line[0])
            texts.append(line[1].encode())
    ends = np.cumsum([len(text) + 1 for text in texts], dtype=np.int64)
    count = len(texts)
    return LogBlock(
        stream=stream or Stream(name="a.log"),
        buffer=b"".join(text + b"\n" for text in texts),
        start=(ends - np.array([len(text) + 1 for text in texts], dtype=np.int64)).astype(np.int64),
        end=ends - 1,
        t_ns=np.array(times, dtype=np.int64),
        line=np.arange(first, first + count, dtype=np.int64),
        joined=np.zeros(count, dtype=bool),
        timed=np.ones(count, dtype=bool),
    )
