"""Comparisons of policies that people start from the dashboard or the API, one at a time.

Belongs here: requests, the process that runs them, and their results.
Does not: any replay or figure (`steward.sim.lab`), and how it looks (`service/pages/lab`).
"""

from __future__ import annotations

from steward.service.lab.comparison_request import MOST_POLICIES, ComparisonRequest
from steward.service.lab.runs import LabRun, LabRuns, LabState

__all__ = ["MOST_POLICIES", "ComparisonRequest", "LabRun", "LabRuns", "LabState"]
