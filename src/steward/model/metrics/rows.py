"""Short ways to write rows of the tables: what Linux counts, and at which pace it is read."""

from __future__ import annotations

from dataclasses import replace

from steward.model.metric import Alias, Metric, alias, counted

__all__ = ["LINUX", "TICK", "grows", "held", "level"]

LINUX = "linux"  # the words of /proc, /sys and control groups
TICK = 0.01  # Linux shows times to programs in hundredths of a second

Row = tuple[str, str, str, float, str]  # counter, its rate, the source's word, scale, meaning


def grows(of: str, *rows: Row) -> tuple[Metric, ...]:
    """Return counters that are read at every tick, and the rates that they become."""
    return tuple(
        each
        for counter, rate, word, scale, meaning in rows
        for each in counted(
            counter, rate, of=of, meaning=meaning, aliases=(alias(LINUX, word, scale),)
        )
    )


def held(of: str, *rows: Row, words: str = LINUX) -> tuple[Metric, ...]:
    """Return counters that are too dear to be read at every tick: their sampler gives rates.

    A counter that stands still between two looks and then jumps would look like bursts.
    """
    found: list[Metric] = []
    for counter, rate, word, scale, meaning in rows:
        total, per_s = counted(counter, rate, of=of, meaning=meaning)
        found += [total, replace(per_s, aliases=(alias(words, f"{word}/s", scale),))]
    return tuple(found)


def level(name: str, unit: str, of: str, meaning: str, *aliases: Alias) -> Metric:
    """Return a gauge."""
    return Metric(name=name, unit=unit, of=of, meaning=meaning, aliases=aliases)
