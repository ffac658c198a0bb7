"""Index of known series: their entities and labels, and which of them a selector selects."""

from __future__ import annotations

import re

import numpy as np
import re2
from numpy.typing import NDArray

from steward.decide.rules.promql.expression import LabelMatcher, Selector
from steward.decide.rules.promql.label_index import LabelColumn, LabelIndex, Labels
from steward.decide.rules.promql.lexer import fault
from steward.decide.rules.promql.metric_columns import PHASE, SAME, MetricColumn
from steward.errors import StewardError
from steward.model.label import entity_of, labels_of

__all__ = ["SelectedSeries", "SeriesIndex", "entity_named", "labels_of_key"]

Bools = NDArray[np.bool_]
Longs = NDArray[np.int64]
Key = tuple[str, str]  # an entity, and the job that held it
_REST = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')
_MOST_PATTERN_BYTES = 8 * 2**20
_MOST_COLUMNS = 100  # label columns of the last frame that are kept for other selectors


def labels_of_key(key: Key) -> Labels:
    """Return the labels of an entity that a job may hold.

    >>> labels_of_key(("n01/gpu3", "812"))
    (('gpu', '3'), ('job_id', '812'), ('node', 'n01'))
    """
    entity, job = key
    path, brace, rest = entity.partition("{")
    labels = labels_of(path)
    if brace:
        labels |= {name: _plain(text) for name, text in _REST.findall(rest)}
    if job:
        labels["job_id"] = job
    return tuple(sorted(labels.items()))


def _plain(text: str) -> str:
    return text.replace(r"\n", "\n").replace(r"\"", '"').replace("\\\\", "\\")


def entity_named(labels: Labels) -> str:
    """Return the entity of labels; a GPU that a job holds is still the GPU."""
    known = dict(labels)
    return entity_of(known, of_job="gpu" not in known)


class SeriesIndex:
    """Series by key, numbered from 0; the same key always has the same number."""

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.labels: list[Labels] = []
        self.entities: dict[Labels, str] = {}  # the first entity that has these labels
        self.label_index = LabelIndex()
        self._number: dict[Key, int] = {}
        self._ids: list[int] = []  # of the labels
        self._all = self.label_index.names(())
        self._some: dict[bytes, LabelColumn] = {}  # parts of `_all`, by their rows

    def __len__(self) -> int:
        return len(self.keys)

    def number(self, key: Key) -> int:
        """Return the number of a series; a new one gets the next."""
        found = self._number.get(key)
        if found is None:
            found = self._number[key] = len(self.keys)
            self.keys.append(key)
            self._ids.append(self.label_index.number(labels_of_key(key)))
            self.labels.append(self.label_index.labels[self._ids[-1]])
            self.entities.setdefault(self.labels[-1], key[0])
        return found

    def use(self, label_index: LabelIndex) -> None:
        """Use the label index that the other terms share."""
        self.label_index = label_index
        self._ids = [label_index.number(labels) for labels in self.labels]
        self._forget_columns()

    def names(self, rows: Longs) -> LabelColumn:
        """Return the labels of series."""
        if len(self._all) < len(self.keys):
            self._all = LabelColumn(self.label_index, np.array(self._ids, np.int64))
            self._some.clear()
        key = rows.tobytes()
        if key not in self._some:  # GPUs have many metrics, and all of them the same labels
            if len(self._some) > _MOST_COLUMNS:
                self._some.clear()
            self._some[key] = self._all.only(rows)
        return self._some[key]

    def only(self, kept: Bools) -> None:
        """Forget all others and number the rest anew."""
        rows = np.flatnonzero(kept).tolist()
        self.keys = [self.keys[row] for row in rows]
        self.labels = [self.labels[row] for row in rows]
        self._ids = [self._ids[row] for row in rows]
        self._number = {key: row for row, key in enumerate(self.keys)}
        self.entities = {
            labels: key[0]
            for labels, key in zip(reversed(self.labels), reversed(self.keys), strict=True)
        }
        self._forget_columns()

    def _forget_columns(self) -> None:
        self._all = self.label_index.names(())
        self._some.clear()


class SelectedSeries:
    """Series that a selector selects; each is tested once."""

    def __init__(self, selector: Selector, column: MetricColumn, expr: str) -> None:
        self._tests = [
            (SAME.get(each.label, each.label), each, _pattern(each, expr))
            for each in selector.matchers
            if each.label not in column.ignores
        ]
        self._phase = [test for test in self._tests if test[0] == "phase" and column.name == PHASE]
        for test in self._phase:
            self._tests.remove(test)
        self._found = np.zeros(0, bool)

    def mask(self, known: SeriesIndex) -> Bools:
        """Return for each series whether it is selected."""
        seen = len(self._found)
        if seen < len(known):
            fresh = [self._selects(known, row) for row in range(seen, len(known))]
            self._found = np.append(self._found, np.array(fresh, bool))
        return self._found

    def phase(self, name: str) -> bool:
        """Return whether a phase of this name is selected."""
        return all(_holds(matcher, pattern, name) for _, matcher, pattern in self._phase)

    def only(self, kept: Bools) -> None:
        """Drop all other series; untested ones have no entry."""
        self._found = self._found[kept[: len(self._found)]]

    def _selects(self, known: SeriesIndex, row: int) -> bool:
        if not self._tests:
            return True
        labels = dict(known.labels[row])
        labels["entity"] = known.keys[row][0]
        return all(
            _holds(matcher, pattern, labels.get(label, ""))
            for label, matcher, pattern in self._tests
        )


Pattern = object  # re2 has no types


def _pattern(matcher: LabelMatcher, expr: str) -> Pattern:
    if matcher.op in ("=", "!="):
        return None
    options = re2.Options()
    options.max_mem = _MOST_PATTERN_BYTES
    options.log_errors = False
    try:
        return re2.compile(matcher.text, options)
    except re2.error as wrong:
        said = wrong.args[0] if wrong.args else wrong
        said = said.decode(errors="replace") if isinstance(said, bytes) else said
        problem = f"'{matcher.text[:60]}' is no pattern (RE2: {said})"
        raise _unreadable(problem, expr, matcher) from wrong


def _unreadable(problem: str, expr: str, matcher: LabelMatcher) -> StewardError:
    return fault(problem, expr, matcher.at, hint="patterns have no look-around or back-references")


def _holds(matcher: LabelMatcher, pattern: Pattern, text: str) -> bool:
    if pattern is None:
        return (text == matcher.text) == (matcher.op == "=")
    found = pattern.fullmatch(text) is not None  # type: ignore[attr-defined]
    return found == (matcher.op == "=~")
