"""Traces that torch 2.13 gave, for tests without torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["recorded_trace"]

_FOLDER = Path(__file__).parent / "data" / "torch-2.13"


def recorded_trace(name: str) -> dict[str, Any]:
    """Return a trace by its file's name."""
    return dict(json.loads((_FOLDER / f"{name}.json").read_text()))
