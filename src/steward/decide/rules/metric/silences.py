"""Absence of series: when an expected series had no sample for too long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steward.decide.rules.metric.kernels import (
    NEVER_NS,
    Longs,
    Points,
    SeriesSamples,
    expire,
    last_values,
)
from steward.decide.rules.metric.sample_buffer import TermSamples

__all__ = ["Silence", "Silences"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """A column that counts as absent after this long without a sample."""

    column: str
    after_ns: int


class Silences:
    """All absence conditions of a term; may be empty."""

    def __init__(self, buffer: TermSamples, silences: Sequence[Silence], for_ns: int) -> None:
        self._buffer = buffer
        self._silences = silences
        self._for_ns = for_ns

    def __bool__(self) -> bool:
        return bool(self._silences)

    def until(self, clock_ns: int, begin: Longs) -> list[Points]:
        """Return when each series had been silent for too long, after `begin` of it."""
        return [
            Points(*expire(self._samples(each), each.after_ns, self._for_ns, begin, clock_ns))
            for each in self._silences
        ]

    def next_ns(self, clock_ns: int) -> int:
        """Return when the next silence becomes too long, if nothing comes."""
        found = NEVER_NS
        for each in self._silences:
            last = last_values(self._samples(each)) + each.after_ns + 1
            due = np.concatenate([last, last + self._for_ns])
            found = min(found, int(np.min(due[due > clock_ns], initial=NEVER_NS)))
        return found

    def _samples(self, silence: Silence) -> SeriesSamples:
        return self._buffer.columns_kept[silence.column].samples
