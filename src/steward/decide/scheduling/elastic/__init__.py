"""Elastic policies: they choose how many GPUs a job has, round by round. Pure; one file each.

What they see and answer is in `moment.py`. Here belongs no clock, no progress of jobs (that is
the engine's) and no reading of profiles.
"""

from steward.decide.scheduling.elastic.elastic_tiresias import ElasticTiresias
from steward.decide.scheduling.elastic.interface import ElasticPolicy
from steward.decide.scheduling.elastic.optimus import Optimus
from steward.decide.scheduling.elastic.pollux import Pollux
from steward.decide.scheduling.elastic.sia import Sia

__all__ = ["ELASTIC_POLICIES"]

ELASTIC_POLICIES: dict[str, type[ElasticPolicy]] = {
    "elastic-tiresias": ElasticTiresias,
    "optimus": Optimus,
    "pollux": Pollux,
    "sia": Sia,
}
