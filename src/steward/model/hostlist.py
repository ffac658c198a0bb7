"""Lists of hosts as Slurm and others write them: `gpu[17-19]` is three hosts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import lru_cache

from steward.errors import StewardError

__all__ = ["MOST_HOSTS", "hosts", "numbers", "split_outside"]

MOST_HOSTS = 100_000  # more than any site has; a typing mistake must not fill the memory
_NONE = ("", "(null)", "None assigned", "None")


@lru_cache(maxsize=4096)
def hosts(text: str) -> tuple[str, ...]:
    """Expand a list of hosts; raise where it names more than `MOST_HOSTS`.

    >>> hosts("n[1-3,7],gpu[08-10]-ib,login")
    ('n1', 'n2', 'n3', 'n7', 'gpu08-ib', 'gpu09-ib', 'gpu10-ib', 'login')
    >>> hosts("r[1-2]n[1-2]")
    ('r1n1', 'r1n2', 'r2n1', 'r2n2')
    """
    if text in _NONE:
        return ()
    found: list[str] = []
    for part in split_outside(text, "[", "]"):
        found += itertools.islice(_expanded(part), MOST_HOSTS + 1)
        if len(found) > MOST_HOSTS:
            raise StewardError(f"'{text[:60]}' names more than {MOST_HOSTS} hosts")
    return tuple(found)


def split_outside(text: str, opening: str, closing: str) -> Iterator[str]:
    """Split at the commas that are not inside brackets."""
    depth = begin = 0
    for at, sign in enumerate(text):
        depth += (sign == opening) - (sign == closing)
        if sign == "," and depth <= 0:
            yield text[begin:at]
            begin = at + 1
    if text[begin:]:
        yield text[begin:]


def numbers(text: str) -> Iterator[str]:
    """Expand `01-03,7`, with leading zeros."""
    for part in text.split(","):
        low, _, high = part.partition("-")
        if low.isdigit() and high.isdigit():
            yield from (str(n).zfill(len(low)) for n in range(int(low), int(high) + 1))
        elif low:
            yield low


def _expanded(text: str) -> Iterator[str]:
    before, bracket, rest = text.partition("[")
    if not bracket:
        yield text
        return
    inside, _, after = rest.partition("]")
    for middle in numbers(inside):
        for end in _expanded(after):
            yield f"{before}{middle}{end}"
