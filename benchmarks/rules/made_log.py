"""A log as long as one likes, of real lines: most that no rule wants, with a few that some do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rules.made_rules import corpus
from steward.decide.rules.terms import compile_term
from steward.model.rules import Term

__all__ = ["write_log"]

_WANTED_SHARE = 0.001  # of lines
_STAMP = re.compile(
    rb"^[\[{(]?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d[.,\d]*(?:Z|[+-]\d\d:?\d\d)?\]?\s*"
)
_LONGEST = 2000
_START_NS = 1_767_600_000 * 10**9
_STEP_NS = 2_000_000


def write_log(path: Path, size_bytes: int, terms: Sequence[Term]) -> dict[str, float]:
    """Write lines with times, two milliseconds apart, until the file is as large as asked for."""
    quiet, wanted = _lines(terms)
    dice = np.random.default_rng(5)
    # By their share of bytes, as one meets them: a line twice as long is drawn twice as often.
    lengths = np.array([len(line) for line in quiet], dtype=float)
    count = written = hits = 0
    with path.open("wb") as file:
        while written < size_bytes:
            drawn = dice.choice(len(quiet), size=20_000, p=lengths / lengths.sum()).tolist()
            special = dice.random(20_000) < _WANTED_SHARE
            which = dice.integers(len(wanted), size=20_000).tolist()
            times = _times(count, 20_000)
            lines = [
                time + (wanted[which[at]] if special[at] else quiet[one])
                for at, (one, time) in enumerate(zip(drawn, times, strict=True))
            ]
            written += file.write(b"".join(lines))
            count += len(lines)
            hits += int(special.sum())
    return {"bytes": written, "lines": count, "line_bytes": written / count, "wanted_lines": hits}


def _lines(terms: Sequence[Term]) -> tuple[list[bytes], list[bytes]]:
    """Return the corpus' lines that no term holds for, and one line per log that some does."""
    tests = [compile_term(each) for each in dict.fromkeys(terms)]
    quiet: list[bytes] = []
    wanted: list[bytes] = []
    for log in sorted(corpus.glob("*/test.log")):
        lines = [_STAMP.sub(b"", line)[:_LONGEST] for line in log.read_bytes().splitlines()]
        hit = [any(test(line) for test in tests) for line in lines]
        quiet += [line + b"\n" for line, held in zip(lines, hit, strict=True) if line and not held]
        wanted += [line + b"\n" for line, held in zip(lines, hit, strict=True) if held][:1]
    return quiet, wanted


def _times(first: int, count: int) -> list[bytes]:
    at_ns = _START_NS + _STEP_NS * np.arange(first, first + count)
    text = np.datetime_as_string(at_ns.astype("datetime64[ns]"), unit="ms")
    return [each.replace("T", " ").encode() + b" " for each in text.tolist()]
