"""Reads faults of hardware out of logs of the kernel.

Belongs here: forms of lines, and files of them: times, hosts, what was read already, and which GPU
was at which place on the bus. Does not: what faults mean together (`learn.faults`).
"""

from __future__ import annotations

from steward.observe.faults.dcgm_text import faults_of_dcgm, sightings_of_dcgm
from steward.observe.faults.driver_events import faults_of_events, sightings_of_devices
from steward.observe.faults.files import FaultLog, read_faults
from steward.observe.faults.forms import fault_of, identity_of, place_of
from steward.observe.faults.gpu_queries import (
    faults_of_query,
    read_gpu_query,
    sighting_of_query,
)
from steward.observe.faults.gpu_tables import read_inventory
from steward.observe.faults.presence import read_presence
from steward.observe.faults.sources import read_source

__all__ = [
    "FaultLog",
    "fault_of",
    "faults_of_dcgm",
    "faults_of_events",
    "faults_of_query",
    "identity_of",
    "place_of",
    "read_faults",
    "read_gpu_query",
    "read_inventory",
    "read_presence",
    "read_source",
    "sighting_of_query",
    "sightings_of_dcgm",
    "sightings_of_devices",
]
