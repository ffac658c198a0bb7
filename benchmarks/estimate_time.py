"""Step time of models and of GPUs that no fit saw.

H200: leave models out (8 folds, two splits), and leave families out; everything is fitted
inside. The form of the model (classes of operators, host against device) was chosen on all rows.
NeuSight's rows: leave one GPU out, without runs of it and after its three cheapest ones of three
models; errors on the other rows of that GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from model_gpus import Held, held_out_gpus
from model_traces import Row, calibrate_time, family_of, folds, peer_rows, rows, timed
from report import bar, finish, progress, quick
from steward.learn.estimators.model_graphs.calibration import costs_of
from steward.learn.estimators.model_graphs.gpu_types import gpu_type


def main() -> None:
    """Print errors by family, of a roofline at peak rates, and on other GPUs."""
    few = quick()
    found, peers = rows(few=few), peer_rows()
    seeds = (0,) if few else (0, 1)
    by_split = [_unseen(found, peers, seed, lambda row: row.record["model"]) for seed in seeds]
    families = _unseen(found, peers, 0, lambda row: family_of(row.record["model"]))
    shared = [number for number, row in enumerate(found) if row.source == "shared"]
    errors = np.mean([[split[number][0] for number in shared] for split in by_split], 0)
    hosts = np.array([by_split[0][number][1] for number in shared])
    held = held_out_gpus(found, peers)
    nvidia = [each for each in held if gpu_type(each.row.device).vendor == "nvidia"]
    amd = [each for each in held if gpu_type(each.row.device).vendor == "amd"]
    figures: dict[str, Any] = {
        "rows": len(shared),
        "mean_error": float(errors.mean()),
        "mean_error_by_split": [
            float(np.mean([split[number][0] for number in shared])) for split in by_split
        ],
        "median_error": float(np.median(errors)),
        "mean_error_families_left_out": float(np.mean([families[number][0] for number in shared])),
        "within_limits_share": float(
            np.mean([split[number][2] for split in by_split for number in shared])
        ),
        "mean_error_where_the_device_decides": float(errors[hosts < 0.5].mean()),
        "mean_error_where_the_host_decides": float(errors[hosts >= 0.5].mean()),
        "same_configuration_measured_twice": _repeats(found),
        "by_family": {
            name: float(
                np.mean(
                    [errors[at] for at, number in enumerate(shared) if found[number].family == name]
                )
            )
            for name in sorted({found[number].family for number in shared})
        },
        "baseline_peak_roofline_mean_error": float(
            np.mean([abs(_roofline(found[number])) for number in shared])
        ),
        "neusight_rows": {"nvidia": _gpus(nvidia), "amd": _gpus(amd)},
        "by_gpu": {
            device: _gpus([each for each in held if each.row.device == device])
            for device in sorted({each.row.device for each in held})
        },
    }
    with_runs = figures["neusight_rows"]["nvidia"]["with_3_runs"]
    finish(
        "estimate_time",
        figures,
        [
            bar("H200, unseen models, mean error", figures["mean_error"], "<=", 0.12),
            bar("unseen GPU with 3 runs, mean error", with_runs, "<=", 0.09),
        ],
    )


def _unseen(
    found: Sequence[Row], peers: Sequence[Any], seed: int, key: Callable[[Row], str]
) -> list[tuple[float, float, bool]]:
    """Return for each row its error, the host's share, and whether the limits hold.

    Those of the repository's own rows ran on a host of another speed and are not reported.
    """
    number = {id(row): at for at, row in enumerate(found)}
    answers: list[tuple[float, float, bool]] = [(0.0, 0.0, False)] * len(found)
    for inside, held in folds(found, 8, seed=seed, key=key):
        record = calibrate_time(inside, peers, inner=2)
        costs = costs_of(record["costs"])
        for row in held:
            time = timed(row, costs)
            likely, host = time.seconds * record["time_bias"], time.host_share
            low, high = next(
                (each[1:] for each in record["time_limits"] if host <= each[0]),
                record["time_limits"][-1][1:],
            )
            inside_limits = likely * low <= row.step.seconds <= likely * high
            answers[number[id(row)]] = (abs(likely / row.step.seconds - 1), host, inside_limits)
    progress(f"split {seed} done")
    return answers


def _repeats(found: Sequence[Row]) -> dict[str, float]:
    """Return how far measurements of one configuration lie apart: an answer may be off by half."""
    groups: dict[tuple[str, ...], list[float]] = {}
    names = ("model", "mode", "batch", "seq", "amp", "grad_ckpt")
    for row in found:
        key = (*(row.record[name] for name in names), row.source)
        if row.record["mode"] == "train":
            key = (*key, row.record["opt"])
        groups.setdefault(key, []).append(row.step.seconds)
    pairs = [each for each in groups.values() if len(each) > 1]
    apart = [max(each) / min(each) - 1 for each in pairs]
    return {
        "configurations": len(pairs),
        "mean": float(np.mean(apart)) if apart else 0.0,
        "largest": max(apart, default=0.0),
    }


def _roofline(row: Row) -> float:
    names = row.step.ways[3]
    ideal = float(names.sum()) - float(row.step.ways[3][-13:].sum())
    return ideal / row.step.seconds - 1


def _gpus(held: Sequence[Held]) -> dict[str, Any]:
    with_runs = [each.with_runs for each in held if each.with_runs is not None]
    peer = [each.row.predicted_s / each.row.step.seconds - 1 for each in held]
    same = [each.row for each in held if each.with_runs is not None]
    peer_same = [each.predicted_s / each.step.seconds - 1 for each in same]
    return {
        "rows": len(held),
        "without_runs": _mean([each.without_runs for each in held]),
        "with_3_runs": _mean(with_runs),
        "rows_with_3_runs": len(with_runs),
        "neusight": float(np.mean(np.abs(peer))),
        "neusight_on_rows_with_3_runs": float(np.mean(np.abs(peer_same))) if same else None,
    }


def _mean(logs: Sequence[float]) -> float | None:
    return float(np.mean(np.abs(np.exp(np.negative(logs)) - 1))) if logs else None


if __name__ == "__main__":
    main()
