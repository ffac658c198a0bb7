"""What runs were: from a table of labels, from marks beside telemetry, or from their names."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from steward.errors import StewardError
from steward.learn.patterns.inputs import Input
from steward.learn.patterns.store_windows import NodeRun

__all__ = ["label_notes", "labels_by_name", "labels_of", "read_labels"]

# Reveal's `train_ResNet50forImageClassification_cifar10_2025-...`: how it was run.
_REVEAL = re.compile(r"(?:^|/)(?P<label>train|infer|data|finetune)_[^/]*for[^/]*_[^/]*$")
_MARKS = ("kind", "workload")
_MANY = 200  # different labels; more are hardly kinds
_COLUMNS = ("label", "kind", "workload", "class", "outcome")


def labels_of(inputs: Sequence[Input], runs: Mapping[str, Sequence[NodeRun]]) -> dict[str, str]:
    """Return labels that lie beside the telemetry: marks of runs, spans, Reveal's file names."""
    found: dict[str, str] = {}
    for path in dict.fromkeys(each.path for each in inputs if each.hour < 0):
        for marks in _companions(path):
            found |= _marked(marks)
    for spans in runs.values():
        found |= {run.name: run.label for run in spans if run.label}
    for each in inputs:
        if (match := _REVEAL.search(each.run)) and each.run not in found:
            found[each.run] = match["label"]
    return found


def labels_by_name(expression: str, runs: Iterable[str]) -> dict[str, str]:
    """Return what an expression finds in the names of runs: its first group, or all of it."""
    try:
        pattern = re.compile(expression)
    except re.error as fault:
        hint = "for example '^(train|infer)_'"
        raise StewardError(f"is no expression: {fault}", where="--label", hint=hint) from fault
    matches = {run: pattern.search(run) for run in runs}
    return {
        run: (match[1] if pattern.groups else match[0]) or ""
        for run, match in matches.items()
        if match
    }


def read_labels(path: Path) -> dict[str, str]:
    """Read a CSV with a column `run` and one of labels, or a file of marks (.jsonl)."""
    if path.suffix == ".jsonl":
        return _marked(path)
    with path.open(encoding="utf-8", errors="replace", newline="") as stream:
        rows = csv.DictReader(stream)
        names = [name.strip() for name in rows.fieldnames or ()]
        rows.fieldnames = names
        column = next((name for name in _COLUMNS if name in names), None)
        if "run" not in names or column is None:
            raise StewardError(
                f"has the columns {', '.join(names)[:200]}",
                where=str(path),
                hint=f"it needs `run` and one of {', '.join(_COLUMNS)}",
            )
        return {row["run"]: row[column] or "" for row in rows if row["run"]}


def label_notes(labels: Sequence[str]) -> list[str]:
    """Return what is doubtful about the labels of runs."""
    counts = Counter(label for label in labels if label)
    notes = []
    if labels and len(counts) == 1:
        notes.append(f"all labelled runs are '{next(iter(counts))[:80]}': nothing to contrast")
    if len(counts) > _MANY:
        notes.append(
            f"{len(counts):,} different labels for {len(labels):,} runs: these are hardly kinds"
        )
    missing = sum(1 for label in labels if not label)
    if labels and missing:
        notes.append(f"{missing:,} of {len(labels):,} runs have no label")
    return notes


def _companions(path: str) -> list[Path]:
    if "://" in path:
        return []
    place = Path(path)
    stem = place.name.partition(".")[0]
    names = dict.fromkeys([stem.replace("telemetry", "events") + ".jsonl", "events.jsonl"])
    found = [place.with_name(name) for name in names]
    return [each for each in found if each.is_file()][:1]


def _marked(path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    with path.open(encoding="utf-8", errors="replace") as stream:
        for line in stream:
            try:
                mark = json.loads(line)
                run = str(mark["run"])
                label = next((str(mark[key]) for key in _MARKS if mark.get(key)), "")
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue
            if label and label not in found.get(run, "").split("+"):
                found[run] = f"{found[run]}+{label}" if run in found else label
    return found
