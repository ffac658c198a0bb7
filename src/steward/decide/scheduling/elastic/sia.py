"""Sia (SOSP'23): GPU type and size of every job from one small integer program per round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from steward.decide.scheduling.elastic.keep_places import keep_places
from steward.decide.scheduling.elastic.moment import (
    Choice,
    ElasticJob,
    Moment,
    Needs,
    Placement,
)
from steward.model.goodput import goodputs

__all__ = ["Sia"]

Floats = NDArray[np.float64]


class _Configuration(NamedTuple):
    """So many GPUs of one type: a part of a node, or whole nodes."""

    type: int
    gpus: int
    across: bool


class _Option(NamedTuple):
    """One job in one configuration, and what that costs in the program."""

    job: int  # its place in the moment
    configuration: _Configuration
    cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sia:
    """Minimise the sum of (goodput against its worst configuration)^power over all jobs.

    A job without GPUs costs `idle_cost`, more than its worst configuration, so as many jobs as
    can run do. A configuration other than the present one is worth less by the share of the
    job's life that restarts take. A job that restarts just now stays. Where a job never ran, its
    goodput is taken from another GPU type by the ratio of their speeds.
    """

    power: float = -0.5
    idle_cost: float = 1.1
    name: str = "sia"
    needs: Needs = "goodput"
    fixed_batch: bool = False

    def decide(self, moment: Moment) -> Choice:
        """Solve the program; jobs that keep their configuration keep their nodes if they can."""
        per_node = _gpus_per_node(moment)
        configurations = _configurations(moment, per_node)
        options = [
            option
            for place in range(len(moment.jobs))
            for option in self._options(moment, place, configurations, per_node)
        ]
        chosen = self._solve(moment, options, per_node)
        placements: dict[int, Placement] = {}
        for kind in range(moment.types):
            nodes = [node for node, own in enumerate(moment.node_type) if own == kind]
            mine = [
                (moment.jobs[option.job], option.configuration.gpus)
                for option in chosen
                if option.configuration.type == kind
            ]
            placements |= keep_places(mine, nodes, moment.node_gpus)
        return Choice(placements=placements)

    def _options(
        self,
        moment: Moment,
        place: int,
        configurations: list[_Configuration],
        per_node: tuple[int, ...],
    ) -> list[_Option]:
        """Return what is worth choosing for one job, cheapest goodput first."""
        job = moment.jobs[place]
        values = _values(job, configurations, per_node)
        present = _present(job, moment)
        worst = values[values > 0].min(initial=np.inf)
        worth = values / worst
        if present is not None and job.age_s >= job.restart_s:
            lost_s = job.restarts * job.restart_s
            factor = max(job.age_s - lost_s, 0.0) / (job.age_s + job.restart_s)
            worth *= [1.0 if c == present else factor for c in configurations]
        if job.restarting:
            return [_Option(place, present, 0.0)] if present is not None else []
        with np.errstate(divide="ignore"):
            costs = np.round(worth**self.power, 2)
        found = zip(configurations, costs.tolist(), strict=True)
        return [_Option(place, c, cost) for c, cost in found if cost < self.idle_cost]

    def _solve(
        self, moment: Moment, options: list[_Option], per_node: tuple[int, ...]
    ) -> list[_Option]:
        """Choose at most one option for each job within the GPUs of each type."""
        if not options:
            return []
        n, jobs = len(options), len(moment.jobs)
        gpus = np.array([o.configuration.gpus for o in options], np.float64)
        rows = np.concatenate(
            ([o.job for o in options], [jobs + o.configuration.type for o in options])
        )
        columns = np.tile(np.arange(n), 2)
        table = csr_array(
            (np.concatenate((np.ones(n), gpus)), (rows, columns)), shape=(jobs + moment.types, n)
        )
        owned = np.zeros(moment.types)
        np.add.at(owned, list(moment.node_type), moment.node_gpus)
        fixed = np.array([moment.jobs[o.job].restarting for o in options], np.float64)
        result = milp(
            np.array([o.cost - self.idle_cost for o in options]),
            integrality=np.ones(n),
            bounds=Bounds(fixed, np.ones(n)),
            constraints=LinearConstraint(table, ub=np.concatenate((np.ones(jobs), owned))),
            options={"mip_rel_gap": 1e-4},
        )
        return [o for o, x in zip(options, result.x, strict=True) if x > 0.5]


def _gpus_per_node(moment: Moment) -> tuple[int, ...]:
    """Return the size of the largest node of each type."""
    sizes = [0] * moment.types
    for gpus, kind in zip(moment.node_gpus, moment.node_type, strict=True):
        sizes[kind] = max(sizes[kind], gpus)
    return tuple(sizes)


def _configurations(moment: Moment, per_node: tuple[int, ...]) -> list[_Configuration]:
    """Return 1, 2, 4, … GPUs inside a node, then whole nodes, for each type."""
    found = []
    for kind, size in enumerate(per_node):
        inside = sorted({2**k for k in range(size.bit_length()) if 2**k <= size} | {size} - {0})
        found += [_Configuration(kind, gpus, across=False) for gpus in inside]
        whole = sum(
            own == kind and gpus == size
            for own, gpus in zip(moment.node_type, moment.node_gpus, strict=True)
        )
        found += [_Configuration(kind, size * k, across=True) for k in range(2, whole + 1)]
    return found


def _present(job: ElasticJob, moment: Moment) -> _Configuration | None:
    if not job.placement:
        return None
    across = len(set(job.placement)) > 1
    return _Configuration(moment.node_type[job.placement[0]], len(job.placement), across)


def _values(
    job: ElasticJob, configurations: list[_Configuration], per_node: tuple[int, ...]
) -> Floats:
    """Return the goodput in each configuration; 0 where it is not to be tried."""
    known = [kind for kind, model in enumerate(job.models) if model is not None]
    values = np.zeros(len(configurations))
    if not known:
        values[[c.gpus == 1 for c in configurations]] = 1.0
        return values
    gpus = np.array([c.gpus for c in configurations], np.float64)
    types = np.array([c.type for c in configurations])
    for kind in range(len(job.models)):
        source = kind if job.models[kind] is not None else known[0]
        model = job.models[source]
        assert model is not None  # noqa: S101 - `known` holds only those
        if job.batch >= model.init_batch:
            model = model._replace(max_batch=job.batch)
        ratio = job.samples_per_s[kind] / job.samples_per_s[source]
        for across in (False, True):
            mine = (types == kind) & (gpus <= job.max_replicas)
            mine &= (gpus > per_node[source]) == across
            values[mine] = ratio * goodputs(model, gpus[mine], across=across)
    return values
