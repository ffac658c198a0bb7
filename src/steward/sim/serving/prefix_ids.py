"""Numbers for the prompt blocks of a server that runs on: few enough for arrays, used again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from steward.sim.serving.state import ServingState

__all__ = ["PrefixIds"]

_LOOKED_AT = 64  # old blocks that are tried when a number is needed


@dataclass(slots=True, kw_only=True)
class PrefixIds:
    """Which number each prompt block has, `ids` of them at most, `width` for one request.

    A number is free again when no request names it and no cache holds it. Where none is free, a
    request's further blocks are computed without the cache.
    """

    ids: int
    width: int
    unnumbered: int = 0  # blocks that found no free number
    _known: OrderedDict[int, int] = field(default_factory=OrderedDict)
    _users: dict[int, int] = field(default_factory=dict)
    _of_row: dict[int, list[int]] = field(default_factory=dict)
    _fresh: int = 0

    def assign(self, row: int, keys: Sequence[int], state: ServingState) -> None:
        """Write the numbers of a request's blocks into the state."""
        numbers: list[int] = []
        for key in keys[: self.width]:
            number = self._known.get(key)
            if number is None:
                number = self._new(key, state)
            else:
                self._known.move_to_end(key)
            if number is None:
                self.unnumbered += len(keys) - len(numbers)
                break
            self._users[number] = self._users.get(number, 0) + 1
            numbers.append(number)
        start = int(state.prefix_start[row])
        state.prefix_ids[start : start + len(numbers)] = numbers
        state.prefix_start[row + 1] = start + len(numbers)
        self._of_row[row] = numbers

    def release(self, row: int) -> None:
        """Take note that a request ended."""
        for number in self._of_row.pop(row, ()):
            left = self._users[number] - 1
            if left:
                self._users[number] = left
            else:
                del self._users[number]

    def _new(self, key: int, state: ServingState) -> int | None:
        if self._fresh < self.ids:
            number = self._fresh
            self._fresh += 1
        else:
            found = self._unused(state)
            if found is None:
                return None
            number = found
        self._known[key] = number
        return number

    def _unused(self, state: ServingState) -> int | None:
        for _ in range(min(_LOOKED_AT, len(self._known))):
            key, number = self._known.popitem(last=False)
            if number not in self._users and state.users[0, number] < 0:
                return number
            self._known[key] = number  # in use: younger than it looked
        return None
