"""The one table of metric names: ours, and what everybody else calls the same thing.

Our names end in their base unit. `canonical = raw * scale` for each alias. A counter only ever
grows; `observe` turns it into the rate named beside it and stores the rate.
Belongs here: what can be measured, one file per kind of thing. Does not: how it is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from steward.errors import unknown_name
from steward.model.metric import Alias, Metric
from steward.model.metrics.exporters import EXPORTER_NAMES
from steward.model.metrics.files import FILE_NAMES
from steward.model.metrics.gpu import GPU_METRICS
from steward.model.metrics.host import HOST_METRICS
from steward.model.metrics.job import JOB_METRICS
from steward.model.metrics.kernel import KERNEL_METRICS

__all__ = ["CANONICAL", "METRICS", "VOCABULARIES", "aliases_from", "metric"]

CANONICAL = "canonical"
METRICS: tuple[Metric, ...] = (*GPU_METRICS, *HOST_METRICS, *KERNEL_METRICS, *JOB_METRICS)

_BY_NAME: Mapping[str, Metric] = {each.name: each for each in METRICS}
_FOREIGN = {**EXPORTER_NAMES, **FILE_NAMES}
VOCABULARIES: tuple[str, ...] = (
    CANONICAL,
    *sorted({*_FOREIGN, *(alias.vocabulary for each in METRICS for alias in each.aliases)}),
)


def metric(name: str) -> Metric:
    """Look a metric up by our name for it."""
    found = _BY_NAME.get(name)
    if found is None:
        raise unknown_name("metric", name, _BY_NAME)
    return found


@cache
def aliases_from(vocabulary: str) -> Mapping[str, tuple[Metric, Alias]]:
    """Return what each name of a vocabulary means; the table works in both directions.

    >>> metric_, alias = aliases_from("dcgm")["DCGM_FI_DEV_FB_USED"]
    >>> metric_.name, alias.scale
    ('gpu.memory.used_bytes', 1048576.0)
    """
    if vocabulary not in VOCABULARIES:
        raise unknown_name("vocabulary", vocabulary, VOCABULARIES)
    if vocabulary == CANONICAL:
        return {each.name: (each, Alias(CANONICAL, each.name)) for each in METRICS}
    foreign = {
        theirs: (metric(ours), Alias(vocabulary, theirs, scale))
        for theirs, ours, scale in _FOREIGN.get(vocabulary, ())
    }
    return foreign | {
        alias.name: (each, alias)
        for each in METRICS
        for alias in each.aliases
        if alias.vocabulary == vocabulary
    }
