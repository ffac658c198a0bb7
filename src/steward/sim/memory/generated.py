"""Access patterns that are made up, each like a kind of program, and repeat with their seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError, unknown_name
from steward.model.memory.trace import AccessTrace, trace_of

__all__ = ["GENERATED", "generate"]

Draw = np.random.Generator
Keys = NDArray[np.int64]
THINK_S = 1e-7  # between two accesses to memory, on average


def generate(name: str, *, accesses: int, pages: int, seed: int) -> AccessTrace:
    """Return a trace of a kind; it may touch fewer pages than `pages`."""
    if name not in GENERATED:
        raise unknown_name("generated trace", name, GENERATED)
    if accesses < 0 or pages < 1:
        problem = f"{accesses} accesses to {pages} pages"
        raise StewardError(problem, where=name, hint="give 0 accesses or more, 1 page or more")
    draw = np.random.default_rng(seed)
    keys = GENERATED[name](draw, accesses, pages)
    found = trace_of(name, keys.astype(np.int64), draw.exponential(THINK_S, accesses))
    return AccessTrace(
        name=name, page=found.page, think_s=found.think_s, pages=found.pages, synthetic=True
    )


def _zipf_of(draw: Draw, count: int, pages: int, exponent: float) -> Keys:
    """Return places 0..pages-1, drawn with a power law of their rank."""
    weight = np.cumsum(np.arange(1, pages + 1) ** -exponent)
    found: Keys = np.searchsorted(weight, draw.random(count) * weight[-1]).astype(np.int64)
    return found


def _load_all(draw: Draw, pages: int, count: int) -> Keys:
    """Return a first pass over all pages, as programs make that load their data."""
    return draw.permutation(pages)[: count // 4].astype(np.int64)


def _zipf(draw: Draw, count: int, pages: int) -> Keys:
    """Return a key-value store: some keys are always hot."""
    first = _load_all(draw, pages, count)
    order = draw.permutation(pages)
    return np.concatenate((first, order[_zipf_of(draw, count - len(first), pages, 1.0)]))


def _phases(draw: Draw, count: int, pages: int) -> Keys:
    """Return a working set of a tenth that moves on eight times."""
    first = _load_all(draw, pages, count)
    rest = count - len(first)
    parts = [first]
    for part in np.array_split(np.arange(rest), 8):
        hot = draw.choice(pages, max(1, pages // 10), replace=False)
        inside = hot[_zipf_of(draw, len(part), len(hot), 0.6)]
        outside = draw.integers(0, pages, len(part))
        parts.append(np.where(draw.random(len(part)) < 0.9, inside, outside))
    return np.concatenate(parts)


def _scan(_: Draw, count: int, pages: int) -> Keys:
    """Read everything in order, again and again, eight lines of each page."""
    return (np.arange(count) // 8) % pages


def _graph(draw: Draw, count: int, pages: int) -> Keys:
    """Traverse a graph: hubs are hot, neighbours random, the frontier in order."""
    first = _load_all(draw, pages, count)
    rest = count - len(first)
    kind = draw.random(rest)
    hubs = draw.permutation(pages)[_zipf_of(draw, rest, pages, 0.9)]
    frontier = (np.arange(rest) // 16) % pages
    anywhere = draw.integers(0, pages, rest)
    return np.concatenate(
        (first, np.where(kind < 0.6, hubs, np.where(kind < 0.8, frontier, anywhere)))
    )


def _training(draw: Draw, count: int, pages: int) -> Keys:
    """Train: weights forward and back each step, a few embeddings, data read once."""
    weights, table = max(1, pages // 8), max(1, pages // 2)
    data = max(1, pages - weights - table)
    step = 4 * weights
    at = np.arange(count)
    place, number = at % step, at // step
    forward = place // 2
    keys = np.where(forward < weights, forward, 2 * weights - 1 - forward)
    other = draw.random(count)
    rows = weights + _zipf_of(draw, count, table, 1.1)
    samples = weights + table + (number * 7 + place // 64) % data
    return np.where(other < 0.3, rows, np.where(other < 0.4, samples, keys))


GENERATED: Mapping[str, Callable[[Draw, int, int], Keys]] = MappingProxyType(
    {"graph": _graph, "phases": _phases, "scan": _scan, "training": _training, "zipf": _zipf}
)
