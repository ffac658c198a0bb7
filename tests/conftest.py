"""What holds for every test."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# How long an example takes says more about the machine than about the code: claims about speed
# are benchmarks.
settings.register_profile("steward", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steward")
