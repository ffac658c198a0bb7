"""Turn a match into a finding: its subject, and the lines and series behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import isfinite
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from steward.decide.rules.promql.expression import (
    Aggregate,
    Binary,
    Expression,
    FunctionCall,
    Number,
    Selector,
    walk,
)
from steward.decide.rules.promql.metric_columns import column_of
from steward.decide.rules.promql.parser import parse
from steward.model.cluster import Health
from steward.model.finding import Evidence, Finding, Quote
from steward.model.frame import steps_of
from steward.model.identity import FindingId, GpuId, JobId, TenantId, stable_id
from steward.model.metrics import METRICS, metric
from steward.model.rules import Hit, Item, Rule, RuleSeverity
from steward.model.view import HEALTH_CODES, ClusterView

__all__ = ["NS_PER_S", "failed_gpus", "finding_of", "thresholds_of"]

NS_PER_S = 1e9
MOST_ITEMS = 20  # lines and series of one finding
MOST_TEXT = 2000  # characters of a line
_COMPARED = ("<", "<=", ">", ">=", "==")
_FILTERS = (*_COMPARED, "!=", "and", "unless")  # which pass values of one side
_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}
_WORDS = {"<": "below", "<=": "at most", ">": "above", ">=": "at least", "==": "at"}
_UNITS = {"W": " W", "J": " J", "s": " s", "Hz": " Hz", "By": " B", "By/s": " B/s", "1/s": " per s",
          "Cel": " °C"}  # fmt: skip
_ABBREVIATED = ("gpu", "ib", "cpu")
_SAME_UNIT = ("avg_over_time", "min_over_time", "max_over_time", "last_over_time")
_SAME_KIND = ("avg", "min", "max")
_KNOWN = frozenset(each.name for each in METRICS)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Owner:
    """The job, GPUs and tenant of an entity."""

    job: JobId | None = None
    gpus: tuple[GpuId, ...] = ()
    tenant: TenantId | None = None


def finding_of(hit: Hit, rule: Rule, entity: str, view: ClusterView, *, weight: float) -> Finding:
    """Return a match as a finding about `entity`; '' stands for more entities than are listed."""
    since_s = min(item.since_ns or item.t_ns for item in hit.items) / NS_PER_S
    owner = _owner_of(entity, hit, view)
    if not owner.gpus and entity and _loses_gpus(rule):
        failed = [gpu for gpu in failed_gpus(view) if steps_of(gpu)[0] == steps_of(entity)[0]]
        owner = replace(owner, gpus=tuple(failed))
    named = owner.gpus[0] if len(owner.gpus) == 1 else entity
    where = f" on {named}" if entity else " on many more at once"
    if entity.startswith("job:"):
        where = f": job {entity.removeprefix('job:')}"
    return Finding(
        id=FindingId(stable_id("f", rule.id, entity, round(hit.t_ns / NS_PER_S))),
        t_s=view.t_s,
        rule=rule.id,
        subject=entity,
        title=f"{rule.title or rule.id}{where}",
        severity=rule.finding_severity,
        since_s=since_s,
        evidence=tuple(_evidence(hit))[:MOST_ITEMS],
        job=owner.job,
        tenant=owner.tenant,
        gpus=owner.gpus,
        quotes=tuple(_quote(item) for item in hit.items if _is_quoted(item))[:MOST_ITEMS],
        weight=weight,
        treatment=rule.treatment,
    )


def failed_gpus(view: ClusterView) -> tuple[GpuId, ...]:
    """Return the GPUs that have failed."""
    rows = np.flatnonzero(view.gpus.health == HEALTH_CODES[Health.BAD]).tolist()
    return tuple(view.gpu_id(row) for row in rows)


def _loses_gpus(rule: Rule) -> bool:
    """Return whether a rule is about GPUs that fail: the failed ones of a node are meant."""
    return rule.category.startswith("gpu-") and rule.severity <= RuleSeverity.HIGH


def _owner_of(entity: str, hit: Hit, view: ClusterView) -> _Owner:
    path, _, job = entity.partition("@")
    gpu = GpuId(hit.joined_on.get("gpu", path))
    if path.startswith("job:"):
        job = path.removeprefix("job:")
    if gpu in view.gpu_row and not job:
        owner = int(view.gpus.owner[view.gpu_row[gpu]])
        job = view.job_id(owner) if owner >= 0 else ""
    known = view.details.get(JobId(job or hit.joined_on.get("job", "")))
    gpus = (gpu,) if gpu in view.gpu_row else (known.gpus if known is not None else ())
    if known is None:
        return _Owner(gpus=gpus)
    return _Owner(job=known.id, gpus=gpus, tenant=known.tenant)


def _is_quoted(item: Item) -> bool:
    """Return whether an item is quoted verbatim: a line, or the answer of another server."""
    return not item.expr or bool(item.stream)


def _quote(item: Item) -> Quote:
    cut = item.text if len(item.text) <= MOST_TEXT else f"{item.text[:MOST_TEXT]} …"
    return Quote(
        t_s=item.t_ns / NS_PER_S,
        text=cut,
        stream=item.stream,
        line=item.line,
        entity=item.entity,
    )


def _evidence(hit: Hit) -> Iterator[Evidence]:
    for item in hit.items:
        names = [name for name in item.metric.split(", ") if name in _KNOWN] if item.expr else []
        for name in names:
            yield Evidence(
                entity=item.entity,
                metric=name,
                from_s=item.since_ns / NS_PER_S,
                to_s=item.t_ns / NS_PER_S,
                says=_series_text(item, name),
                threshold=thresholds_of(item.expr).get(name),
            )


def _series_text(item: Item, name: str) -> str:
    """Describe a series: `GPU busy share below 30 % for 5 min`."""
    held = _lasted((item.t_ns - item.since_ns) / NS_PER_S)
    bounds = bounds_of(item.expr)
    if name not in bounds:
        return f"{_title(name)} fitted the rule for {held}"
    bound = bounds[name]
    at_end = ""
    if name == _valued_metric(item.expr) and isfinite(item.value):
        at_end = f", {_figure(name, item.value * bound.scale)} at the end"
    return f"{_title(name)} {_WORDS[bound.op]} {_figure(name, bound.number)} for {held}{at_end}"


def _title(name: str) -> str:
    """Return the display name of a metric, without the unit that its figure has.

    >>> _title("gpu.busy_share"), _title("ib.symbol_errors_per_s"), _title("gpu.power_watts")
    ('GPU busy share', 'IB symbol errors per s', 'GPU power')
    """
    for unit in ("_watts", "_celsius", "_bytes", "_hz"):
        name = name.removesuffix(unit)
    first, *rest = name.replace("_", " ").replace(".", " ").split()
    return " ".join([first.upper() if first in _ABBREVIATED else first, *rest])


def _figure(name: str, value: float) -> str:
    if name.endswith("_share"):
        return f"{100 * value:.3g} %"
    return f"{value:.4g}{_UNITS.get(metric(name).unit, '')}"


def _lasted(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


class Bound(NamedTuple):
    """A threshold of a series, in our units; `scale` converts values of the rule."""

    op: str
    number: float
    scale: float


def thresholds_of(expr: str) -> Mapping[str, float]:
    """Return thresholds by metric in our units, where each is one number.

    >>> dict(thresholds_of("DCGM_FI_DEV_GPU_UTIL < 30 and gpu_power_watts > 100"))
    {'gpu.busy_share': 0.3, 'gpu.power_watts': 100.0}
    """
    return {name: bound.number for name, bound in bounds_of(expr).items()}


@lru_cache(maxsize=10_000)
def bounds_of(expr: str) -> Mapping[str, Bound]:
    """Return thresholds by metric, in the order of the expression."""
    found: dict[str, Bound] = {}
    for each in walk(parse(expr)):
        if isinstance(each, Binary) and each.op in _COMPARED:
            sides = ((each.left, each.right, each.op), (each.right, each.left, _SWAPPED[each.op]))
            for side, number, op in sides:
                series = _series(side)
                if isinstance(number, Number) and series is not None:
                    column = column_of(series, expr)
                    bound = Bound(op, number.value * column.scale, column.scale)
                    found.setdefault(column.name, bound)
    return MappingProxyType(found)


@lru_cache(maxsize=10_000)
def _valued_metric(expr: str) -> str:
    """Return the metric whose values an expression has; '' where it has others, as counts.

    >>> _valued_metric("gpu_busy_share < 0.3 and gpu_power_watts > 100")
    'gpu.busy_share'
    >>> _valued_metric("count(gpu_busy_share == 0)")
    ''
    """
    side = parse(expr)
    while isinstance(side, Binary) and side.op in _FILTERS and not side.as_bool:
        side = side.right if isinstance(side.left, Number) else side.left
    series = _series(side)
    return "" if series is None else column_of(series, expr).name


def _series(side: Expression) -> Selector | None:
    """Return the single series of one side: itself, or its mean over a range."""
    if isinstance(side, FunctionCall) and side.name in _SAME_UNIT and len(side.args) == 1:
        side = side.args[0]
    elif isinstance(side, Aggregate) and side.op in _SAME_KIND:
        return _series(side.of)
    return side if isinstance(side, Selector) else None
