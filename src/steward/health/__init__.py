"""From logs of faults to what should be done: joins reading, learning and deciding.

Belongs here: what commands, pages and benchmarks on the health of GPUs have in common. Does not:
forms of lines (`observe.faults`), what faults mean together (`learn.faults`), remedies
(`decide.health`).
"""

from __future__ import annotations

from steward.health.scan import Scan, scan

__all__ = ["Scan", "scan"]
