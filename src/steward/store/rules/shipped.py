"""Where the rules are that come with steward: inside the package, in a clone through a link."""

from __future__ import annotations

from pathlib import Path

__all__ = ["shipped_packs"]

_PACKAGE = Path(__file__).parents[2]


def shipped_packs() -> Path | None:
    """Return the folder with one folder per pack, or None where steward came without them."""
    place = _PACKAGE / "packs"
    return place if place.is_dir() else None
