"""What is known of kinds of work before any run was seen: ranges of features, by mechanics.

Three or four runs a kind are too few to learn which features matter to it: a straggler may train
any model, and its kernels tell nothing. Each signature names the features that do, with the range
in which they are expected; a run loses points for how far it is outside. A classifier takes these
points as further features and as a prior. A kind without a signature is learnt from runs alone.

Ranges were set from the mechanics and by looking at the 49 runs of `kinds_*` on an H200. What
they are worth there is therefore not evidence; `docs/learn/kinds.md` says what is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from steward.learn.workloads.features import FEATURES

__all__ = ["MOST_LOST", "SIGNATURES", "coarse_of", "points"]

Floats = NDArray[np.float64]
Ranges = Mapping[str, tuple[float, float]]

MOST_LOST = 4.5  # points that one feature can lose: three units outside of its range
FAR = 99.0

# How far outside of a range one unit is.
_UNIT: Mapping[str, float] = {
    "backward_rate": 1.0, "quiet": 0.1, "gone": 0.1, "longest_quiet": 0.7, "sm": 0.08,
    "sm_top": 0.08, "util": 0.1, "rx": 1.2, "rx_per_step": 0.8, "tensor_sm": 0.6, "fp32_sm": 0.6,
    "busy_occupancy": 0.12, "busy_dram": 0.25, "busy_tensor": 0.6, "user": 0.8, "written": 1.0,
    "host_free": 0.08, "spin": 0.06, "memory": 1.0, "spread": 0.25, "waiting": 0.08,
    "host_over": 0.8, "starved": 0.8, "stall": 0.06, "system": 0.3,
}  # fmt: skip
_STEADY: Ranges = {
    "quiet": (0, 0.12), "written": (-1, 2), "host_free": (0, 0.15), "spin": (0, 0.05)
}  # fmt: skip
_QUICK: Ranges = {"written": (-1, 2), "host_free": (0, 0.15), "spin": (0, 0.05)}

# A kind may have several signatures: the best one counts.
SIGNATURES: Mapping[str, Sequence[Ranges]] = {
    # the job holds its GPU: nothing is launched, nothing is sent
    "idle-allocated": (
        {"sm": (0, 0.07), "backward_rate": (0, 1.2), "gone": (0.8, 1), "written": (-1, 1.5),
         "rx": (0, 2.5)},
    ),
    # nothing else writes to disk as much
    "checkpoint-heavy": ({"written": (3, FAR), "sm_top": (0.3, 1)},),
    # long steps, a GPU that waits in each, and a host at work: in one loop, or beyond it
    "input-bound": (
        {"backward_rate": (0.8, 4.2), "waiting": (0.2, 1), "starved": (0.4, 9),
         "sm_top": (0.4, 1), **_QUICK},
        {"backward_rate": (0.8, 7.5), "waiting": (0.3, 1), "host_over": (-1, 9),
         "sm_top": (0.3, 1), **_QUICK},
    ),
    # full steps between waits in which the host sleeps, or the GPU spins
    "straggler": (
        {"backward_rate": (1, 5), "stall": (0.14, 1), "written": (-1, 2), "sm_top": (0.3, 1)},
    ),
    # one busy loop of launches, steady, and kernels too small for the GPU
    "tiny-batches": (
        {"backward_rate": (4.3, 8), "sm": (0.015, 0.22), "util": (0.08, 0.5),
         "rx_per_step": (-1.2, 1.7), "spread": (0, 0.3), **_STEADY},
    ),
    # even smaller kernels of low occupancy between steps of an environment
    "rl-train": (
        {"backward_rate": (3, 9), "sm": (0, 0.055), "util": (0.03, 0.25),
         "rx_per_step": (-4, 0.9), "memory": (9, 11.3), "busy_occupancy": (-4.5, -1.7),
         "written": (-1, 2)},
    ),
    # recurrent kernels leave most warps out; without them, many launches per step
    "rnn-train": (
        {"backward_rate": (2.5, 6.5), "sm": (0.25, 1), "busy_occupancy": (-3.2, -1.6),
         "busy_dram": (-4.5, -1.2), **_STEADY},
        {"backward_rate": (3, 6.5), "sm": (0.03, 0.35), "rx_per_step": (1.9, 4.5),
         "tensor_sm": (-12, -2.5), "memory": (9, 12.5), **_STEADY},
    ),
    # quick steps, little arithmetic for the memory that moves
    "recsys-train": (
        {"backward_rate": (5.2, 8.5), "busy_occupancy": (-1.6, -0.85), "rx_per_step": (-1, 4),
         "sm": (0.14, 1), "busy_dram": (-2.8, 0), **_STEADY},
    ),
    # few large kernels without tensor cores; or a host that samples neighbours
    "graph-train": (
        {"backward_rate": (3.5, 7.5), "tensor_sm": (-12, -5.5), "rx_per_step": (-3, 0.2),
         "sm": (0.45, 1), "busy_occupancy": (-1.4, -0.5), **_STEADY},
        {"backward_rate": (4, 9), "tensor_sm": (-12, -4.5), "host_over": (0.5, 9), "sm": (0, 0.3),
         "rx": (5, 14), "written": (-1, 2)},
    ),
    # convolutions and normalisations of small images: the highest occupancy
    "diffusion-train": (
        {"backward_rate": (2, 7), "busy_occupancy": (-0.75, -0.48), "tensor_sm": (-3.6, -1.7),
         "sm": (0.6, 1), **_STEADY},
    ),
    "vision-train": (
        {"backward_rate": (2.2, 5.7), "busy_occupancy": (-1, -0.72), "tensor_sm": (-3.7, -1.7),
         "sm": (0.4, 1), "memory": (11.8, 17), **_QUICK},
        {"backward_rate": (2, 6), "busy_occupancy": (-1.5, -0.5), "fp32_sm": (-2.6, 0),
         "tensor_sm": (-12, -4), "sm": (0.6, 1), "memory": (12, 17), **_QUICK},
    ),
    # matrix products of lower occupancy, and more memory for the states
    "language-train": (
        {"backward_rate": (1.7, 5.2), "busy_occupancy": (-1.6, -0.9), "tensor_sm": (-2.9, -0.7),
         "sm": (0.45, 1), "memory": (11.8, 17), **_STEADY},
    ),
    # the same without backward passes
    "language-prefill": (
        {"backward_rate": (0, 0.5), "sm_top": (0.5, 1), "tensor_sm": (-2.4, 0),
         "busy_occupancy": (-2.2, -1), "rx": (0, 6.5), "busy_dram": (-3, -1.2),
         "written": (-1, 2)},
    ),
    # bound by memory, or by launches of small kernels
    "language-decode": (
        {"backward_rate": (0, 0.5), "tensor_sm": (-5, -1), "busy_occupancy": (-3.2, -1),
         "rx": (2, 8), "busy_dram": (-1.6, 0), "written": (-1, 2), "memory": (11, 17)},
    ),
    # images come from the host, or requests come now and then
    "vision-infer": (
        {"backward_rate": (0, 0.5), "busy_occupancy": (-1.4, -0.7), "tensor_sm": (-5.5, -1.6),
         "memory": (10, 12.4), "written": (-1, 2), "longest_quiet": (-4, 1)},
        {"host_free": (0.3, 1), "sm": (0.005, 0.3), "sm_top": (0.01, 0.35), "rx": (2, 12),
         "memory": (10, 12.4), "tensor_sm": (-5.5, -1.2), "written": (-1, 2)},
    ),
}  # fmt: skip

_PLACE = {name: place for place, name in enumerate(FEATURES)}
_COARSE = {
    "idle-allocated": "waste",
    "input-bound": "waste",
    "straggler": "waste",
    "checkpoint-heavy": "waste",
    "tiny-batches": "waste",
}
_ENDINGS = {
    "train": "training",
    "training": "training",
    "finetune": "training",
    "infer": "inference",
    "inference": "inference",
    "prefill": "inference",
    "decode": "inference",
    "serve": "inference",
}


def coarse_of(kind: str) -> str:
    """Return the group of a kind: training, inference, waste, or the kind itself.

    >>> coarse_of("audio-train"), coarse_of("straggler"), coarse_of("video")
    ('training', 'waste', 'video')
    """
    ending = kind.replace("_", "-").rsplit("-", 1)[-1]
    return _COARSE.get(kind) or _ENDINGS.get(ending, kind)


def points(features: Floats, kinds: Sequence[str]) -> Floats:
    """Return `points[window, kind]`, 0 at best; NaN for kinds without a signature."""
    found = np.full((len(features), len(kinds)), np.nan)
    for place, kind in enumerate(kinds):
        ranges = SIGNATURES.get(kind, ())
        if ranges:
            found[:, place] = np.max([_points(features, each) for each in ranges], axis=0)
    return found


def _points(features: Floats, ranges: Ranges) -> Floats:
    """Return the points of one signature: a feature that was not measured loses none."""
    lost = np.zeros(len(features))
    for name, (low, high) in ranges.items():
        value = features[:, _PLACE[name]]
        outside = np.fmax(np.fmax(low - value, value - high), 0.0) / _UNIT[name]
        lost += np.minimum(0.5 * np.nan_to_num(outside) ** 2, MOST_LOST)
    return -lost
