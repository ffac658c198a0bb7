"""Anomalies over many series: scored by moment, judged by event, with the metrics at fault."""

from steward.learn.patterns.anomalies.detection import (
    Anomalies,
    AnomalyEvent,
    AnomalySearch,
    Culprit,
    find_anomalies,
)
from steward.learn.patterns.anomalies.measures import Horizons

__all__ = ["Anomalies", "AnomalyEvent", "AnomalySearch", "Culprit", "Horizons", "find_anomalies"]
