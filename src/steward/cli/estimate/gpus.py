"""The GPU that an estimate is for: its data sheet, what was calibrated, and runs in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steward.cli.output import print_note
from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.config.settings import Settings
    from steward.learn.estimators.model_graphs.pool import TraceWorker
    from steward.learn.estimators.model_graphs.sites import Site

__all__ = ["Gpu", "Measured", "calibrated_site", "measured_site"]

Gpu = Annotated[
    str,
    typer.Option(
        "--gpu",
        metavar="NAME",
        help="The GPU's type (h200, a100-80, l4, mi300x, …), or a name given to "
        "`steward estimate calibrate`.",
    ),
]
Measured = Annotated[
    Path | None,
    typer.Option(
        "--measured",
        metavar="FILE",
        help="Runs on this GPU, with the columns of estimator_truth.csv: they refine the answer.",
    ),
]


def calibrated_site(settings: Settings, gpu: str) -> Site | None:
    """Return what was calibrated under a GPU's name, or none."""
    from steward.config.assemble import LEARNED
    from steward.learn.estimators.model_graphs.sites import STATE_VERSION, Site, state_name
    from steward.store.learned import LearnedStates

    learned = LearnedStates(settings.store.path / LEARNED, read_only=True)
    name = state_name(gpu)
    if name not in learned.names():
        return None
    state, why = learned.load(name, STATE_VERSION)
    if state is None:
        print_note(f"the calibration of {gpu} is not used: {why}")
        return None
    return Site.from_payload(state.payload)


def measured_site(
    file: Path, gpu: str, worker: TraceWorker | None, before: Site | None = None
) -> Site:
    """Return a GPU as the runs in a file describe it."""
    from steward.learn.estimators.model_graphs.calibration import calibration
    from steward.learn.estimators.model_graphs.gpu_types import gpu_type
    from steward.learn.estimators.model_graphs.scores import measured_runs, read_truth
    from steward.learn.estimators.model_graphs.sites import fit_site

    like = gpu_type(before.like if before is not None else gpu)
    rows = [row for row in read_truth(file) if row.get("gpu") in {None, "", gpu}]
    if not rows:
        raise StewardError(
            f"no row is of the GPU {gpu}", where=str(file), hint="see the column gpu"
        )
    runs, failed = measured_runs(rows, worker, like.name)
    for each in failed:
        print_note(f"line {each['line']}, {each['model']}: {each['problem']}")
    return fit_site(runs, calibration(), name=gpu, like=like)
