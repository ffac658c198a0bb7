"""The elastic engine: rounds in which jobs may change their size, progress by measured profiles.

`running.py` is one job's progress, `record.py` what happened, `engine.py` the rounds. Policies
are in `decide/scheduling/elastic`.
"""

from steward.sim.lab.elastic.engine import replay_elastic

__all__ = ["replay_elastic"]
