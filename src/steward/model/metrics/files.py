"""What columns of recorded files are called: `h200` (our own recorder's CSV) and `reveal`."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["FILE_NAMES"]

# vocabulary: (their name, our name, scale)
FILE_NAMES: Mapping[str, tuple[tuple[str, str, float], ...]] = {}
