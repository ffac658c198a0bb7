"""Forecasts of failures from histories of failures: GPUs, disks, anything with units and places.

A unit is what fails (a serial number, or a slot whose disk is replaced); places are what it shares
with others (node, cabinet, enclosure, batch). Whoever asks gets a probability per unit.
"""

from __future__ import annotations

from steward.learn.failures.forecasts import FailureForecasts
from steward.learn.failures.history import FailureHistory
from steward.learn.failures.history_files import read_history
from steward.learn.failures.scores import ForecastScore, score

__all__ = ["FailureForecasts", "FailureHistory", "ForecastScore", "read_history", "score"]
