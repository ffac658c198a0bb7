"""What a replay was worth: waiting, use, fairness, money and energy, all from who ran when.

Belongs here: measures that follow from a `Replay` alone. Does not: running a policy, comparing
policies, or drawing.
"""

from __future__ import annotations

from steward.sim.lab.judge.judgement import judge
from steward.sim.lab.judge.measures import FIGURES, Measures, TenantMeasures, Timeline

__all__ = ["FIGURES", "Measures", "TenantMeasures", "Timeline", "judge"]
