"""What holds for every test."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numba
from hypothesis import HealthCheck, settings

import steward.compiled  # noqa: F401 - it sets where machine code is kept

# How long an example takes says more about the machine than about the code: claims about speed
# are benchmarks.
untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

# The same commit gives the same answer, on every machine: what a new seed finds is news about the
# code, not about the change that is being judged. `make explore` draws new examples, many more.
settings.register_profile("steward", untimed, derandomize=True)
settings.register_profile("explore", untimed, print_blob=True)
settings.load_profile("steward")

# A steward that runs on this machine has the usual place; tests must not meet it.
os.environ["STEWARD_MARKS"] = str(Path(tempfile.mkdtemp(prefix="steward-marks-")) / "marks.sock")

# Programs that tests start have other homes, or none: without this they compile everything anew.
os.environ["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR
