"""Fit what `steward estimate model` uses, on every measured row, and write it down."""

from __future__ import annotations

import json
from pathlib import Path

from model_gpus import gpu_spread, held_out_gpus
from model_traces import calibrate, peer_rows, rows

_TARGET = Path(__file__).parents[1] / "src/steward/learn/estimators/model_graphs/calibration.json"

if __name__ == "__main__":
    found, peers = rows(few=False), peer_rows()
    record = {**calibrate(found, peers), "gpu_spread": gpu_spread(held_out_gpus(found, peers))}
    _TARGET.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
