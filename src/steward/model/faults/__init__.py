"""Faults of hardware and drivers: lines that were read, incidents made of them, codes, remedies."""

from __future__ import annotations

from steward.model.faults.accounting import (
    AnswerSpan,
    Blackout,
    JobEnd,
    JobSpan,
    NodeSpell,
    NodeUse,
)
from steward.model.faults.case import FaultCase
from steward.model.faults.fault import Episode, Fault, FaultKind, Incident
from steward.model.faults.gpus import (
    GpuSighting,
    GpuStay,
    GpuUnit,
    Inventory,
    inventory_of,
    short_host,
)
from steward.model.faults.nvlink5 import Nvlink5Rule, nvlink5_rule
from steward.model.faults.remedies import Part, Remedy
from steward.model.faults.sxids import SXIDS
from steward.model.faults.xids import NVLINK5, OPINIONS, XIDS, Xid, meaning_of

__all__ = [
    "NVLINK5",
    "OPINIONS",
    "SXIDS",
    "XIDS",
    "AnswerSpan",
    "Blackout",
    "Episode",
    "Fault",
    "FaultCase",
    "FaultKind",
    "GpuSighting",
    "GpuStay",
    "GpuUnit",
    "Incident",
    "Inventory",
    "JobEnd",
    "JobSpan",
    "NodeSpell",
    "NodeUse",
    "Nvlink5Rule",
    "Part",
    "Remedy",
    "Xid",
    "inventory_of",
    "meaning_of",
    "nvlink5_rule",
    "short_host",
]
