"""Fit what `steward estimate model` uses for an H200, on every measured row, and write it down."""

from __future__ import annotations

import json
from pathlib import Path

from model_traces import calibrate, rows

_TARGET = Path(__file__).parents[1] / "src/steward/learn/estimators/model_graphs/calibration.json"

if __name__ == "__main__":
    _TARGET.write_text(json.dumps([calibrate(rows(few=False))], indent=1) + "\n", encoding="utf-8")
