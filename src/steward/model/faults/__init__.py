"""Faults of hardware and drivers: lines that were read, incidents made of them, codes, remedies."""

from __future__ import annotations

from steward.model.faults.case import FaultCase
from steward.model.faults.fault import Episode, Fault, FaultKind, Incident
from steward.model.faults.remedies import Part, Remedy
from steward.model.faults.sxids import SXIDS
from steward.model.faults.xids import NVLINK5, OPINIONS, XIDS, Xid, meaning_of

__all__ = [
    "NVLINK5",
    "OPINIONS",
    "SXIDS",
    "XIDS",
    "Episode",
    "Fault",
    "FaultCase",
    "FaultKind",
    "Incident",
    "Part",
    "Remedy",
    "Xid",
    "meaning_of",
]
