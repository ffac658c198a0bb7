"""Sorted lines of jobs by kind, kept up to date as jobs come and go."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["Entry", "SortedQueues"]

Entry = tuple[float, int, int]  # rank, number of arrival, job
K = TypeVar("K", bound=Hashable)


class SortedQueues(Generic[K]):
    """One sorted line per kind; kinds without anybody are not there."""

    def __init__(self) -> None:
        self.by_kind: dict[K, list[Entry]] = {}

    def add(self, kind: K, entry: Entry) -> bool:
        """Add a job; return whether it is the first of its kind."""
        line = self.by_kind.get(kind)
        if line is None:
            self.by_kind[kind] = [entry]
            return True
        insort(line, entry)
        return line[0] is entry

    def drop(self, kind: K, entry: Entry) -> None:
        """Remove a job that is in the queue."""
        line = self.by_kind[kind]
        del line[bisect_left(line, entry)]
        if not line:
            del self.by_kind[kind]
