"""The real Slurm of the tests, its load and its steward, for benchmarks."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # its `beds` start real servers

from beds.slurm import GPUS, SlurmBed, slurm_bed
from beds.slurm_load import (
    ACCOUNTS,
    GUARANTEES,
    SAVE_S,
    LoadJob,
    Written,
    mixed_load,
    submit,
    written,
)
from beds.slurm_pool import pool
from beds.slurm_steward import SlurmSteward

__all__ = [
    "ACCOUNTS",
    "GPUS",
    "GUARANTEES",
    "SAVE_S",
    "LoadJob",
    "SlurmBed",
    "SlurmSteward",
    "Written",
    "mixed_load",
    "pool",
    "slurm_bed",
    "submit",
    "written",
]
