"""Does the step-time model predict steps that it was not fitted to?

Half of the points of each model in `serving_truth.csv` (or of `--profile FILE`) are held out, by
seed; the error on those is reported for 20 splits. The bar is on the worst of them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from report import bar, finish, progress
from steward.learn.step_profiles import Profile, read_profiles
from steward.learn.step_times import fit_step_times, relative_errors
from steward.sim.traces.locate import data_folder

SPLITS = 20
HELD_OUT_SHARE = 0.5


def main() -> None:
    """Fit on one half, look at the other."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    usual = data_folder().parent / "h200" / "serving_truth.csv"
    parser.add_argument("--profile", type=Path, default=usual)
    parser.add_argument("--quick", action="store_true", help="one split only")
    given = parser.parse_args()
    splits = 1 if given.quick else SPLITS
    results = {each.model: errors_of(each, splits) for each in read_profiles(given.profile)}
    bars = [
        bar(
            f"{model}: median error on points held out, worst split",
            row["median_error_of_splits"]["worst"],
            "<=",
            0.05,
        )
        for model, row in results.items()
    ]
    finish("serving_step_times", results, bars)


def errors_of(profile: Profile, splits: int) -> dict[str, Any]:
    """Return the errors on points held out, over so many splits."""
    medians, tails = [], []
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(profile.steps))
        cut = int(len(order) * HELD_OUT_SHARE)
        held_out = [profile.steps[row] for row in order[:cut]]
        times = fit_step_times([profile.steps[row] for row in order[cut:]])
        errors = relative_errors(times, held_out)
        medians.append(float(np.median(errors)))
        tails.append(float(np.quantile(errors, 0.9)))
        progress(f"{profile.model} split {seed}: {medians[-1]:.1%} (90 %: {tails[-1]:.1%})")
    return {
        "points": len(profile.steps),
        "held_out": cut,
        "median_error": medians[0],
        "p90_error": tails[0],
        "median_error_of_splits": {"median": float(np.median(medians)), "worst": max(medians)},
        "fitted_to_all": fit_step_times(profile.steps).coefficients(),
    }


if __name__ == "__main__":
    main()
