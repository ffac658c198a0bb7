"""The newest value of every metric as the text that Prometheus scrapes, or as OpenMetrics.

One line per entity and metric. Labels name the entity, and a GPU's holder (`job_id`, `tenant`).
`steward_phase{phase="compile"}` is 1 while a phase lasts, so that rules can query Prometheus.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steward.clients.wire.exposition import shown_labels
from steward.model.view import ClusterView
from steward.observe.latest import Latest, LatestColumn
from steward.observe.translate import exposed_name, labels_of

__all__ = ["MetricsText", "holders", "metrics_text"]

Holder = tuple[tuple[str, str], ...]
# OpenMetrics wants a unit to be the end of the name, in its own words.
UNITS = ("bytes", "seconds", "watts", "joules", "celsius", "hz")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsText:
    """Text, and how many series are in it."""

    text: str
    series: int


def metrics_text(
    latest: Latest, *, since_s: float, held: Mapping[str, Holder], openmetrics: bool = False
) -> MetricsText:
    """Write every value from `since_s` on; `held` maps GPUs to their holders."""
    labels: dict[str, str] = {}
    parts, series = [], 0
    for column in latest.columns(since_s=since_s):
        parts.append(_head(column, openmetrics=openmetrics))
        parts.append(_lines(column, labels, held))
        series += len(column.entities)
    phases = _phases(latest.phases())
    return MetricsText(text="".join((*parts, *phases)), series=series + max(0, len(phases) - 1))


def _phases(lasting: Sequence[tuple[str, str]]) -> list[str]:
    """Return a head and a line for each phase, or nothing where none lasts."""
    if not lasting:
        return []
    head = "# HELP steward_phase 1 while a phase of a job lasts (1)\n# TYPE steward_phase gauge\n"
    shown = [shown_labels({**labels_of(entity), "phase": name}) for entity, name in lasting]
    return [head, *(f"steward_phase{each} 1.0\n" for each in shown)]


def _head(column: LatestColumn, *, openmetrics: bool) -> str:
    name, metric = exposed_name(column.metric.name), column.metric
    unit = name.rpartition("_")[2]
    meaning = metric.meaning.replace("\\", r"\\").replace("\n", " ")
    lines = [f"# HELP {name} {meaning} ({metric.unit})", f"# TYPE {name} gauge"]
    if openmetrics and unit in UNITS:
        lines.append(f"# UNIT {name} {unit}")
    return "\n".join(lines) + "\n"


def _lines(column: LatestColumn, labels: dict[str, str], held: Mapping[str, Holder]) -> str:
    name = exposed_name(column.metric.name)
    found = []
    for entity, value in zip(column.entities, column.values.tolist(), strict=True):
        shown = labels.get(entity)
        if shown is None:
            shown = labels[entity] = shown_labels(
                {**labels_of(entity), **dict(held.get(entity, ()))}
            )
        found.append(f"{name}{shown} {value!r}\n")
    return "".join(found)


def holders(view: ClusterView) -> dict[str, Holder]:
    """Return which job and which tenant hold each GPU."""
    found: dict[str, Holder] = {}
    rows = zip(view.gpus.owner.tolist(), view.gpus.tenant.tolist(), strict=True)
    for row, (owner, tenant) in enumerate(rows):
        if owner >= 0:
            said = [("job_id", str(view.job_id(owner)))]
            said += [("tenant", str(view.tenant_id(tenant)))] if tenant >= 0 else []
            found[str(view.gpu_id(row))] = tuple(said)
    return found
