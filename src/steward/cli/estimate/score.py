"""`steward estimate score`: estimates of models beside what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steward.cli.estimate.gpus import Gpu, calibrated_site
from steward.cli.options import Config, Data, Json, read_settings
from steward.cli.output import print_json, print_note, print_table

__all__ = ["score"]


def score(
    file: Annotated[Path, typer.Argument(help="A CSV with the columns of estimator_truth.csv.")],
    *,
    gpu: Gpu = "h200",
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Compare estimates with measured configurations, row by row."""
    from steward.learn.estimators.model_graphs.answers import new_worker
    from steward.learn.estimators.model_graphs.scores import read_truth, score

    rows = read_truth(file)
    site = calibrated_site(read_settings(config, data), gpu)
    worker = new_worker()
    try:
        found = score(rows, worker, gpu=gpu, site=site)
    finally:
        if worker is not None:
            worker.close()
    if as_json:
        print_json(found)
        return
    memory, time = found["memory"], found["time"]
    table = [
        ("rows answered", f"{found['answered']} of {len(rows)}"),
        ("memory, mean error", _share(memory["mean_error"])),
        ("memory above q95", _share(memory["above_q95"])),
        ("time, mean error", _share(time["mean_error"])),
        ("time within limits", _share(time["within_limits"])),
    ]
    print_table(("figure", "value"), table, empty="")
    for each in found["not_answered"]:
        print_note(f"line {each['line']}, {each['model']}: {each['problem']}")


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1%}"
