"""Moments for policies that let jobs share: a test states only what it is about."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from steward.decide.scheduling.colocation.interface import ColocationView, FreeSpace, JobKind

BUSY = 1.0  # arrivals per second
NOWHERE = FreeSpace((), (), {})


def kind(gpus: float = 1.0, *, score: int = 0, want: int = 0, model: int = -1) -> JobKind:
    return JobKind(gpus, score, want, model)


def moment(*, fits: Sequence[int] = (), **changes: Any) -> ColocationView:
    """Return a busy cluster without a free GPU; `fits` are the jobs that find some."""
    floor = changes.pop("floor", NOWHERE)
    pairs = changes.pop("pairs", ())
    values: dict[str, Any] = {
        "t_s": 0.0,
        "total_gpus": 8,
        "arrivals_per_s": BUSY,
        "settled": False,
        "unprofiled": (),
        "waiting": {},
        "alone": {},
        "solos": {},
        "free_gpus": 0,
        "tried": (),
        "fits": set(fits).__contains__,
        "fits_profiling": lambda _: True,
        "may_join": lambda _, __: True,
        "can_share": lambda _, __: True,
        "pair_speeds": lambda _, __: (math.nan, math.nan),
        "pairs": lambda: pairs,
        "floor": lambda _: floor,
    }
    return ColocationView(**{**values, **changes})
