"""Recogniser and observations for tests of rules in the loop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from factories import job, node, samples, view
from steward.decide.rules.live import RuleRecogniser
from steward.model.cluster import Health
from steward.model.event import LogLine, Observation
from steward.model.finding import Finding
from steward.model.rules import Clause, MetricTerm, Rule, RuleNode, Term
from steward.model.view import HEALTH_CODES, ClusterView

START_S = 1_700_000_000.0
GPU = "n1/gpu0"
LOST = Term(kind="value", text="fell off the bus")


def line_rule(name: str = "R-LOST-1", *, source: str = "cre.log.kernel", **more: Any) -> Rule:
    root = RuleNode(kind="set", clauses=(Clause(what=LOST),), source=source, origin=True)
    return Rule(id=name, key=name, hash=name, root=root, title="GPU lost", **more)


def metric_rule(
    expr: str = 'gpu_busy_share{job_id!=""} < 0.3', *, for_s: float = 60.0, **more: Any
) -> Rule:
    term = MetricTerm(expr=expr, for_s=for_s, origin=True)
    root = RuleNode(kind="set", clauses=(Clause(what=term),))
    name = "R-IDLE-1"
    return Rule(id=name, key=name, hash=name, root=root, title="idle", **more)


def line(t_s: float = 0.0, text: str = "NVRM: it fell off the bus", **more: Any) -> LogLine:
    values = {"entity": "n1", "source": "kernel", **more}
    return LogLine(t_s=START_S + t_s, text=text, **values)


def moment(t_s: float = 0.0, *, failed: str = "") -> ClusterView:
    """Return a moment in which j1 holds the first of two GPUs."""
    seen = view(node("n1", 2), jobs=[job("j1", on=[GPU])])
    health = seen.gpus.health.copy()
    health[[row for gpu, row in seen.gpu_row.items() if gpu == failed]] = HEALTH_CODES[Health.BAD]
    return replace(seen, t_s=START_S + t_s, gpus=replace(seen.gpus, health=health))


class Turns:
    """Run turns of the recogniser, ten seconds apart."""

    def __init__(self, *rules: Rule, **options: Any) -> None:
        self.rules = RuleRecogniser(rules, **{"patience_s": 0.0, **options})

    def look(self, t_s: float = 0.0, *, failed: str = "", **seen: Any) -> tuple[Finding, ...]:
        return self.rules.recognise(Observation(**seen), moment(t_s, failed=failed))

    def busy(self, t_s: float, value: float, gpu: str = GPU) -> tuple[Finding, ...]:
        return self.look(t_s, frame=samples(START_S + t_s, {gpu: {"gpu.busy_share": value}}))

    def busy_until(self, to_s: float, value: float, *, from_s: float = 0.0) -> tuple[Finding, ...]:
        found: tuple[Finding, ...] = ()
        for step in range(int((to_s - from_s) // 10) + 1):
            found = self.busy(from_s + 10.0 * step, value)
        return found
