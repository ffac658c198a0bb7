"""Where facts come from, as addresses that anybody can look up again."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from urllib.parse import quote, urlencode

from steward.questions.facts import Fact, Reply, Sentence, say, unknown

__all__ = ["fact_at", "gpu_link", "journal_source", "no_such", "span_source", "telemetry_source"]


def fact_at(
    kind: str, id_: str, t_s: float, label: str, value: str | float, unit: str = "name"
) -> Fact:
    """Return a fact of one moment: of a job, node, GPU, tenant, the queue or the cluster.

    >>> fact_at("job", "7", 10.0, "state", "running").source
    'steward://job/7?t=10'
    """
    path = f"/{quote(id_, safe='/')}" if id_ else ""
    return Fact(
        label=label,
        value=value,
        unit=unit,
        source=f"steward://{kind}{path}?t={t_s:.0f}",
        link=_LINKS.get(kind, "/").format(quote(id_, safe="/")),
    )


_LINKS = {
    "job": "/jobs/{}",
    "node": "/nodes/{}",
    "gpu": "/gpus/{}",
    "queue": "/jobs",
    "user": "/jobs",
    "rule": "/rules/{}",
    "rules": "/rules",
    "serving": "/serving",
    "findings": "/findings",
}


def gpu_link(gpu: str) -> str:
    """Return the page of a GPU."""
    return f"/gpus/{quote(gpu, safe='/')}"


def journal_source(kind: str, id_: str) -> tuple[str, str]:
    """Return the source and the page of an entry of the journal: a decision or a finding."""
    return f"steward://{kind}/{quote(id_)}", f"/{kind}s/{quote(id_)}"


def span_source(kind: str, from_s: float, to_s: float, **rest: str) -> str:
    """Return the source of what was counted over a stretch of time."""
    asked = {"from": f"{from_s:.0f}", "to": f"{to_s:.0f}", **rest}
    return f"steward://{kind}?{urlencode(asked)}"


def telemetry_source(
    entity: str, metric: str, stat: str, from_s: float, to_s: float, step_s: float
) -> str:
    """Return the query that gives the figure again."""
    asked = {
        "entity": entity,
        "metric": metric,
        "stat": stat,
        "from": f"{from_s:.0f}",
        "to": f"{to_s:.0f}",
        "step": f"{step_s:g}",
    }
    return f"steward://telemetry?{urlencode(asked)}"


def no_such(kind: str, id_: str, known: Sequence[str], t_s: float) -> Reply:
    """Return that there is no such thing, and what may have been meant."""
    name = "GPU" if kind == "gpu" else kind
    if not id_:
        return unknown(f"Which {name} is meant is not said.")
    near = difflib.get_close_matches(id_, known, n=1, cutoff=0.6)
    hints = (
        [say("Did you mean {near}?", near=fact_at(kind, near[0], t_s, name, near[0]))]
        if near
        else []
    )
    return unknown(Sentence(text=f"There is no {name} {id_} here."), *hints)
