"""All literals as one compiled Aho-Corasick automaton: one step per byte, whatever is found.

It runs on any processor, and dense matches cost no more than sparse ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.decide.rules.terms.literal_index import FOLD
from steward.decide.rules.terms.literals import Literal
from steward.model.rules import LogBlock

__all__ = ["AutomatonSearch"]

Longs = NDArray[np.int64]
Ints = NDArray[np.int32]
Places = NDArray[np.uint32]
Bytes = NDArray[np.uint8]

_LONGEST_KEY = 10  # of a literal this much is in the automaton; the rest is compared
_ROOM = 4096  # size of the pair buffer
_ENDING = np.uint32(1 << 31)


class AutomatonSearch:
    """Find literals in blocks, each at most once in an entry.

    The automaton reads letters without case; where case matters the bytes are compared.
    """

    def __init__(self, literals: Sequence[Literal]) -> None:
        self._count = len(literals)
        texts = [np.frombuffer(each.text, dtype=np.uint8) for each in literals]
        self._text = np.concatenate([np.empty(0, dtype=np.uint8), *texts])
        self._first = np.cumsum([0, *map(len, texts)])
        self._caseless = np.array([each.caseless for each in literals], dtype=bool)
        keys = [bytes(FOLD[each[:_LONGEST_KEY]]) for each in texts]
        self._kinds = _kinds(keys)
        self._steps, self._ends = _automaton(keys, self._kinds)
        self._key_bytes = np.array([len(each) for each in keys], dtype=np.int64)

    def find(self, block: LogBlock, *, shared: bool = False) -> tuple[Longs, Longs]:
        """Return entries and the literals in them."""
        del shared  # it does not call Python
        buffer = np.frombuffer(block.buffer, dtype=np.uint8)
        room = max(_ROOM, self._count)
        parts: list[tuple[Longs, Longs]] = []
        entry = 0
        while entry < len(block):
            entries, literals = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
            entry, count = _search(
                (buffer, block.start, block.end),
                (self._kinds, self._steps, *self._ends),
                (self._text, self._first, self._caseless, self._key_bytes, FOLD),
                entry,
                entries,
                literals,
            )
            parts.append((entries[:count], literals[:count]))
        none = np.empty(0, dtype=np.int64)
        entries = np.concatenate([none, *(each for each, _ in parts)])
        return entries, np.concatenate([none, *(each for _, each in parts)])


def _kinds(keys: Sequence[bytes]) -> Places:
    """Return a number from 1 on for each byte that occurs in keys, in either case; 0 for others."""
    kinds = np.zeros(256, dtype=np.uint32)
    used = sorted(set(b"".join(keys)))
    kinds[used] = np.arange(1, len(used) + 1)
    return kinds[FOLD]


def _automaton(keys: Sequence[bytes], kinds: Places) -> tuple[Places, tuple[Ints, Ints, Ints]]:
    """Return the table of steps, and for each state which literals end there.

    A step is the place of the next state's row in the table, plus `_ENDING` where literals end
    in that state. `last` is the last literal that ends in a state, `before` the one before a
    literal, `shorter` the nearest state at which a shorter key ends.
    """
    width = int(kinds.max(initial=0)) + 1
    children: list[dict[int, int]] = [{}]
    last: list[int] = [-1]
    before = np.full(len(keys), -1, dtype=np.int32)
    for number, key in enumerate(keys):
        state = 0
        for kind in kinds[list(key)].tolist():
            if kind not in children[state]:
                children[state][kind] = len(children)
                children.append({})
                last.append(-1)
            state = children[state][kind]
        before[number] = last[state]
        last[state] = number
    table = np.zeros((len(children), width), dtype=np.int32)
    shorter = np.full(len(children), -1, dtype=np.int32)
    _connect(children, last, table, shorter)
    ending = (np.array(last) >= 0) | (shorter >= 0)
    steps = (table * width).astype(np.uint32) + np.where(ending[table], _ENDING, np.uint32(0))
    return steps.ravel(), (np.array(last, dtype=np.int32), before, shorter)


def _connect(
    children: Sequence[dict[int, int]], last: Sequence[int], table: Ints, shorter: Ints
) -> None:
    """Fill the table breadth first: where a key does not go on, the longest suffix does."""
    suffix = [0] * len(children)
    queue = [0]
    for state in queue:
        row = table[state]
        if state:
            row[:] = table[suffix[state]]
        for kind, child in children[state].items():
            back = int(row[kind]) if state else 0
            suffix[child] = back
            shorter[child] = back if last[back] >= 0 else shorter[back]
            row[kind] = child
            queue.append(child)


@njit
def _is_at(
    begin: int,
    end: int,
    literal: int,
    buffer: Bytes,
    literals: tuple[Bytes, Longs, NDArray[np.bool_], Longs, Bytes],
) -> bool:
    """Return whether a literal stands at `begin`, before `end`."""
    text, first, caseless, _, fold = literals
    length = first[literal + 1] - first[literal]
    if begin + length > end:
        return False
    for at in range(length):
        byte = buffer[begin + at]
        if caseless[literal]:
            byte = fold[byte]
        if byte != text[first[literal] + at]:
            return False
    return True


@njit
def _search(
    block: tuple[Bytes, Longs, Longs],
    automaton: tuple[Places, Places, Ints, Ints, Ints],
    literals: tuple[Bytes, Longs, NDArray[np.bool_], Longs, Bytes],
    entry: int,
    entries: Longs,
    found: Longs,
) -> tuple[int, int]:
    """Note pairs from `entry` on until there is no room for another entry's.

    Returns the entry to go on with and how many pairs were noted.
    """
    buffer, start, end = block
    kinds, steps, last, before, shorter = automaton
    key_bytes = literals[3]
    width = np.uint32(steps.size // last.size)
    seen = np.full(before.size, -1, dtype=np.int64)
    count = 0
    while entry < start.size and count + before.size <= entries.size:
        place = np.uint32(0)
        for at in range(np.uint64(start[entry]), np.uint64(end[entry])):  # unsigned: no wrapping
            place = steps[place + kinds[buffer[at]]]
            if place < _ENDING:
                continue
            place -= _ENDING
            state = np.int64(place // width)
            while state >= 0:
                literal = last[state]
                while literal >= 0:
                    begin = np.int64(at) + 1 - key_bytes[literal]
                    if seen[literal] != entry and _is_at(
                        begin, end[entry], literal, buffer, literals
                    ):
                        seen[literal] = entry
                        entries[count] = entry
                        found[count] = literal
                        count += 1
                    literal = before[literal]
                state = shorter[state]
        entry += 1
    return entry, count
