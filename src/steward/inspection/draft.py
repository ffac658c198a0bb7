"""Draft of a rule: a folder that passes its own test, with comments on what to change."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from steward.errors import StewardError
from steward.inspection.example_tests import run_examples
from steward.inspection.folders import rule_folders
from steward.model.rules import Mode
from steward.observe.logs.sources import pieces

__all__ = ["ExampleLog", "RuleDraft", "draft"]

_AROUND = 20  # lines of the log that are kept on each side
_LONGEST = 2000  # bytes of a line from which a pattern is made
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OPEN = re.compile(  # parts that vary between occurrences
    rb"\[\d[^\]]*\]|\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*|\b\d\d:\d\d:\d\d\S*"
    rb"|\b0x[0-9a-fA-F]+\b|\b[0-9a-fA-F]{8,}\b|\d+|/[\w./-]+|'[^']*'|\"[^\"]*\""
)
_PART = re.compile(rb"[A-Za-z][A-Za-z _:()=,;-]{5,}")  # a stretch of fixed words
_MOST_PARTS = 3
_EXAMPLE = """\
2026-03-02 10:00:00 INFO trainer step 100 loss 2.31
2026-03-02 10:00:04 ERROR trainer cannot write checkpoint: disk quota exceeded
2026-03-02 10:00:04 INFO trainer going on without it
"""
_EXAMPLE_SILENT = """\
2026-03-02 10:00:00 INFO trainer step 100 loss 2.31
2026-03-02 10:00:04 INFO trainer checkpoint written, disk quota 71 % used
2026-03-02 10:00:09 INFO trainer step 101 loss 2.30
"""
_EXAMPLE_PATTERN = "cannot write checkpoint: disk quota exceeded"
_RULE = """\
# A rule. `steward rules test {folder}` runs it over test.log, on which it must fire, and over
# test-fp.log, on which it must stay silent. docs/rules/language.md explains every field.
rules:
  - cre:
      id: {id}
      severity: 2            # 0 work is being lost, 1 it will be, 2 slower or worn, 3 look, 4 hint
      title: {title}
      category: my-problems
      author: ''
      tags: []
      description: |
        What is going on, in a sentence or two.
      cause: |
        - Why it happens, most likely first.
      impact: |
        What it costs, if nobody does anything.
      mitigation: |
        - What to do, with commands that can be pasted.
      references: []
    rule:
      set:                   # `sequence` asks for an order, and has `order` instead of `match`
        event:
          source: {source}
        # window: 10m        # needed with two or more things to match
        match:
          - regex: {pattern}
        #  - value: 'a second thing, as plain text'
        #    count: 3        # so many times
        # negate:            # unless this happens, too
        #  - value: 'went on by itself'
        #    window: 2m
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleLog:
    """A log line that the rule should match; without a log, a built-in example."""

    log: Path | None = None
    line: int | None = None

    def __post_init__(self) -> None:
        if (self.log is None) is not (self.line is None):
            hint = "--from-log FILE --line N: `grep -n` shows the number of a line"
            raise StewardError("a log and a line of it belong together", hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleDraft:
    """The folder of a new rule."""

    folder: str
    rule: str
    files: tuple[str, ...]


def draft(folder: Path, sample: ExampleLog, *, rule_id: str | None) -> RuleDraft:
    """Create the folder of a rule; it is tested before it is moved into place."""
    if not _NAME.fullmatch(folder.name):
        problem = f"'{folder.name}' is no name for a rule"
        raise StewardError(problem, hint="use letters, digits and dashes")
    if folder.exists():
        raise StewardError("it is there already", where=str(folder), hint="choose another name")
    firing, silent, pattern = _examples(sample)
    name = rule_id or f"MY-{re.sub(r'[^A-Za-z0-9]+', '-', folder.name).upper()}"
    text = _RULE.format(
        folder=folder,
        id=name,
        title=_quoted(folder.name.replace("-", " ").replace("_", " ")),
        source="cre.log.training",
        pattern=_quoted(pattern),
    )
    files = {"rule.yaml": text.encode(), "test.log": firing, "test-fp.log": silent}
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="steward-rule-") as place:
        made = Path(place, folder.name)
        made.mkdir()
        for file, data in files.items():
            (made / file).write_bytes(data)
        _must_pass(made, folder)
        shutil.copytree(made, folder)
    return RuleDraft(folder=str(folder), rule=name, files=tuple(files))


def _quoted(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


def _must_pass(made: Path, folder: Path) -> None:
    report = run_examples(rule_folders(made, lenient=False), mode=Mode.STRICT, proof_needed=True)
    if not report.passed:
        why = "; ".join(each.why for each in report.failed)
        hint = "take a line with more fixed words, or one without lines like it around"
        raise StewardError(f"no rule can be made of this: {why}", where=str(folder), hint=hint)


def _examples(sample: ExampleLog) -> tuple[bytes, bytes, str]:
    """Return lines that must fire, lines that must not, and the pattern between them."""
    if sample.log is None or sample.line is None:
        return _EXAMPLE.encode(), _EXAMPLE_SILENT.encode(), _EXAMPLE_PATTERN
    lines, at = _around(sample.log, sample.line)
    pattern = _pattern(lines[at])
    test = re.compile(pattern.encode())
    silent = [line for line in lines if not test.search(line)]
    if not silent:  # no other lines: a line without the literals
        silent = [re.sub(rb"[A-Za-z]", b"x", lines[at])]
    return b"\n".join(lines) + b"\n", b"\n".join(silent) + b"\n", pattern


def _around(log: Path, number: int) -> tuple[list[bytes], int]:
    """Return the line with its neighbours, and its index among them; reads compressed logs."""
    lines: list[bytes] = []
    last, found = 0, -1
    for line in _lines(log):
        last += 1
        if last == number:
            found = len(lines)
        if last >= number - _AROUND:
            lines.append(line[:_LONGEST])
        if last >= number + _AROUND:
            break
    if found < 0:
        problem = f"there is no line {number}: it has {last}"
        raise StewardError(problem, where=str(log), hint="`grep -n` shows the number of a line")
    return lines, found


def _lines(log: Path) -> Iterator[bytes]:
    begun = b""
    for piece in pieces(log, []):
        *whole, begun = (begun + piece).split(b"\n")
        yield from (line.rstrip(b"\r") for line in whole)
        begun = begun[: 100 * _LONGEST]  # the beginning of an endless line is enough
    if begun:
        yield begun


def _pattern(line: bytes) -> str:
    """Return the longest stretches of fixed words, in their order, with anything between."""
    fixed = [part for piece in _OPEN.split(line) for part in _PART.findall(piece)]
    words = [part.strip() for part in fixed if len(part.strip()) >= 5]
    best = sorted(words, key=len, reverse=True)[:_MOST_PARTS]
    kept = [word for word in words if word in best][:_MOST_PARTS]
    if not kept:
        problem = "this line has no words that could be looked for"
        raise StewardError(problem, hint="choose a line that says something")
    return ".*".join(re.escape(word.decode()).replace("\\ ", " ") for word in kept)
