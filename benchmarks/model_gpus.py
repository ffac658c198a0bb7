"""Leave one GPU out: what is answered for it without runs, and after three cheap ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from model_traces import PeerRow, Row, fit_time, timed, vendor_offsets
from report import progress
from steward.learn.estimators.model_graphs.gpu_types import gpu_type
from steward.learn.estimators.model_graphs.time_fit import fit_offsets

__all__ = ["Held", "gpu_spread", "held_out_gpus"]

_RUNS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One row of a GPU that the fit did not see, and its errors (logarithms)."""

    row: PeerRow
    without_runs: float
    with_runs: float | None  # none for the runs themselves


def held_out_gpus(found: Sequence[Row], peers: Sequence[PeerRow]) -> list[Held]:
    """Return the errors for each GPU in turn; the rows of the H200 are always in the fit."""
    answers = []
    for device in sorted({row.device for row in peers}):
        inside = [row for row in peers if row.device != device]
        mine = [row for row in peers if row.device == device]
        costs, offsets = fit_time(found, inside)
        gpus = {
            name: [float(each) for each in np.mean([o[name] for o in offsets], 0)]
            for name in sorted({row.device for row in inside})
        }
        prior = vendor_offsets(gpus).get(gpu_type(device).vendor, [0.0, 0.0, 0.0])
        first = [timed(row, costs, prior).seconds for row in mine]
        runs = cheap_runs(mine, first)
        site = fit_offsets([mine[number].step for number in runs], costs, prior=prior)
        for number, row in enumerate(mine):
            later = float(np.log(row.step.seconds / timed(row, costs, tuple(site)).seconds))
            answers.append(
                Held(
                    row=row,
                    without_runs=float(np.log(row.step.seconds / first[number])),
                    with_runs=None if number in runs else later,
                )
            )
        progress(f"{device}: {len(mine)} rows")
    return answers


def cheap_runs(mine: Sequence[PeerRow], seconds: Sequence[float]) -> list[int]:
    """Return the runs predicted to be shortest, of three models where there are three."""
    order = sorted(range(len(mine)), key=lambda number: seconds[number])
    chosen: list[int] = []
    for number in order:
        if mine[number].model not in {mine[each].model for each in chosen}:
            chosen.append(number)
    chosen += [number for number in order if number not in chosen]
    return chosen[:_RUNS]


def gpu_spread(held: Sequence[Held]) -> tuple[float, float]:
    """Return the deviation of an unseen GPU's times: without runs, and with three."""
    with_runs = [each.with_runs for each in held if each.with_runs is not None]
    return (
        float(np.sqrt(np.mean(np.square([each.without_runs for each in held])))),
        float(np.sqrt(np.mean(np.square(with_runs)))),
    )
