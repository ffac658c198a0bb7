"""Estimators of how much work the requests are that wait for model servers."""

from steward.learn.estimators.serving.learned_waits import LearnedWaits
from steward.ports import ServingEstimator

__all__ = ["SERVING_ESTIMATORS"]

SERVING_ESTIMATORS: dict[str, type[ServingEstimator]] = {"learned-waits": LearnedWaits}
