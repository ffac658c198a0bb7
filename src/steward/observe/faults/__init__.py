"""Reads faults of hardware out of logs of the kernel.

Belongs here: forms of lines, and files of them: times, hosts, what was read already, and which GPU
was at which place on the bus. Does not: what faults mean together (`learn.faults`).
"""

from __future__ import annotations

from steward.observe.faults.files import FaultLog, read_faults
from steward.observe.faults.forms import fault_of, identity_of, place_of

__all__ = ["FaultLog", "fault_of", "identity_of", "place_of", "read_faults"]
