"""Maps a series of another monitoring system to an entity and a metric.

Belongs here: labels and attributes to entities and canonical names, and back. Does not: bytes
(`clients/wire`) or arithmetic over samples (`observe/receive`).
"""

from __future__ import annotations

from steward.model.label import entity_of, exposed_name, labels_of
from steward.observe.translate.mapping import SeriesMapping
from steward.observe.translate.opentelemetry import map_point
from steward.observe.translate.prometheus import map_series

__all__ = ["SeriesMapping", "entity_of", "exposed_name", "labels_of", "map_point", "map_series"]
