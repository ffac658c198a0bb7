"""Reads the times of all lines of a block at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

import numpy as np

from steward.observe.logs.formats.codes import NO_TIME, Ints, Octets
from steward.observe.logs.formats.kernel import read_times
from steward.observe.logs.formats.template import Template, TemplateProgram, compiled

__all__ = ["NO_TIME", "LineTimes", "Years", "program_of"]

_WEEK_S = 7 * 86400


@dataclass(frozen=True, slots=True, kw_only=True)
class Years:
    """What a line leaves out: its year, or when the machine started.

    A time without a year lies at most a week ahead of now: the latest year with which it does is
    the one that is meant.
    """

    now_s: float
    boot_ns: int = 0  # for times that count from the start of the machine

    def as_array(self) -> Ints:
        """Return the latest time that can be meant, its year, and the start of the machine."""
        limit_s = int(self.now_s) + _WEEK_S
        year = datetime.fromtimestamp(limit_s, UTC).year
        return np.array([limit_s * 1_000_000_000, year, self.boot_ns], np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LineTimes:
    """When lines were written, and where their text begins. NO_TIME where a line has none."""

    t_ns: Ints
    text: Ints

    @classmethod
    def read(
        cls, lines: tuple[Octets, Ints, Ints], templates: Sequence[Template], years: Years
    ) -> LineTimes:
        """Read lines (bytes, where each begins and ends) by the first template that fits each."""
        buffer, start, end = lines
        program = program_of(tuple(templates))
        t_ns, text = np.empty(len(start), np.int64), np.empty(len(start), np.int64)
        read_times(
            buffer,
            start,
            end,
            program.heads,
            program.steps,
            program.pool,
            years.as_array(),
            t_ns,
            text,
        )
        return cls(t_ns=t_ns, text=text)


@lru_cache(maxsize=256)
def program_of(templates: tuple[Template, ...]) -> TemplateProgram:
    """Return the program of templates; cached, since every block needs the same."""
    return compiled(templates)
