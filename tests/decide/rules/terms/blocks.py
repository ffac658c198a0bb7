"""Blocks and terms for tests, and the slow, obvious answer that the prefilter is compared with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steward.decide.rules.terms import Prefilter, compile_term
from steward.model.rules import LogBlock, Stream, Term


def block(*entries: bytes, between: Sequence[bytes] = (b"\n",)) -> LogBlock:
    """Put entries into one buffer, each after the next of `between`, by turns."""
    buffer, starts, ends = b"", [], []
    for number, entry in enumerate(entries):
        buffer += between[number % len(between)]
        starts.append(len(buffer))
        buffer += entry
        ends.append(len(buffer))
    buffer += between[0]
    count = np.arange(len(entries), dtype=np.int64)
    return LogBlock(
        stream=Stream(name="test"),
        buffer=buffer,
        start=np.array(starts, dtype=np.int64),
        end=np.array(ends, dtype=np.int64),
        t_ns=count,
        line=count + 1,
        joined=np.array([b"\n" in each for each in entries], dtype=bool),
        timed=np.ones(len(entries), dtype=bool),
    )


def value(text: str) -> Term:
    return Term(kind="value", text=text)


def regex(text: str) -> Term:
    return Term(kind="regex", text=text)


def jq(text: str) -> Term:
    return Term(kind="jq", text=text)


def one_by_one(terms: Sequence[Term], of: LogBlock) -> list[tuple[int, int]]:
    """Test each term on each entry."""
    tests = [compile_term(each) for each in terms]
    return [
        (entry, number)
        for entry in range(len(of))
        for number, test in enumerate(tests)
        if test(of.text(entry))
    ]


def found(prefilter: Prefilter, within: LogBlock, *, shared: bool = False) -> list[tuple[int, int]]:
    pairs = prefilter.find(within, shared=shared)
    return list(zip(pairs.entry.tolist(), pairs.term.tolist(), strict=True))
