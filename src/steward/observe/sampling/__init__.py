"""Reads sources that give only numbers, on the beat, and turns what they gave into tables.

Belongs here: deadlines and the thread that keeps them, rows of numbers, names and rates per batch.
Does not: what is read (`collectors`), or tables of any other shape (`observe/normalise.py`).
"""

from __future__ import annotations

from steward.observe.sampling.batch import BatchTranslator, TickBatch
from steward.observe.sampling.pace import Pace, PaceStats, Track

__all__ = ["BatchTranslator", "Pace", "PaceStats", "TickBatch", "Track"]
