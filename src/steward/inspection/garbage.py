"""Fewer garbage collections while very many objects without cycles are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["few_collections"]

_OBJECTS = 200_000  # allocations between garbage collections


@contextmanager
def few_collections() -> Iterator[None]:
    """Collect garbage rarely: rules and hits have no cycles, and collecting is half the time."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
