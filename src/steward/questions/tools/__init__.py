"""The read-only tools: what the grammar, a model that plans and other assistants all call."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from steward.questions.tools.cluster import ClusterArguments, QueueArguments, cluster, queue
from steward.questions.tools.decisions import (
    DecisionArguments,
    OutcomeArguments,
    decisions,
    outcomes,
)
from steward.questions.tools.findings import FindingArguments, findings
from steward.questions.tools.health import HealthArguments, StewardArguments, health, steward
from steward.questions.tools.jobs import JobArguments, jobs
from steward.questions.tools.rules import RuleArguments, rules
from steward.questions.tools.savings import SavingsArguments, savings
from steward.questions.tools.serving import (
    DocsArguments,
    PlanArguments,
    ServingArguments,
    docs,
    plans,
    serving,
)
from steward.questions.tools.shapes import Tool
from steward.questions.tools.telemetry import TelemetryArguments, telemetry

__all__ = ["TOOLS", "Tool"]

_ALL = (
    Tool(
        name="jobs",
        title="Jobs",
        description="One job that waits or runs: its state, why it waits, when it starts or ends, "
        "how it uses its GPUs, where it is; or the jobs of one user.",
        arguments=JobArguments,
        run=jobs,
    ),
    Tool(
        name="queue",
        title="Queue",
        description="How many jobs wait, for how many GPUs, and which has waited longest.",
        arguments=QueueArguments,
        run=queue,
    ),
    Tool(
        name="cluster",
        title="Cluster",
        description="What GPUs do now: all together, free ones, one GPU, one node, tenants against "
        "their share, and whose GPUs are lent to whom.",
        arguments=ClusterArguments,
        run=cluster,
    ),
    Tool(
        name="telemetry",
        title="Telemetry",
        description="Average, highest or lowest power, temperature, use or memory of a GPU over a "
        "time; without an entity, the GPUs with most or least of it.",
        arguments=TelemetryArguments,
        run=telemetry,
    ),
    Tool(
        name="findings",
        title="Findings",
        description="What steward noticed (faults, waste) in a time, or one finding explained.",
        arguments=FindingArguments,
        run=findings,
    ),
    Tool(
        name="decisions",
        title="Decisions",
        description="What steward decided in a time or what waits for a person's approval, or one "
        "decision explained with its reason, approval, deed and outcome.",
        arguments=DecisionArguments,
        run=decisions,
    ),
    Tool(
        name="outcomes",
        title="Outcomes",
        description="How decisions turned out against what they promised.",
        arguments=OutcomeArguments,
        run=outcomes,
    ),
    Tool(
        name="savings",
        title="Savings",
        description="GPU-hours, money, energy and CO2 that outcomes measured as saved; in all, by "
        "action or by tenant.",
        arguments=SavingsArguments,
        run=savings,
    ),
    Tool(
        name="rules",
        title="Rules",
        description="What a rule looks for and how often it was right; or which rules match most.",
        arguments=RuleArguments,
        run=rules,
    ),
    Tool(
        name="health",
        title="Health",
        description="Failed GPUs, draining nodes, and the faults noticed in a time.",
        arguments=HealthArguments,
        run=health,
    ),
    Tool(
        name="plans",
        title="Plans",
        description="Where a job that is not submitted yet should run, and what that costs.",
        arguments=PlanArguments,
        run=plans,
    ),
    Tool(
        name="serving",
        title="Serving",
        description="Gateways and model servers: instances, queues, deadlines kept.",
        arguments=ServingArguments,
        run=serving,
    ),
    Tool(
        name="docs",
        title="Documentation",
        description="Search steward's documentation: how to do something, what a word means.",
        arguments=DocsArguments,
        run=docs,
    ),
    Tool(
        name="steward",
        title="Steward",
        description="Whether steward itself runs, its autonomy, its circuit breaker, its faults.",
        arguments=StewardArguments,
        run=steward,
    ),
)

TOOLS: Mapping[str, Tool] = MappingProxyType({each.name: each for each in _ALL})
