"""Miner of drift of the models themselves: forecasts whose errors have changed."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, log
from typing import Any

import numpy as np

from steward.learn.patterns.changes.online import Adwin
from steward.learn.patterns.idle_habits import wilson
from steward.model.finding import Pattern
from steward.model.forecast import RUN_LIMITS_S, About
from steward.model.identity import JobId, stable_id
from steward.model.job import Job
from steward.model.view import RUNNING, ClusterView

__all__ = ["ErrorStream", "ModelDrift"]

_KEPT = 2000
_FEWEST = 10  # errors on either side of a drift that is told
_CLOSE = log(2.0)


class ErrorStream:
    """Errors of one model, oldest first, watched by ADWIN for their mean and their size."""

    def __init__(self) -> None:
        self.errors: list[float] = []
        self.drifted_at: int | None = None  # the place in `errors` from which they differ
        self._detector = Adwin(width=2)

    def add(self, error: float) -> bool:
        """Take in one error; return whether it reveals a drift."""
        self.errors.append(error)
        change = self._detector.update(np.array([error, abs(error)]))
        if change is not None:
            self.drifted_at = max(0, len(self.errors) - 1 - change.ago)
        self._forget()
        return change is not None

    def _forget(self) -> None:
        over = len(self.errors) - _KEPT
        if over > 0:
            del self.errors[:over]
            if self.drifted_at is not None:
                self.drifted_at = self.drifted_at - over if self.drifted_at > over else None

    def parts(self) -> tuple[list[float], list[float]]:
        """Return the errors before and since the last drift; all are since, where there is none."""
        at = self.drifted_at or 0
        return self.errors[:at], self.errors[at:]


class ModelDrift:
    """Compare how long jobs ran with what was forecast when they began.

    A pattern is told while the errors since a drift differ from those before it.
    """

    def __init__(self) -> None:
        self.name = "model-drift"
        self._forecast: dict[JobId, tuple[float, str]] = {}  # of running jobs: seconds, and whose
        self._streams: dict[str, ErrorStream] = {}
        self._drifted_s: dict[str, float] = {}

    def mine(self, view: ClusterView) -> tuple[Pattern, ...]:
        for job in view.ended:
            self._learn(job, view.t_s)
        self._remember(view)
        return tuple(
            pattern
            for model in sorted(self._streams)
            if (pattern := self._pattern(view.t_s, model)) is not None
        )

    @property
    def state_version(self) -> int:
        return 1

    def save_state(self) -> dict[str, Any]:
        return {
            "errors": {name: [*each.errors] for name, each in self._streams.items()},
            "drifted_s": dict(self._drifted_s),
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        streams: dict[str, ErrorStream] = {}
        for name, errors in state["errors"].items():
            streams[str(name)] = stream = ErrorStream()
            for error in errors:
                stream.add(float(error))
        self._drifted_s = {str(name): float(t_s) for name, t_s in state["drifted_s"].items()}
        self._streams = streams

    def _remember(self, view: ClusterView) -> None:
        column = view.forecast(About.JOBS, RUN_LIMITS_S)
        running = np.flatnonzero(view.jobs.state == RUNNING).tolist() if column is not None else []
        known = {}
        for row in running:
            id_ = view.job_id(row)
            if column is not None and column.mid[row] > 0:
                known[id_] = self._forecast.get(id_, (float(column.mid[row]), column.basis))
        self._forecast = known

    def _learn(self, job: Job, t_s: float) -> None:
        if job.id not in self._forecast or job.past.ran_s <= 0:
            return
        expected_s, basis = self._forecast[job.id]
        model = basis.partition(",")[0].partition(" ")[0]
        stream = self._streams.setdefault(model, ErrorStream())
        if stream.add(log(job.past.ran_s / expected_s)):
            self._drifted_s[model] = t_s

    def _pattern(self, t_s: float, model: str) -> Pattern | None:
        before, since = self._streams[model].parts()
        if len(before) < _FEWEST or len(since) < _FEWEST:
            return None
        cases = len(since)
        hits = sum(abs(error) <= _CLOSE for error in since)
        low, high = wilson(hits, cases)
        was, now = (exp(float(np.median(np.abs(each)))) for each in (before, since))
        drifted_s = self._drifted_s.get(model, t_s)
        return Pattern(
            id=stable_id("p", self.name, model, drifted_s),
            t_s=t_s,
            miner=self.name,
            statement=f"run times forecast by {model} were typically off by a factor of {was:.2f}, "
            f"and by {now:.2f} in the last {cases} jobs: {hits} of these within a factor of two",
            hits=hits,
            cases=cases,
            low_share=low,
            high_share=high,
        )
