"""What was noticed: findings with the samples behind them, and patterns with their counts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from steward.model.identity import FindingId, GpuId, JobId, TenantId

__all__ = ["Evidence", "Finding", "Pattern", "Severity"]


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
