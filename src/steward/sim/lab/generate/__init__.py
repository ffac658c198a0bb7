"""Traces that nobody recorded: fitted to one that was, scaled up, dealt anew, and written out.

Belongs here: whatever makes up jobs. All of it is labelled `synthetic`, and `docs/traces.md` says
which parts follow a real trace and which follow an assumption.
"""

from steward.sim.lab.generate.csv_file import write_csv
from steward.sim.lab.generate.fit import TraceModel, fit, model_from
from steward.sim.lab.generate.synthesis import Made, generate, make
from steward.sim.lab.generate.tenants import fair_quota, tenants_scenario

__all__ = [
    "Made",
    "TraceModel",
    "fair_quota",
    "fit",
    "generate",
    "make",
    "model_from",
    "tenants_scenario",
    "write_csv",
]
