"""How many tokens answers have, by group of requests, learnt while most of them still run.

Groups are nested: all requests, those of a model and class, of a tenant among these, of a prompt
length among those. For each, a histogram of hazards: of the answers that got as far as this many
tokens, which share ended there. Answers that still run count as those that got that far, or the
short ones, which end first, would make all look short. A group with few answers takes after the
wider one, hazard by hazard.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit

__all__ = ["LengthTables", "OutputLengths", "count_running", "remaining"]

Array = NDArray[Any]
Group = tuple[str | int, ...]
BINS = 144
_PER_OCTAVE = 8
_PRIOR_TOKENS = 256.0  # of an answer, before anything is known
_STRENGTH = 8.0  # answers of its own that a group needs to outweigh the wider one
_KEPT = ("parent", "ended", "tokens", "passed", "total", "last")  # the rest follows from these
_RARE = 20  # a group fades by no more than so many answers of others with each of its own
_GROUPS_DIFFER = 0.3  # by so much, as a share, means of one are off from those of the wider one
_DEPTH = 3  # of the narrowest groups, which are evicted when the table is full


class LengthTables(NamedTuple):
    """Columns by group and bin; compiled code reads them."""

    parent: Array  # [group]
    ended: Array  # [group, bin] answers, fading
    tokens: Array  # [group, bin] theirs
    passed: Array  # [group, bin] answers that got further, whether they have ended or not
    hazard: Array  # [group, bin] as of `made_at`
    middle: Array  # [group, bin] mean tokens of answers that end in the bin
    survival: Array  # [group, bin + 1] share of answers that reach a bin
    ahead: Array  # [group, bin + 1] sum of tokens of those that end in or beyond it
    squares: Array  # [group, bin + 1] sum of their squares
    total: Array  # [group] answers that ended, fading
    last: Array  # [group] how many had ended in all when its last one did
    made_at: Array  # [group]
    version: Array  # [1]


class OutputLengths:
    """Keep the tables of at most `groups` groups; the least recently used of the narrowest go."""

    def __init__(self, *, groups: int = 2048, memory: float = 800.0) -> None:
        assert groups > 2 * _DEPTH, groups  # noqa: S101
        self._memory = memory
        self._rows: OrderedDict[Group, int] = OrderedDict({(): 0})
        self._wide: dict[Group, int] = {(): 0}  # groups that have narrower ones: never evicted
        self._free = list(range(groups - 1, 0, -1))
        self.tables = _empty(groups)
        self.finished = 0

    def group(self, model: str, deadline_class: str, tenant: str, prompt_tokens: int) -> int:
        """Return the row of the narrowest group of such requests; make it if there is room."""
        length = int(prompt_tokens).bit_length()
        key: Group = (model, deadline_class, tenant, length)
        row = self._rows.get(key)
        if row is not None:
            self._rows.move_to_end(key)
            return row
        parent = 0
        for depth in (2, _DEPTH):
            wide = key[:depth]
            known = self._wide.get(wide)
            if known is None:
                if len(self._wide) * 2 > len(self.tables.parent):
                    return parent
                known = self._wide[wide] = self._new(parent)
            parent = known
        row = self._rows[key] = self._new(parent)
        return row

    def add(self, group: int, tokens: int, counted: int) -> None:
        """Take in one answer that ended; `count_running` counted it up to a bin before."""
        self.finished += 1
        _add(self.tables, group, (tokens, counted), self.finished, self._memory)

    def begin_version(self) -> None:
        """Let groups be made again when they are read."""
        self.tables.version[0] += 1

    def quantile(self, group: int, share: float) -> float:
        """Return what this share of answers of a group is not longer than."""
        ensure(self.tables, group)
        reach = self.tables.survival[group]
        place = int(np.argmax(reach[1:] <= 1.0 - share)) if reach[-1] <= 1.0 - share else BINS - 1
        return float(self.tables.middle[group, place])

    def save(self) -> dict[str, Any]:
        """Return the state as JSON values and arrays."""
        return {
            "rows": [[list(key), row] for key, row in self._rows.items()],
            "wide": [[list(key), row] for key, row in self._wide.items()],
            **{name: getattr(self.tables, name).copy() for name in _KEPT},
            "finished": self.finished,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state; raise ValueError if it was of other tables."""
        columns = {name: np.asarray(state[name]) for name in _KEPT}
        if any(each.shape != getattr(self.tables, name).shape for name, each in columns.items()):
            raise ValueError("it was learned with other options")
        rows = OrderedDict((tuple(key), int(row)) for key, row in state["rows"])
        wide = {tuple(key): int(row) for key, row in state["wide"]}
        if wide.get(()) != 0:
            raise ValueError("there is no group of all requests")
        for name, each in columns.items():
            getattr(self.tables, name)[...] = each
        self._rows, self._wide = rows, wide
        used = {*rows.values(), *wide.values()}
        self._free = sorted(set(range(len(self.tables.parent))) - used, reverse=True)
        self.finished = int(state["finished"])
        self.tables.made_at[:] = -1

    def _new(self, parent: int) -> int:
        if self._free:
            row = self._free.pop()
        else:
            key = next(each for each in self._rows if each)
            row = self._rows.pop(key)
        tables = self.tables
        tables.parent[row] = parent
        for each in (tables.ended, tables.tokens, tables.passed):
            each[row] = 0.0
        tables.made_at[row] = -1
        tables.total[row] = 0.0
        tables.last[row] = self.finished
        return row


