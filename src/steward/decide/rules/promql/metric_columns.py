"""Map PromQL metric names to columns of our frames, with their units.

Names that steward exports, ours with underscores, DCGM's and node_exporter's. Any other name is a
metric without a translation, which is kept under its own name. Frames have the rates of
counters and not the counters: `rate(COUNTER[5m])` is the mean of the rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

from steward.decide.rules.promql.expression import Selector
from steward.decide.rules.promql.lexer import fault
from steward.errors import did_you_mean
from steward.model.label import PARTS, PREFIX, by_exposed_name, exposed_name
from steward.model.metric import Metric, MetricKind
from steward.model.metrics import METRICS, aliases_from, metric

__all__ = ["LABELS", "PHASE", "SAME", "MetricColumn", "column_of"]

PHASE = "steward_phase"  # 1 while a phase lasts; its labels are those of its entity, and `phase`
SAME = {"entity": "entity", "instance": "node", "Hostname": "node", "hostname": "node"}
LABELS = frozenset({"node", *PARTS, "part", "job_id", "phase", *SAME})
_DISTINGUISHING_LABELS = {"node_cpu_seconds_total": "mode"}
_OF_DCGM = {"device", "UUID", "modelName", "job", "namespace", "pod", "container", "GPU_I_ID"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricColumn:
    """A column of frames. `theirs = ours / scale`; `rises` where it is the rate of a counter."""

    name: str
    scale: float = 1.0
    rises: bool = False
    ignores: frozenset[str] = frozenset()  # labels that the column name implies
    foreign: bool = False  # no translation is known, so it may have any labels


def column_of(selector: Selector, expr: str) -> MetricColumn:
    """Return the column of a selector; raise for a name that is nearly one of ours."""
    name = selector.name
    found = _known(selector, expr)
    if found is not None:
        return found
    ours = name.startswith((PREFIX, "DCGM_FI_"))
    near = did_you_mean(name, _all_names()) if ours else _close_match(name)
    if ours or near:
        hint = near or "`steward rules explain` and docs/reference/metrics.md list the names"
        raise fault(f"there is no metric '{name}'", expr, selector.at, hint=hint)
    return MetricColumn(name=name, foreign=True)


def _known(selector: Selector, expr: str) -> MetricColumn | None:
    name = selector.name
    if name == PHASE:
        return MetricColumn(name=PHASE)
    own = by_exposed_name().get(name) or by_exposed_name().get(PREFIX + name)
    if own is not None:
        if own.kind is MetricKind.COUNTER and own.rate:
            hint = f"write {exposed_name(own.rate)}, which is its rate"
            raise fault(f"'{name}' is a counter, kept as a rate", expr, selector.at, hint=hint)
        return MetricColumn(name=own.name)
    word, ignores = _distinguishing_label(selector, expr)
    for vocabulary in ("dcgm", "node_exporter"):
        if word in aliases_from(vocabulary):
            theirs, alias = aliases_from(vocabulary)[word]
            rises = theirs.kind is MetricKind.COUNTER and bool(theirs.rate)
            kept = metric(theirs.rate) if rises else theirs
            return MetricColumn(name=kept.name, scale=alias.scale, rises=rises, ignores=ignores)
    return None


def _distinguishing_label(selector: Selector, expr: str) -> tuple[str, frozenset[str]]:
    label = _DISTINGUISHING_LABELS.get(selector.name)
    if label is None:
        return selector.name, frozenset()
    said = [each.text for each in selector.matchers if each.label == label and each.op == "="]
    if not said:
        problem = f"'{selector.name}' needs one {label}"
        hint = f'write {selector.name}{{{label}="user"}}'
        raise fault(problem, expr, selector.at, hint=hint)
    return f"{selector.name}/{said[0]}", frozenset({label})


@cache
def _all_names() -> Mapping[str, Metric]:
    own = {name: each for name, each in by_exposed_name().items() if not each.rate}
    plain = {each.name.replace(".", "_"): each for each in METRICS if not each.rate}
    dcgm = {name: each for name, (each, _) in aliases_from("dcgm").items()}
    return {**own, **plain, **dcgm}


@lru_cache(maxsize=1024)  # compares hundreds of names each time that a rule is compiled
def _close_match(name: str) -> str:
    """Return a hint only for an obvious typo: other names may be foreign metrics."""
    near = did_you_mean(name, _all_names())
    meant = near.removeprefix("did you mean '").removesuffix("'?")
    alike = len(name) > 8 and abs(len(name) - len(meant)) <= 2
    wrong = sum(one != other for one, other in zip(name, meant, strict=False))
    back = sum(one != other for one, other in zip(name[::-1], meant[::-1], strict=False))
    return near if near and alike and min(wrong, back) <= 2 else ""
