"""Memory of models that no calibration saw: error, share above the q95 bound, and rivals' rules.

Leave models out, 12 folds: the context's bytes and the limits come from the other models' rows.
The rules of the trace (which operators keep what, workspaces) have no fitted number; they were
written while looking at recordings of resnet18, resnet50, vit_b_16, gpt2 and llama-1b.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from model_traces import Row, calibrate_memory, folds, rows
from report import bar, finish, quick
from steward.learn.estimators.model_graphs.question import OPTIMIZERS


def main() -> None:
    """Print errors by fold and by source."""
    found = rows(few=quick())
    compared: list[dict[str, Any]] = []
    for inside, held in folds(found):
        record = calibrate_memory(inside)
        compared += [_compared(row, record) for row in held]
    shared = [each for each in compared if each["source"] == "shared"]
    figures: dict[str, Any] = {
        "rows": len(compared),
        "shared_rows": _figures(shared),
        "all_rows": _figures(compared),
        "baselines_device_mean_error_shared": {
            name: float(np.mean([each[name] for each in shared]))
            for name in ("parameters_x4", "operators_sum")
        },
        "by_family": {
            name: _figures([each for each in compared if each["family"] == name])
            for name in sorted({each["family"] for each in compared})
        },
        "checkpointing": _figures([each for each in compared if each["checkpointing"]]),
        "trace_s": {
            "median": float(np.median([row.trace_s for row in found])),
            "p95": float(np.quantile([row.trace_s for row in found], 0.95)),
            "longest": max(row.trace_s for row in found),
        },
        "not_compared": "torch's MemTracker: seconds a row; not run",
    }
    finish(
        "estimate_memory",
        figures,
        [
            bar("device, mean error", figures["shared_rows"]["device"], "<=", 0.05),
            bar("reserved, mean error", figures["shared_rows"]["reserved"], "<=", 0.05),
            bar("device above q95", figures["shared_rows"]["device_above_q95"], "<=", 0.05),
            bar("median trace, s", figures["trace_s"]["median"], "<", 1.0),
        ],
    )


def _compared(row: Row, record: dict[str, Any]) -> dict[str, Any]:
    context = record["context_bytes"]
    reserved, device = row.measured("peak_reserved_bytes"), row.measured("nvml_used_bytes")
    likely = row.trace["reserved_bytes"]
    upper = record["memory_q95"].get(row.family, record["memory_q95"]["any"])
    weights = row.trace["parameter_bytes"]
    trains = row.record["mode"] == "train"
    states = OPTIMIZERS[row.record["opt"]].states + 2 if trains else 1
    outputs = sum(each[4] * each[7] for each in row.trace["operators"] if not each[5]) / 2
    return {
        "source": row.source,
        "family": row.family,
        "checkpointing": row.record["grad_ckpt"] == "True" and trains,
        "allocated": abs(row.trace["allocated_bytes"] / row.measured("peak_alloc_bytes") - 1),
        "device": abs((likely + context) / device - 1),
        "reserved": abs(likely / reserved - 1),
        "device_above_q95": device > (likely + context) * upper,
        "reserved_above_q95": reserved > likely * upper,
        "over": (likely + context) * upper / device - 1,
        # accelerate estimate-memory: weights, times four for training; no activations.
        "parameters_x4": abs(weights * (4 if trains else 1) / device - 1),
        # Like DNNMem: weights, states, each forward operator's traffic as kept, and the context.
        "operators_sum": abs((weights * states + outputs * trains + context) / device - 1),
    }


def _figures(compared: list[dict[str, Any]]) -> dict[str, float]:
    names = (
        "allocated",
        "device",
        "reserved",
        "device_above_q95",
        "reserved_above_q95",
        "over",
    )
    return {
        "rows": len(compared),
        **{name: float(np.mean([each[name] for each in compared])) for name in names},
    }


if __name__ == "__main__":
    main()
