"""Estimator of job durations and remaining times from similar jobs."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.learn.experience import (
    EDGES_S,
    blank_experience,
    likely,
    mean_left,
    median_left,
    rank_of,
    remember,
)
from steward.model.forecast import (
    RUN_LEFT_S,
    RUN_RANK_ALL_GPU_S,
    RUN_RANK_GPU_S,
    RUN_TYPICAL_S,
    RUN_USES_GPU_S,
    SIMILAR_JOBS,
    About,
    Forecast,
    ForecastColumn,
)
from steward.model.identity import JobId
from steward.model.job import Job, JobRequest
from steward.model.outcome import Outcome
from steward.model.view import RUNNING, ClusterView

__all__ = ["SimilarJobs"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Kind = tuple[object, ...]

LOW, MID, HIGH = 0.9, 0.5, 0.1  # chances of running longer
_DEPTH = 4  # all jobs; of one size; of one tenant; of one user and name
_SAME = {1: "size", 2: "size and tenant", _DEPTH: "size, tenant, user and name"}
_FEW = 10  # fewer jobs than this tell little of how far they differ
_NO_GPU = 0.001  # as in the lab: so that the time of jobs without GPUs counts, but little
_ENDS_S = np.append(EDGES_S, 2.0 * EDGES_S[-1])  # of levels of GPU time: the last has an end, too


class SimilarJobs:
    """Learn from ended jobs; the lab's replays use the same code.

    Jobs are of one kind that have the same size, tenant, user and name (numbers in names do not
    count). A kind with few jobs is shrunk towards the wider one above it: `strength` is how many of
    its own it needs to outweigh that. At most `classes` kinds are kept; the least recently used is
    evicted, and its jobs still count in the wider ones.
    """

    def __init__(
        self, *, classes: int = 1000, strength: float = 10.0, memory: float = 1000.0
    ) -> None:
        if classes < _DEPTH or strength <= 0 or memory < 1:
            raise StewardError(
                f"classes is {classes}, strength is {strength}, memory is {memory}",
                where="similar-jobs",
                hint=f"classes is {_DEPTH} or more, strength above 0, memory 1 or more",
            )
        self.name = "similar-jobs"
        no_parents = np.full(classes, -1, np.int64)
        self._past = blank_experience(no_parents, strength=strength, memory=memory)
        self._lasting = np.ones((classes, len(_ENDS_S)))  # chance of taking more than that
        self._lasting_at = np.full(classes, -1, np.int64)  # as of so many ended jobs
        self._rows: OrderedDict[Kind, int] = OrderedDict({(): 0})  # least recently used first
        self._free = list(range(classes - 1, 0, -1))
        self._uses_gpu_s: dict[JobId, float] = {}  # by job of the last view: when it came

    def learn(self, view: ClusterView, outcomes: Sequence[Outcome]) -> None:  # noqa: ARG002 - the port's
        for job in view.ended:
            past = job.past
            if past.began_s is not None:
                remember(self._past, self._row(job), past.ran_s * max(job.shape.gpus, _NO_GPU))

    def predict(self, view: ClusterView) -> tuple[ForecastColumn, ...]:
        jobs, past = view.jobs, self._past
        row = self._known(view)
        goes_on_s = np.where(jobs.state == RUNNING, view.t_s - jobs.start_s, 0.0)
        size = np.maximum(jobs.gpus, _NO_GPU)
        used = (jobs.ran_s + np.maximum(np.nan_to_num(goes_on_s), 0.0)) * size
        for each in np.unique(row).tolist():
            self._renew(each)
        # A turn comes at the very second in which a level is reached: rounding must not hide it.
        level = np.searchsorted(EDGES_S, used * (1.0 + 1e-9) + 1e-6, side="right") - 1
        self._renew(0)
        rank, rank_all = past.rank[row, level], past.rank[0, level]
        typical = self._typical(row, level)
        left_s = [_left(self._lasting[row], used, chance) / size for chance in (LOW, MID, HIGH)]
        similar = past.total[row]
        return (
            self._column(RUN_LEFT_S, *left_s),
            self._column(RUN_RANK_GPU_S, rank, rank, rank),
            self._column(RUN_RANK_ALL_GPU_S, rank_all, rank_all, rank_all),
            self._column(RUN_TYPICAL_S, *[typical / size] * 3),
            self._column(RUN_USES_GPU_S, *[self._uses(view, row)] * 3),
            self._column(SIMILAR_JOBS, similar, similar, similar),
        )

    def estimate(self, request: JobRequest) -> tuple[Forecast, ...]:
        """Return the estimated duration of a job; nothing where none of its size has ended.

        GPU time of other sizes tells too little: divided by 1,000 GPUs, hours become seconds.
        """
        gpus, past = request.shape.gpus, self._past
        own = (gpus, request.tenant, request.user, _stem(request.name))
        kinds = [kind for kind in _kinds(own) if kind and kind in self._rows]
        rows = [self._rows[kind] for kind in kinds]
        if not rows or past.total[rows[-1]] == 0.0:
            return ()
        share = past.seen[rows[-1]] / past.total[rows[-1]]  # of one size; narrower ones refine it
        for row in rows[-2::-1]:
            share = (past.seen[row] + past.strength * share) / (past.total[row] + past.strength)
        lasting = np.maximum(1.0 - np.append(0.0, np.cumsum(share)), 0.0)[np.newaxis]
        low, mid, high = (
            float(_left(lasting, np.zeros(1), chance)[0]) / max(gpus, _NO_GPU)
            for chance in (LOW, MID, HIGH)
        )
        basis = self._basis(request, kinds[0], low=low, high=high)
        return (
            Forecast(
                subject=request.name, quantity=RUN_LEFT_S, low=low, mid=mid, high=high, basis=basis
            ),
        )

    def _basis(self, request: JobRequest, kind: Kind, *, low: float, high: float) -> str:
        """Return how many jobs an estimate is from, and what it lacks."""
        count = round(self._past.total[self._rows[kind]])
        parts = [f"{self.name}, {count} job{'s' * (count != 1)} of the same {_SAME[len(kind)]}"]
        if count < _FEW:
            parts.append(f"few: high is {high / max(low, 1e-9):,.1f} times low")
        if request.tenant and len(kind) == 1:
            here = any(each[1:2] == (request.tenant,) for each in self._rows)
            what = "no such job" if here else "no job at all"
            parts.append(f"{what} of tenant '{request.tenant}' has ended")
        return "; ".join(parts)

    @property
    def state_version(self) -> int:
        return 2  # 1 had no beliefs beside its counts

    def save_state(self) -> dict[str, Any]:
        past = self._past
        return {
            "kinds": [[list(kind), row] for kind, row in self._rows.items()],
            "parent": past.parent,
            "seen": past.seen,
            "total": past.total,
            "finished": past.finished,
            "believed": past.believed,
            "believed_total": past.believed_total,
            "uses_gpu_s": self._uses_gpu_s,
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        past = self._past
        names = ("parent", "seen", "total", "finished", "believed", "believed_total")
        arrays = {name: np.asarray(state[name]) for name in names}
        if any(each.shape != getattr(past, name).shape for name, each in arrays.items()):
            raise ValueError("it was learned with other options")
        rows = OrderedDict((tuple(kind), int(row)) for kind, row in state["kinds"])
        if rows.get(()) != 0:
            raise ValueError("there is no class of all jobs")
        for name, each in arrays.items():
            getattr(past, name)[...] = each
        past.made_at[...] = -1
        self._lasting_at[...] = -1
        self._uses_gpu_s = {JobId(id_): float(s) for id_, s in state["uses_gpu_s"].items()}
        self._rows = rows
        self._free = sorted({*range(1, len(past.total))} - {*rows.values()}, reverse=True)

    def _column(self, quantity: str, low: Floats, mid: Floats, high: Floats) -> ForecastColumn:
        basis = f"{self.name}, {int(self._past.finished[0])} jobs"
        return ForecastColumn(
            about=About.JOBS, quantity=quantity, low=low, mid=mid, high=high, basis=basis
        )

    def _typical(self, row: Ints, level: Ints) -> Floats:
        """Return the median GPU time left of each kind from its level on."""
        pairs, which = np.unique(np.stack([row, level]), axis=1, return_inverse=True)
        left = [median_left(self._past, kind, at) for kind, at in pairs.T.tolist()]
        return np.array(left, np.float64)[which.reshape(-1)] if len(row) else np.zeros(0)

    def _uses(self, view: ClusterView, row: Ints) -> Floats:
        """Return the mean GPU time that was expected of each job when it first was in a view."""
        known = self._uses_gpu_s
        self._uses_gpu_s = {
            id_: known[id_] if id_ in known else mean_left(self._past, kind, 0)
            for id_, kind in zip(view.jobs.ids.tolist(), row.tolist(), strict=True)
        }
        return np.array([*self._uses_gpu_s.values()], np.float64)

    def _renew(self, row: int) -> None:
        """Refresh the estimate of a kind, once enough jobs have ended."""
        rank_of(self._past, row, 0)
        made_at = self._past.made_at[row]
        if self._lasting_at[row] != made_at:
            ended = np.cumsum(likely(self._past, row))
            self._lasting[row, 1:] = np.maximum(1.0 - ended, 0.0)
            self._lasting_at[row] = made_at

    # -- kinds of jobs -------------------------------------------------------------------------

    def _known(self, view: ClusterView) -> Ints:
        """Return for each job the row of its narrowest known kind."""
        found: dict[Kind, int] = {}
        rows = np.zeros(len(view.jobs), np.int64)
        for i, id_ in enumerate(view.jobs.ids.tolist()):
            kind = _kind(view.details[id_])
            row = found.get(kind)
            if row is None:
                row = found[kind] = next(self._rows[k] for k in _kinds(kind) if k in self._rows)
            rows[i] = row
        return rows

    def _row(self, job: Job) -> int:
        """Return the row of this job's own kind; make it, and wider ones, where there is none."""
        kinds = list(_kinds(_kind(job)))
        self._touch(kinds)
        for kind in reversed(kinds):
            if kind not in self._rows:
                self._rows[kind] = row = self._new_row()
                self._past.parent[row] = self._rows[_wider(kind)]
        self._touch(kinds)
        return self._rows[kinds[0]]

    def _touch(self, kinds: list[Kind]) -> None:
        """Mark kinds as used, widest last, so that it is evicted after all its parts."""
        for kind in kinds:
            if kind in self._rows:
                self._rows.move_to_end(kind)

    def _new_row(self) -> int:
        if self._free:
            return self._free.pop()
        _, row = self._rows.popitem(last=False)
        self._past.seen[row] = 0.0
        self._past.total[row] = 0.0
        self._past.believed[row] = 0.0
        self._past.believed_total[row] = 0.0
        self._past.made_at[row] = self._lasting_at[row] = -1
        return row


