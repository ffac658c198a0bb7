"""A fault as a line reports it, an episode of such faults, and an incident: with what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import nan

from steward.model.faults.remedies import Part, Remedy

__all__ = ["Episode", "Fault", "FaultKind", "Incident"]


class FaultKind(Enum):
    """Which form of line a fault was read from."""

    XID = "xid"
    LOST = "lost"  # fallen off the bus, without a code
    FIRMWARE = "firmware"  # the GPU's system processor is silent, without a code
    DRIVER = "driver"  # the driver cannot use a GPU
    SXID = "sxid"  # a switch of NVLink
    PCIE = "pcie"
    HOST_MEMORY = "host-memory"
    NETWORK = "network"
    GPU_STATE = "gpu-state"  # counters of a GPU's memory, read from the GPU
    SILENCE = "silence"  # nodes that answer no more


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One line, or the lines that one fault is written in.

    `device` is a place on the bus (`0000:3b:00`), a switch (`nvswitch2`), a memory controller or
    an interface; `detail` what the line says beyond that: pid, process, link, registers.
    """

    kind: FaultKind
    device: str
    code: int | None = None
    fatal: bool | None = None  # None: the line does not say
    text: str = ""
    detail: Mapping[str, str] = field(default_factory=dict)
    t_s: float = nan  # unknown where lines have no time
    node: str = ""
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """Faults of one kind and code on one device, of which none is far from the next.

    `cause` is the id of the episode that this one follows from; empty: it is primary. `processes`
    and `spots` are the different ones that its lines name (`spots`: where on the device).
    """

    id: str
    kind: FaultKind
    code: int | None
    node: str
    device: str  # serial number or UUID where it is known, else its place on the bus
    t_s: float
    until_s: float
    count: int
    fatal: bool | None = None
    text: str = ""
    detail: Mapping[str, str] = field(default_factory=dict)
    processes: frozenset[str] = frozenset()
    spots: frozenset[str] = frozenset()
    places: tuple[str, ...] = ()  # files and lines, the first few
    cause: str = ""

    @property
    def is_timed(self) -> bool:
        """Return whether it is known when it was."""
        return self.t_s == self.t_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """An episode with what it means and what should be done about it."""

    episode: Episode
    meaning: str
    part: Part
    remedy: Remedy
    why: str  # of the remedy

    @property
    def primary(self) -> bool:
        """Return whether it is a cause, and not a consequence."""
        return not self.episode.cause

    @property
    def fatal(self) -> bool:
        """Return whether jobs have to leave the GPU for it."""
        return self.primary and self.remedy.takes_gpu
