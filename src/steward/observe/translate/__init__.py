"""Says what a series of another monitoring system is to us: whose number, and which of ours.

Belongs here: labels and attributes to entities and canonical names, and back. Does not: bytes
(`clients/wire`) or arithmetic over samples (`observe/receive`).
"""

from __future__ import annotations

from steward.model.label import entity_of, exposed_name, labels_of
from steward.observe.translate.opentelemetry import place_point
from steward.observe.translate.place import Place
from steward.observe.translate.prometheus import place_series

__all__ = ["Place", "entity_of", "exposed_name", "labels_of", "place_point", "place_series"]
