"""What questions are answered from: one moment of a site, its journal and its telemetry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from steward.loop import LoopStatus
from steward.model.cluster_snapshot import ClusterSnapshot
from steward.model.finding import Finding
from steward.model.outcome import Assumptions
from steward.model.planning.plan import Plan
from steward.model.rules import RuleStanding, RuleStats
from steward.model.serving.gateway_snapshot import GatewaySnapshot
from steward.model.view import ClusterView
from steward.planning.question import PlanQuestion
from steward.ports import Policy
from steward.questions.documentation import Section
from steward.questions.ledger import Ledger
from steward.store.telemetry import Telemetry

__all__ = ["Gateway", "JobRecord", "Records"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """A gateway in front of model servers: its last report, or why there is none."""

    url: str
    snapshot: GatewaySnapshot | None
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """What everybody may know of a job that steward ran itself, also when it is over."""

    id: str
    name: str
    user: str
    tenant: str
    state: str
    since_s: float
    gpus: int
    exit_code: int | None


class Jobs(Protocol):
    """Finds jobs that steward runs or ran, by id and by user."""

    def __call__(self, *, id_: str = "", user: str = "") -> Sequence[JobRecord]: ...


def _no_jobs(*, id_: str = "", user: str = "") -> Sequence[JobRecord]:
    del id_, user
    return ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Records:
    """One moment of all that may be asked about. None is "nobody knows here"."""

    site: str
    now_s: float
    ledger: Ledger
    telemetry: Telemetry | None = None
    view: ClusterView | None = None  # None: no steward runs here now
    cluster: ClusterSnapshot | None = None
    scheduler: Policy[ClusterView] | None = None
    stops: bool = False  # whether jobs are stopped for others here
    status: LoopStatus | None = None
    version: str = ""
    rules: tuple[tuple[RuleStanding, RuleStats], ...] = ()
    gateways: tuple[Gateway, ...] = ()
    jobs: Jobs = _no_jobs
    plan: Callable[[PlanQuestion], tuple[Plan, tuple[str, ...]]] | None = None
    documentation: Sequence[Section] = ()
    simulated: bool = False

    @property
    def open_findings(self) -> tuple[Finding, ...]:
        """Findings that hold at this moment."""
        return self.view.findings if self.view is not None else ()

    @property
    def assumptions(self) -> Assumptions:
        """What turns GPU-hours into money, energy and carbon."""
        return self.ledger.assumptions
