"""Step time of models that no calibration saw; leave models out, 6 folds, constants fitted inside.

The form of the model (classes of operators, host against device) was chosen on all rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from model_traces import Row, calibrate_time, folds, rows
from report import bar, finish, progress, quick
from steward.learn.estimators.model_graphs.op_times import CONSTANTS, step_seconds


def main() -> None:
    """Print errors by family, and of a roofline at peak rates."""
    found = rows(few=quick())
    compared: list[tuple[Row, float, float, bool]] = []
    for inside, held in folds(found, 6):
        record = calibrate_time(inside, 2)
        constants = np.log([record["constants"][name] for name in CONSTANTS])
        for row in held:
            seconds, host = step_seconds(row.work, constants)
            true = row.measured("step_s")
            covered = seconds * record["time_low"] <= true <= seconds * record["time_high"]
            compared.append((row, abs(seconds / true - 1), host, covered))
        progress(f"{len(compared)} of {len(found)}")
    shared = [each for each in compared if each[0].source == "shared"]
    device = [each[1] for each in shared if each[2] < 0.3]
    figures: dict[str, Any] = {
        "rows": len(shared),
        "mean_error": float(np.mean([each[1] for each in shared])),
        "median_error": float(np.median([each[1] for each in shared])),
        "within_limits_share": float(np.mean([each[3] for each in shared])),
        "mean_error_where_the_device_decides": float(np.mean(device)) if device else None,
        "by_family": {
            name: float(np.mean([each[1] for each in shared if each[0].family == name]))
            for name in sorted({each[0].family for each in shared})
        },
        "baseline_peak_roofline_mean_error": float(
            np.mean([_roofline(each[0]) for each in shared])
        ),
    }
    finish("estimate_time", figures, [bar("mean error", figures["mean_error"], "<=", 0.12)])


def _roofline(row: Row) -> float:
    work = row.work
    ideal = np.sum(work.count * np.maximum(work.ideal_compute_s, work.ideal_memory_s))
    return abs(float(ideal) / row.measured("step_s") - 1)


if __name__ == "__main__":
    main()
