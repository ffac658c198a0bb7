"""Tests of a node before it comes back: products, memory, copies between GPUs, sums over all.

Small, and ours: no vendor's package is needed. With torch, GPUs are tested; without, the processor
and the memory of the host are. What cannot be tested is never called well.
"""

from __future__ import annotations

from steward.health.diagnosis.report import CheckResult, Diagnosis, kernel_line
from steward.health.diagnosis.run import Plan, diagnose

__all__ = ["CheckResult", "Diagnosis", "Plan", "diagnose", "kernel_line"]
