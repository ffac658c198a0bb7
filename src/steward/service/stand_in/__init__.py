"""A server without a model: the OpenAI API and vLLM's metrics, in real time on simulated steps.

For tests, demonstrations and benchmarks without a GPU. Not for anything that reads the answers.
"""

from __future__ import annotations

from steward.service.stand_in.app import RunningStandIn, stand_in
from steward.service.stand_in.settings import FaultShares, StandInSettings

__all__ = ["FaultShares", "RunningStandIn", "StandInSettings", "stand_in"]
