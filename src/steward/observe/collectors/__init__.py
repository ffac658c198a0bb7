"""What can be looked at, one file per source; the table maps a name to what makes its plug.

Belongs here: turning one source's words into rows, events and jobs. Does not: names and units of
our own (`observe` translates once) or anything that speaks to the outside (`clients`).
"""

from __future__ import annotations

from steward.observe.collectors.host import Host
from steward.observe.collectors.job_map import JobMap
from steward.observe.collectors.nvml import Nvml
from steward.ports import Collector

__all__ = ["COLLECTORS"]

COLLECTORS: dict[str, type[Collector]] = {"host": Host, "job-map": JobMap, "nvml": Nvml}
