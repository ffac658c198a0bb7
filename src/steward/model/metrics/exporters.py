"""What well-known Prometheus exporters call our metrics."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["EXPORTER_NAMES"]

# vocabulary: (their name, our name, scale)
EXPORTER_NAMES: Mapping[str, tuple[tuple[str, str, float], ...]] = {}
