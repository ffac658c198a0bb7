"""Sia (SOSP'23): GPU type and size of every job from one small integer program per round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.decide.scheduling.elastic.assignment import AllocationOption, cheapest
from steward.decide.scheduling.elastic.interface import (
    ElasticChoice,
    ElasticJob,
    ElasticView,
    Needs,
    Placement,
)
from steward.decide.scheduling.elastic.stable_placement import keep_places, packing_sizes
from steward.model.goodput import goodputs

__all__ = ["Sia"]

Floats = NDArray[np.float64]


class _Configuration(NamedTuple):
    """So many GPUs of one type: a part of a node, or whole nodes."""

    type: int
    gpus: int


class _Choices(NamedTuple):
    configurations: list[_Configuration]
    whole: tuple[int, ...]  # GPUs of a node, by type


@dataclass(frozen=True, slots=True, kw_only=True)
class Sia:
    """Minimise the sum of (goodput against its worst configuration)^power over all jobs.

    A job without GPUs costs `idle_cost`, a little more than its worst configuration, so no GPU is
    idle while a job waits. A configuration other than the present one is worth less by the share
    of the job's life that restarts take. A job that restarts just now stays. Where a job never
    ran, its goodput is taken from another GPU type by the ratio of their speeds.
    """

    power: float = -0.5
    idle_cost: float = 1.1
    name: str = "sia"
    needs: Needs = "goodput"
    fixed_batch: bool = False

    def decide(self, moment: ElasticView) -> ElasticChoice:
        """Solve the program; jobs that keep their configuration keep their nodes if they can."""
        choices = _configurations(moment)
        options = [
            option
            for place, job in enumerate(moment.jobs)
            for option in self._options(job, place, choices=choices, moment=moment)
        ]
        owned = [0] * moment.types
        for kind, gpus in zip(moment.node_type, moment.node_gpus, strict=True):
            owned[kind] += gpus
        chosen = [options[place] for place in cheapest(options, owned)]
        placements: dict[int, Placement] = {}
        for kind in range(moment.types):
            nodes = [node for node, own in enumerate(moment.node_type) if own == kind]
            mine = [(moment.jobs[o.job], o.gpus) for o in chosen if o.type == kind]
            placements |= keep_places(mine, nodes, moment.node_gpus)
        return ElasticChoice(placements=placements)

    def _options(
        self, job: ElasticJob, place: int, *, choices: _Choices, moment: ElasticView
    ) -> list[AllocationOption]:
        """Return what is worth choosing for one job."""
        present = None
        if job.placement:
            present = _Configuration(moment.node_type[job.placement[0]], len(job.placement))
            if job.restarting:
                return [AllocationOption(place, *present, cost=-self.idle_cost, must=True)]
        values = _values(job, choices)
        worth = values / values[values > 0].min(initial=np.inf)
        if present is not None and job.age_s >= job.restart_s:
            lost_s = job.restarts * job.restart_s
            factor = max(job.age_s - lost_s, 0.0) / (job.age_s + job.restart_s)
            worth *= [1.0 if c == present else factor for c in choices.configurations]
        with np.errstate(divide="ignore"):
            costs = np.round(worth**self.power, 2) - self.idle_cost
        return _worth_choosing(place, choices.configurations, costs.tolist())


def _worth_choosing(
    place: int, configurations: list[_Configuration], costs: list[float]
) -> list[AllocationOption]:
    """Leave out what costs as much as fewer GPUs of the same type, or as none."""
    kept: list[AllocationOption] = []
    least: dict[int, float] = {}
    for configuration, cost in zip(configurations, costs, strict=True):
        kind = configuration.type
        if cost < least.get(kind, 0.0):
            least[kind] = cost
            kept.append(AllocationOption(place, *configuration, cost=cost))
    return kept


def _configurations(moment: ElasticView) -> _Choices:
    """Return 1, 2, 4, … GPUs inside a node, then whole nodes, for each type."""
    found: list[_Configuration] = []
    wholes: list[int] = []
    for kind in range(moment.types):
        pairs = zip(moment.node_gpus, moment.node_type, strict=True)
        sizes, whole = packing_sizes([gpus for gpus, own in pairs if own == kind])
        found += [_Configuration(kind, gpus) for gpus in sizes]
        wholes.append(whole)
    return _Choices(found, tuple(wholes))


def _values(job: ElasticJob, choices: _Choices) -> Floats:
    """Return the goodput in each configuration; 0 where it is not to be tried."""
    known = [kind for kind, model in enumerate(job.models) if model is not None]
    gpus = np.array([c.gpus for c in choices.configurations], np.float64)
    types = np.array([c.type for c in choices.configurations])
    if not known:
        return np.where(gpus == 1, 1.0, 0.0)
    values = np.zeros(len(gpus))
    for kind in range(len(job.models)):
        source = kind if kind in known else known[0]
        model = job.models[source]
        assert model is not None  # noqa: S101 - `known` holds only those
        model = model._replace(max_batch=max(job.batch, model.init_batch))
        ratio = job.samples_per_s[kind] / job.samples_per_s[source]
        for across in (False, True):
            mine = (types == kind) & (gpus <= job.max_replicas)
            mine &= (gpus > choices.whole[source]) == across
            values[mine] = ratio * goodputs(model, gpus[mine], across=across)
    return values
