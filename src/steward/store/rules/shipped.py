"""Where the rules are that come with steward: inside the package, or beside it in a clone."""

from __future__ import annotations

from pathlib import Path

__all__ = ["shipped_packs"]

_PACKAGE = Path(__file__).parents[2]


def shipped_packs() -> Path | None:
    """Return the folder with one folder per pack, or None where steward came without them."""
    places = (_PACKAGE / "packs", _PACKAGE.parents[1] / "rules")
    return next((place for place in places if place.is_dir()), None)
