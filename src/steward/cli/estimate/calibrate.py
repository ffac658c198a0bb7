"""`steward estimate calibrate`: what measured runs say of a site's own GPU."""

from __future__ import annotations

from dataclasses import replace
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steward.cli.estimate.gpus import measured_site
from steward.cli.options import Config, Data, Json, read_settings
from steward.cli.output import print_json, print_note, print_table

if TYPE_CHECKING:
    from steward.learn.estimators.model_graphs.sites import Site

__all__ = ["calibrate"]


def calibrate(
    file: Annotated[
        Path, typer.Argument(help="Measured runs, with the columns of estimator_truth.csv.")
    ],
    *,
    gpu: Annotated[
        str, typer.Option("--gpu", metavar="NAME", help="What to call it: a type, or a name.")
    ],
    like: Annotated[
        str | None,
        typer.Option("--like", metavar="TYPE", help="Its type, where the name is another."),
    ] = None,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Fit what is special about a site's GPU, and keep it for `steward estimate model --gpu NAME`.

    The first three runs matter most: of different models, not too short.
    """
    from steward.config.assemble import LEARNED
    from steward.learn.estimators.model_graphs.answers import new_worker
    from steward.learn.estimators.model_graphs.calibration import calibration
    from steward.learn.estimators.model_graphs.gpu_types import gpu_type
    from steward.learn.estimators.model_graphs.sites import (
        STATE_VERSION,
        plain_site,
        state_name,
    )
    from steward.store.learned import LearnedStates

    settings = read_settings(config, data)
    state = state_name(gpu)
    plain, _ = plain_site(gpu_type(like or gpu).name, calibration())
    worker = new_worker()
    try:
        site = measured_site(file, gpu, worker, replace(plain, name=gpu))
    finally:
        if worker is not None:
            worker.close()
    LearnedStates(settings.store.path / LEARNED).save(
        state,
        STATE_VERSION,
        site.payload(),
        learnt_from={"runs": site.timed_runs, "file": file.name},
    )
    record = _record(site)
    if as_json:
        print_json(record)
        return
    print_table(
        ("figure", "value"),
        [
            ("runs with a time", str(site.timed_runs)),
            ("compute, times the calibration's", f"{record['slower']['compute']:.2f}"),
            ("memory traffic", f"{record['slower']['memory']:.2f}"),
            ("host", f"{record['slower']['host']:.2f}"),
            ("time error left, mean", _share(record["time_error_left"])),
        ],
        empty="",
    )
    print_note(f"kept as {state}; used by `steward estimate model --gpu {gpu}`")


def _record(site: Site) -> dict[str, Any]:
    left = [abs(exp(-each) - 1) for runs in site.time_residuals.values() for each in runs]
    return {
        "gpu": site.name,
        "like": site.like,
        "runs": site.timed_runs,
        "slower": {
            name: exp(value)
            for name, value in zip(("compute", "memory", "host"), site.offsets, strict=True)
        },
        "context_bytes": site.context_bytes,
        "time_error_left": sum(left) / len(left) if left else None,
    }


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1%}"
