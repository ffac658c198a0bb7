"""By how much delay and caps slow each application down: Netscope's regression.

The log of a job's slowdown is a line in the delay that queues add to its paths and in what its cap
should cost by its traits. Slopes belong to applications; they are drawn towards what the traits of
all applications together predict, the more so the less an application was seen (partial pooling).
Each job has a level of its own, so only what changes within a job teaches anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.model.fabric.traits import cap_loss, delay_prior, line_rate, traits_of
from steward.model.fabric.view import CAP_SENSITIVITY, DELAY_SENSITIVITY, FabricView
from steward.model.forecast import About, Forecast, ForecastColumn
from steward.model.job import JobRequest
from steward.model.outcome import Outcome

__all__ = ["DelaySensitivity", "Sensitivity"]

Floats = NDArray[np.float64]

Z80 = 1.2815515655446004  # four of five cases lie within so many standard deviations
MOST_JOBS = 512  # whose levels are kept apart; older ones go into their application's sums
EVERY = 8  # moments between two looks at what all applications have in common
_PRIOR_SCALE = np.array([5.0, 1.0, 5.0])  # how far the weights of traits may be from their guess
_PRIOR_GUESS = np.array([0.0, 1.0, 3.0])
CAP_GUESS, CAP_SPREAD = 1.0, 0.7


@dataclass(slots=True)
class _Sums:
    """Moments of (delay, cap loss, slowdown), from which a line follows."""

    count: float = 0.0
    first: Floats = field(default_factory=lambda: np.zeros(3))
    second: Floats = field(default_factory=lambda: np.zeros((3, 3)))

    def add(self, row: Floats) -> None:
        self.count += 1
        self.first += row
        self.second += np.outer(row, row)

    @property
    def scatter(self) -> Floats:
        """Return products of what differs from the mean."""
        return self.second - np.outer(self.first, self.first) / max(self.count, 1.0)


@dataclass(slots=True)
class _Program:
    """What is known of an application beyond its jobs that are kept apart."""

    traits: Floats  # mean features of `delay_prior`
    seen: float = 0.0
    scatter: Floats = field(default_factory=lambda: np.zeros((3, 3)))
    count: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """The posterior of one application: slopes of delay and cap with their covariance."""

    mean: Floats
    covariance: Floats
    samples: float

    def interval(self, which: int) -> tuple[float, float, float]:
        """Return low, mid and high of a slope, which is never below 0."""
        mid = max(float(self.mean[which]), 0.0)
        half = Z80 * float(np.sqrt(max(self.covariance[which, which], 0.0)))
        return max(mid - half, 0.0), mid, mid + half


class DelaySensitivity:
    """Learns from every moment; a program never seen before gets what its traits say."""

    name = "delay-sensitivity"
    state_version = 1

    def __init__(self) -> None:
        self._jobs: dict[str, tuple[str, _Sums]] = {}
        self._programs: dict[str, _Program] = {}
        self._weights = _PRIOR_GUESS.copy()
        self._spread = 4.0  # of slopes around what traits say, as a variance
        self._noise = 0.03**2
        self._moments = 0

    # -- learning ------------------------------------------------------------------------------

    def learn(self, view: FabricView, outcomes: Sequence[Outcome]) -> None:  # noqa: ARG002
        """Take in how slow each job was under which delay."""
        features = delay_prior(view.applications)
        for at, row in _rows(view):
            application, job = view.applications.applications[at], view.applications.jobs[at]
            program = self._programs.setdefault(application, _Program(traits=features[at].copy()))
            program.seen += 1
            program.traits += (features[at] - program.traits) / program.seen
            self._jobs.setdefault(job, (application, _Sums()))[1].add(row)
        self._forget(set(view.applications.jobs))
        self._moments += 1
        if self._moments % EVERY == 0:
            self._look_at_all()

    def _forget(self, present: set[str]) -> None:
        """Put the oldest jobs that have ended into the sums of their applications."""
        ended = [job for job in self._jobs if job not in present]
        for job in ended[: max(0, len(self._jobs) - MOST_JOBS)]:
            application, sums = self._jobs.pop(job)
            program = self._programs[application]
            program.scatter = program.scatter + sums.scatter
            program.count += sums.count

    def _pooled(self, application: str) -> tuple[Floats, float]:
        program = self._programs[application]
        scatter, count = program.scatter.copy(), program.count
        for name, sums in self._jobs.values():
            if name == application:
                scatter = scatter + sums.scatter
                count += sums.count
        return scatter, count

    def _look_at_all(self) -> None:
        """Fit what applications have in common: weights of traits, spread around them, noise."""
        names = list(self._programs)
        if not names:
            return
        for _ in range(3):
            found = [self.posterior(name) for name in names]
            traits = np.array([self._programs[name].traits for name in names])
            slopes = np.array([each.mean[0] for each in found])
            variance = np.array([each.covariance[0, 0] for each in found])
            sure = 1.0 / (variance + self._spread)
            precision = (traits * sure[:, None]).T @ traits + np.diag(1.0 / _PRIOR_SCALE**2)
            pull = (traits * sure[:, None]).T @ slopes + _PRIOR_GUESS / _PRIOR_SCALE**2
            self._weights = np.linalg.solve(precision, pull)
            rest = (slopes - traits @ self._weights) ** 2 + variance
            self._spread = float(np.clip(np.average(rest, weights=sure), 0.05, 100.0))
        left = total = 0.0
        for name in names:
            scatter, count = self._pooled(name)
            line = np.append(-self.posterior(name).mean, 1.0)
            left += float(line @ scatter @ line)
            total += max(count - 2, 0.0)
        if total > 20:
            self._noise = float(np.clip(left / total, 0.005**2, 0.3**2))

    # -- predicting ----------------------------------------------------------------------------

    def posterior(self, application: str, traits: Floats | None = None) -> Sensitivity:
        """Return what is believed of an application; by its traits alone if it was never seen."""
        scatter, count = np.zeros((3, 3)), 0.0
        known = self._programs.get(application)
        if known is not None:
            scatter, count = self._pooled(application)
            traits = known.traits
        expected = float(traits @ self._weights) if traits is not None else 0.0
        prior = np.array([max(expected, 0.0), CAP_GUESS])
        sure = np.diag([1.0 / self._spread, 1.0 / CAP_SPREAD**2])
        weighed: Floats = sure + scatter[:2, :2] / self._noise
        covariance: Floats = np.linalg.inv(weighed).astype(np.float64)
        mean = covariance @ (sure @ prior + scatter[:2, 2] / self._noise)
        return Sensitivity(mean=mean, covariance=covariance, samples=count)

    def predict(self, view: FabricView) -> tuple[ForecastColumn, ...]:
        """Return both slopes along the applications."""
        features = delay_prior(view.applications)
        found = [
            self.posterior(name, features[at])
            for at, name in enumerate(view.applications.applications)
        ]
        return tuple(
            _column(quantity, [each.interval(which) for each in found])
            for which, quantity in enumerate((DELAY_SENSITIVITY, CAP_SENSITIVITY))
        )

    def estimate(self, request: JobRequest) -> tuple[Forecast, ...]:  # noqa: ARG002
        """Return nothing: a request does not say what its program sends."""
        return ()

    # -- keeping -------------------------------------------------------------------------------

    def save_state(self) -> dict[str, Any]:
        """Return everything but jobs apart: they are put into their applications."""
        names = list(self._programs)
        pooled = [self._pooled(name) for name in names]
        return {
            "names": names,
            "traits": np.array([self._programs[name].traits for name in names]).reshape(-1, 3),
            "seen": np.array([self._programs[name].seen for name in names]),
            "scatter": np.array([each[0] for each in pooled]).reshape(-1, 3, 3),
            "count": np.array([each[1] for each in pooled]),
            "weights": self._weights.copy(),
            "spread": self._spread,
            "noise": self._noise,
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        programs = {}
        for at, name in enumerate(state["names"]):
            programs[str(name)] = _Program(
                traits=np.array(state["traits"][at], np.float64),
                seen=float(state["seen"][at]),
                scatter=np.array(state["scatter"][at], np.float64).reshape(3, 3),
                count=float(state["count"][at]),
            )
        weights = np.array(state["weights"], np.float64).reshape(3)
        self._spread, self._noise = float(state["spread"]), float(state["noise"])
        self._programs, self._weights, self._jobs = programs, weights, {}


def _rows(view: FabricView) -> Iterator[tuple[int, Floats]]:
    """Yield each application of which delay and slowdown are known, with its sample."""
    applications = view.applications
    delay_ms = (applications.delay_s - applications.best_delay_s) * 1e3
    share = np.minimum(applications.cap_bytes_per_s / line_rate(view), 1.0)
    loss = cap_loss(traits_of(applications), share)
    table = np.column_stack([delay_ms, loss, np.log(applications.slowdown)])
    for at in np.flatnonzero(np.isfinite(table).all(axis=1)):
        yield int(at), table[at]


def _column(quantity: str, rows: Sequence[tuple[float, float, float]]) -> ForecastColumn:
    low, mid, high = np.array(rows, np.float64).reshape(-1, 3).T
    return ForecastColumn(
        about=About.APPLICATIONS,
        quantity=quantity,
        low=low,
        mid=mid,
        high=high,
        basis="delay-sensitivity 1",
    )
