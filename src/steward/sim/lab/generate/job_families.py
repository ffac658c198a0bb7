"""The synthetic layer: users, families of jobs, outcomes. No public trace here has them.

Measured: how jobs end (below), how alike jobs of one burst run (fitted). Assumed: everything
else, namely how users share a tenant's jobs and how often a family comes again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["OUTCOMES", "Families", "Outcomes", "draw_families"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# A few users submit most jobs: rank r of a tenant's users gets a share in proportion to
# r ** -ZIPF. Assumed; the trace papers only say that users are very unequal.
ZIPF = 1.1
# How often a burst repeats one of the user's recent families of that size. Assumed.
REPEATS = 0.8
RECENT = 8  # families that a user goes back to


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """How GPU jobs end, as shares of jobs and of GPU time: completed, cancelled, failed."""

    of_jobs: tuple[float, float, float]
    of_gpu_time: tuple[float, float, float]


# Origin: `acme_summary/cluster_summary.csv` (complete_rate_gpu, cancel_rate_gpu, fail_rate_gpu
# and the same of GPU time; Hu et al., NSDI'24). The Helios row agrees with the total of
# `helios_earth_series/helios_cluster_summary.csv` (Hu et al., SC'21): 0.624, 0.221, 0.155.
OUTCOMES = {
    "helios": Outcomes(of_jobs=(0.624, 0.221, 0.155), of_gpu_time=(0.513, 0.394, 0.093)),
    "seren": Outcomes(of_jobs=(0.497, 0.075, 0.428), of_gpu_time=(0.212, 0.664, 0.124)),
    "kalos": Outcomes(of_jobs=(0.541, 0.062, 0.397), of_gpu_time=(0.313, 0.607, 0.080)),
    "philly": Outcomes(of_jobs=(0.604, 0.091, 0.305), of_gpu_time=(0.321, 0.294, 0.385)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Families:
    """Per burst: its family and user; per family: where its run time lies among all (normal)."""

    family: Ints
    user: Ints
    names: tuple[str, ...]  # of families
    users: tuple[str, ...]
    level: Floats  # per family


def draw_families(
    rng: np.random.Generator, tenant: Ints, gpus: Floats, *, names: tuple[str, ...], users: int
) -> Families:
    """Give each burst a user of its tenant and a family: one of the user's recent ones, or new."""
    rank = np.arange(1, users + 1) ** -ZIPF
    who = rng.choice(users, size=len(tenant), p=rank / rank.sum())
    anew = rng.random(len(tenant)) >= REPEATS
    which = rng.random(len(tenant))
    recent: dict[tuple[int, int, float], list[int]] = {}
    seen: dict[tuple[int, int], int] = {}
    family = np.empty(len(tenant), np.int64)
    user = np.empty(len(tenant), np.int64)
    made: list[str] = []
    for i, (t, u, g) in enumerate(zip(tenant.tolist(), who.tolist(), gpus.tolist(), strict=True)):
        user[i] = seen.setdefault((t, u), len(seen))
        own = recent.setdefault((t, u, g), [])
        if anew[i] or not own:
            own.append(len(made))
            del own[:-RECENT]
            made.append(f"{names[t]}-u{u:02d}-f{len(made):05d}")
            family[i] = own[-1]
        else:
            family[i] = own[int(which[i] * len(own))]
    return Families(
        family=family,
        user=user,
        names=tuple(made),
        users=tuple(f"{names[t]}-u{u:02d}" for t, u in seen),
        level=rng.standard_normal(len(made)),
    )