def _left(lasting: Floats, used: Floats, chance: float) -> Floats:
    """Return how much more GPU time each job takes with the given chance.

    `lasting` is for each its chance of taking more than each end of a level.
    """
    used = np.minimum(used, EDGES_S[-1])  # the last level is unbounded
    level = np.searchsorted(EDGES_S, used, side="right") - 1
    part = (used - _ENDS_S[level]) / (_ENDS_S[level + 1] - _ENDS_S[level])
    each = np.arange(len(lasting))
    now = lasting[each, level] * (1.0 - part) + lasting[each, level + 1] * part
    target = now * chance
    end = np.clip((lasting > target[:, None]).sum(axis=1), 1, len(EDGES_S))
    above, below = lasting[each, end - 1], lasting[each, end]
    part = (above - target) / np.maximum(above - below, 1e-300)
    ends = _ENDS_S[end - 1] + part * (_ENDS_S[end] - _ENDS_S[end - 1])
    left: Floats = np.maximum(ends - used, 0.0)
    return left


def _kind(job: Job) -> Kind:
    return (job.shape.gpus, job.tenant, job.user, _stem(job.name))


def _wider(kind: Kind) -> Kind:
    """Return the next wider kind: without user and name, without tenant, without size."""
    return kind[:2] if len(kind) == _DEPTH else kind[:-1]


def _kinds(kind: Kind) -> Iterator[Kind]:
    """Yield a kind and all wider ones, narrowest first."""
    yield kind
    while kind:
        kind = _wider(kind)
        yield kind


@lru_cache(maxsize=4096)
def _stem(name: str) -> str:
    """Return a job's name without the numbers that tell one run from the next.

    >>> _stem("bert-large run 17") == _stem("bert-large run 18")
    True
    """
    return re.sub(r"\d+", "#", name)
