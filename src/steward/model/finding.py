"""What was noticed: findings with the samples behind them, and patterns with their counts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

from steward.model.faults import FaultCase
from steward.model.identity import FindingId, GpuId, JobId, TenantId
from steward.model.treatment import Treatment

__all__ = [
    "TRUSTED",
    "Evidence",
    "Finding",
    "Opinion",
    "Pattern",
    "Quote",
    "Recurrence",
    "Severity",
]

TRUSTED = 0.4  # below this weight of a rule, what it would do is only said


class Severity(Enum):
    """How much a finding matters, least first."""

    NOTE = "note"
    WASTE = "waste"
    FAULT = "fault"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Where the samples are that a finding rests on, and what they say."""

    entity: str
    metric: str
    from_s: float
    to_s: float
    says: str
    threshold: float | None = None  # what the series was held against, where that is one number


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A line that a finding rests on, as it was written."""

    t_s: float
    text: str
    stream: str  # a file, a unit, a container
    line: int = 0  # its number there; 0 if unknown
    entity: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something worth knowing. Its id comes from rule, subject and `since_s`: it is found once."""

    id: FindingId
    t_s: float
    rule: str
    subject: str
    title: str
    severity: Severity
    since_s: float
    evidence: tuple[Evidence, ...]
    job: JobId | None = None
    tenant: TenantId | None = None
    gpus: tuple[GpuId, ...] = ()
    quotes: tuple[Quote, ...] = ()
    hits: int = 1  # matches of its rule so far; later ones are recurrences
    weight: float = 0.5  # how far its rule was right before; 0.5 while that is unknown
    treatment: Treatment | None = None  # what its rule would do about it
    fault: FaultCase | None = None  # where it is about hardware: what is known of the node

    @property
    def place(self) -> str:
        """The one GPU that it is about, else its subject: a node, a job, or another entity."""
        return self.gpus[0] if len(self.gpus) == 1 else self.subject

    @property
    def keeps_out(self) -> bool:
        """Whether a node that was drained does not come back while this is found."""
        by_rule = self.treatment is not None and self.treatment.action == "drain"
        return by_rule or self.fault is not None

    @property
    def is_trusted(self) -> bool:
        """Whether its rule was right often enough that something may be done about it."""
        return self.weight >= TRUSTED

    @property
    def offers_gpus(self) -> bool:
        """Whether its GPUs are idle and may be lent, as far as it can tell."""
        can_lend = self.treatment is None or self.treatment.action == "lend"
        return self.severity is Severity.WASTE and self.job is not None and can_lend


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    """How often a finding's rule matched again between `from_s` and `t_s`."""

    finding: FindingId
    rule: str
    from_s: float
    t_s: float
    hits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """What a person said about a finding: that it is so, or that it is not worth knowing."""

    finding: FindingId
    rule: str
    t_s: float
    opinion: Literal["confirm", "dismiss"]
    user: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """Something that keeps happening: `hits` of `cases`, and the range the true share lies in."""

    id: str
    t_s: float
    miner: str
    statement: str
    hits: int
    cases: int
    low_share: float
    high_share: float
