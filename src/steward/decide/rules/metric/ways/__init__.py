"""When a condition is looked at: at the samples of each entity, or at the same times for all.

Belongs here: which points are due, and what the condition is worth at them. Does not: how long it
held (`watch.py`), or the language (`promql`).
"""

from __future__ import annotations

from steward.decide.rules.metric.ways.apart import ApartWay
from steward.decide.rules.metric.ways.results import Results
from steward.decide.rules.metric.ways.silences import Silence
from steward.decide.rules.metric.ways.together import TogetherWay
from steward.decide.rules.metric.ways.way import Seen, Way

__all__ = ["ApartWay", "Results", "Seen", "Silence", "TogetherWay", "Way"]