def _empty(groups: int) -> LengthTables:
    wide = {name: np.zeros((groups, BINS)) for name in ("ended", "tokens", "passed")}
    return LengthTables(
        parent=np.full(groups, -1, np.int64),
        **wide,
        hazard=np.zeros((groups, BINS)),
        middle=np.zeros((groups, BINS)),
        survival=np.zeros((groups, BINS + 1)),
        ahead=np.zeros((groups, BINS + 1)),
        squares=np.zeros((groups, BINS + 1)),
        total=np.zeros(groups),
        last=np.zeros(groups, np.int64),
        made_at=np.full(groups, -1, np.int64),
        version=np.zeros(1, np.int64),
    )


@njit
def bin_of(tokens: float) -> int:
    """Return the bin of an answer: eight to an octave."""
    return min(max(int(_PER_OCTAVE * math.log2(max(tokens, 1.0)) + 1e-9), 0), BINS - 1)


@njit
def count_running(tables: LengthTables, group: int, tokens: int, counted: int) -> int:
    """Count the bins that a running answer has left behind since; return up to which."""
    place = bin_of(float(tokens))
    if place > counted:
        g = group
        while g >= 0:
            tables.passed[g, counted:place] += 1.0
            g = tables.parent[g]
    return max(place, counted)


@njit
def _add(
    tables: LengthTables, group: int, answer: tuple[int, int], now: int, memory: float
) -> None:
    tokens, counted = answer
    place = bin_of(float(tokens))
    g = group
    while g >= 0:
        fade = math.exp(-min(now - tables.last[g], _RARE) / memory)
        tables.last[g] = now
        tables.ended[g] *= fade
        tables.tokens[g] *= fade
        tables.passed[g] *= fade
        tables.passed[g, counted:place] += 1.0
        tables.ended[g, place] += 1.0
        tables.total[g] = fade * tables.total[g] + 1.0
        tables.tokens[g, place] += tokens
        g = tables.parent[g]


@njit
def ensure(tables: LengthTables, group: int) -> None:
    """Make a group's distribution of this version, after those of the wider groups."""
    version = tables.version[0]
    while tables.made_at[group] != version:
        g = group
        while tables.parent[g] >= 0 and tables.made_at[tables.parent[g]] != version:
            g = tables.parent[g]
        _make(tables, g)
        tables.made_at[g] = version


@njit
def _make(tables: LengthTables, group: int) -> None:
    """Set hazards from the answers of a group and those of the wider one."""
    parent = tables.parent[group]
    for b in range(BINS):
        ended = tables.ended[group, b]
        low, high = 2.0 ** (b / _PER_OCTAVE), 2.0 ** ((b + 1) / _PER_OCTAVE)
        if parent >= 0:
            usual, middle = tables.hazard[parent, b], tables.middle[parent, b]
        else:
            usual, middle = 1.0 - math.exp((low - high) / _PRIOR_TOKENS), math.sqrt(low * high)
        at_risk = ended + tables.passed[group, b]
        tables.hazard[group, b] = (ended + _STRENGTH * usual) / (at_risk + _STRENGTH)
        tables.middle[group, b] = (tables.tokens[group, b] + middle) / (ended + 1.0)
    _sum_up(tables, group)


@njit
def _sum_up(tables: LengthTables, group: int) -> None:
    reach = 1.0
    for b in range(BINS):
        tables.survival[group, b] = reach
        reach *= 1.0 - tables.hazard[group, b]
    tables.survival[group, BINS] = reach
    last = tables.middle[group, BINS - 1]
    tables.ahead[group, BINS] = reach * last
    tables.squares[group, BINS] = reach * last * last
    for b in range(BINS - 1, -1, -1):
        ends = tables.survival[group, b] * tables.hazard[group, b]
        middle = tables.middle[group, b]
        tables.ahead[group, b] = tables.ahead[group, b + 1] + ends * middle
        tables.squares[group, b] = tables.squares[group, b + 1] + ends * middle * middle


@njit
def remaining(tables: LengthTables, group: int, made: float) -> tuple[float, float]:
    """Return mean and mean square of the tokens that an answer with `made` tokens still gets."""
    ensure(tables, group)
    if made < 1.0:
        return tables.ahead[group, 0], tables.squares[group, 0]
    b = bin_of(made)
    low, high = 2.0 ** (b / _PER_OCTAVE), 2.0 ** ((b + 1) / _PER_OCTAVE)
    part = min(max((high - made) / (high - low), 0.0), 1.0)  # of those that end in this bin
    here = part * tables.survival[group, b] * tables.hazard[group, b]
    beyond = tables.survival[group, b + 1]
    mass = here + beyond
    if mass < 1e-12:
        left = max(0.25 * made, 4.0)
        return left, 2.0 * left * left
    near = 0.5 * (high + made)
    first = (here * near + tables.ahead[group, b + 1]) / mass
    second = (here * near * near + tables.squares[group, b + 1]) / mass
    left = max(first - made, 1.0)
    return left, max(second - 2.0 * made * first + made * made, left * left)


@njit
def doubt(tables: LengthTables, group: int, mean: float, sd: float, widened: float) -> float:
    """Return how far the mean itself may be off, as a share of it.

    By how much tenants and lengths differ is `widened` by a factor before they are known. With
    each answer less of that is left: else a bound that is made narrower would widen what it is a
    multiple of.
    """
    ended = tables.total[group]
    spread = _unknown(ended, widened)
    tenant = tables.parent[group]
    if tenant >= 0:
        ended = tables.total[tenant]
        spread += _unknown(ended, widened)
    return float((spread + (sd / max(mean, 1.0)) ** 2 / (ended + 4.0)) ** 0.5)


@njit
def _unknown(ended: float, widened: float) -> float:
    """Return the variance of what sets a group apart from the wider one, as a share squared."""
    unknown = _STRENGTH / (ended + _STRENGTH)
    differ = _GROUPS_DIFFER * (1.0 + (widened - 1.0) * unknown)
    return float(differ * differ * unknown)
