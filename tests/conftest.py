"""What holds for every test."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings

# How long an example takes says more about the machine than about the code: claims about speed
# are benchmarks.
settings.register_profile("steward", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steward")

# A steward that runs on this machine has the usual place; tests must not meet it.
os.environ["STEWARD_MARKS"] = str(Path(tempfile.mkdtemp(prefix="steward-marks-")) / "marks.sock")
