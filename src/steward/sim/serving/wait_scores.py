"""How well an estimator predicts waits: predicted at arrival, compared with what came of it.

The estimator sees what a gateway sees: no lengths of answers before they end, and step times that
are off by up to 35 % in each coefficient, drawn by seed, as a profile of another machine would be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.decide.serving.fcfs import Fcfs
from steward.model.serving.forecasts import ServingForecasts
from steward.model.serving.instance_type import InstanceType
from steward.model.serving.requests import RequestTrace
from steward.model.serving.view import ServingView
from steward.model.serving.waits import expected_waits
from steward.ports import ServingEstimator
from steward.sim.serving.bursts import in_bursts, repeated, requests_per_s
from steward.sim.serving.simulate import Fleet, simulate

__all__ = ["SHORT_S", "ScoredWaits", "Watched", "misjudged", "score_record", "score_waits"]

Floats = NDArray[np.float64]
SHORT_S = 1.0  # a wait that is shorter, and was predicted to be, has no error worth telling
USUAL_REQUESTS = 30_000
_OFF = 0.3  # standard: coefficients are off by a factor of exp(-0.3) to exp(0.3)
_EVERY = 50  # calls, after which one that waits is predicted once more


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoredWaits:
    """Waits until the first token, one row per request that was predicted and got there."""

    trace: str
    model: str
    requests: int
    refused: int
    instances: int
    seed: int
    predicted_s: Floats  # when: at the first look after the arrival
    mean_s: Floats
    sd_s: Floats
    upper_s: Floats
    wait_s: Floats
    deadline_class: NDArray[np.int64]
    classes: tuple[str, ...]
    again_mean_s: Floats  # predicted once more while they waited, and what was left to wait
    again_upper_s: Floats
    again_left_s: Floats
    synthetic: bool
    cpu_s: float

    @property
    def told(self) -> NDArray[np.bool_]:
        """Return which waits are compared: those that were long, or predicted to be."""
        compared: NDArray[np.bool_] = np.maximum(self.mean_s, self.wait_s) >= SHORT_S
        return compared

    @property
    def errors(self) -> Floats:
        """Return the errors of those compared, as shares of the wait."""
        shares: Floats = np.abs(self.mean_s / np.maximum(self.wait_s, 1e-9) - 1.0)[self.told]
        return shares

    @property
    def held(self) -> NDArray[np.bool_]:
        """Return which of those compared were within their bounds."""
        within: NDArray[np.bool_] = (self.wait_s <= self.upper_s)[self.told]
        return within


@dataclass(slots=True, kw_only=True)
class Watched:
    """Passes on to an estimator what it may see, and keeps what its forecasts say of waits."""

    inner: ServingEstimator
    types: tuple[InstanceType, ...]
    predicted: Floats  # [row, 4] when, mean, sd, bound
    again: list[tuple[int, float, float, float]] = field(default_factory=list)
    name: str = "watched"
    calls: int = 0
    last: int = -1

    def learn(self, view: ServingView, ended: NDArray[np.int64]) -> None:
        self.inner.learn(replace(view, types=self.types), ended)

    def predict(self, view: ServingView) -> ServingForecasts:
        shown = replace(view, types=self.types)
        forecasts = self.inner.predict(shown)
        self.calls += 1
        sample = self.calls % _EVERY == 0
        newest = int(view.queue[-1]) if len(view.queue) else -1
        if newest > self.last or (sample and len(view.queue)):
            self._keep(replace(shown, forecasts=forecasts), sample=sample)
            self.last = max(newest, self.last)
        return forecasts

    def _keep(self, view: ServingView, *, sample: bool) -> None:
        waits = expected_waits(view)
        new = np.flatnonzero(view.queue > self.last)
        when_s = np.full(len(new), view.t_s)
        columns = (when_s, waits.mean_s[new], waits.sd_s[new], waits.upper_s[new])
        self.predicted[view.queue[new]] = np.stack(columns, axis=1)
        if sample:
            place = self.calls // _EVERY % len(view.queue)
            about = float(waits.mean_s[place]), float(waits.upper_s[place])
            self.again.append((int(view.queue[place]), view.t_s, *about))


def misjudged(kind: InstanceType, *, seed: int, off: float = _OFF) -> InstanceType:
    """Return the type with step times that are wrong, each coefficient by itself."""
    draw = np.random.default_rng((seed, 3))
    times = kind.step_times
    names = (
        *("fixed_s", "prefill_s", "token_s", "token_beyond_s"),
        *("sequence_s", "kv_token_s", "attention_s"),
    )
    wrong = {name: getattr(times, name) * float(np.exp(draw.uniform(-off, off))) for name in names}
    return replace(kind, step_times=replace(times, **wrong))


def score_waits(
    trace: RequestTrace,
    kind: InstanceType,
    estimator: ServingEstimator,
    *,
    instances: int = 1,
    seed: int = 0,
    in_time: bool = False,
) -> ScoredWaits:
    """Serve the requests first come, first served, in bursts, and compare waits with predictions.

    `in_time` keeps the trace's arrivals as they are, without bursts.
    """
    if not in_time:
        trace = repeated(trace, USUAL_REQUESTS)
        trace = in_bursts(trace, requests_per_s(trace, kind), instances=instances, seed=seed)
    watched = Watched(
        inner=estimator,
        types=(misjudged(kind, seed=seed),),
        predicted=np.full((len(trace), 4), np.nan),
    )
    fleet = Fleet(types=(kind,), instances=(0,) * instances)
    run = simulate(trace, fleet, Fcfs(), estimator=watched)
    rows = np.flatnonzero(np.isfinite(run.ttft_s) & np.isfinite(watched.predicted[:, 0]))
    when_s, mean_s, sd_s, upper_s = watched.predicted[rows].T
    again = np.array(watched.again, np.float64).reshape(-1, 4)
    left_s = run.first_token_s[again[:, 0].astype(np.int64)] - again[:, 1]
    open_still = np.isfinite(left_s) & (left_s > 0)
    return ScoredWaits(
        trace=trace.name,
        model=kind.model,
        requests=len(trace),
        refused=int(np.isnan(run.sent_s).sum()),
        instances=instances,
        seed=seed,
        predicted_s=when_s,
        mean_s=mean_s,
        sd_s=sd_s,
        upper_s=upper_s,
        wait_s=run.first_token_s[rows] - when_s,
        deadline_class=trace.deadline_class[rows],
        classes=tuple(each.name for each in trace.classes),
        again_mean_s=again[open_still, 2],
        again_upper_s=again[open_still, 3],
        again_left_s=left_s[open_still],
        synthetic=trace.synthetic,
        cpu_s=run.cpu_s,
    )


def score_record(scores: Sequence[ScoredWaits]) -> dict[str, Any]:
    """Return the figures over one or several runs; None is what cannot be known."""
    errors = np.concatenate([each.errors for each in scores])
    held = np.concatenate([each.held for each in scores])
    told = [each.told for each in scores]
    mean_s = np.concatenate([each.mean_s[rows] for each, rows in zip(scores, told, strict=True)])
    upper_s = np.concatenate([each.upper_s[rows] for each, rows in zip(scores, told, strict=True)])
    wait_s = np.concatenate([each.wait_s[rows] for each, rows in zip(scores, told, strict=True)])
    found = _errors(errors, held)
    return {
        "trace": scores[0].trace,
        "models": [each.model for each in scores],
        "instances": scores[0].instances,
        "seeds": sorted({each.seed for each in scores}),
        "requests": sum(each.requests for each in scores),
        **found,
        "p95_error": float(np.quantile(errors, 0.95)) if len(errors) else None,
        "bias": float(np.median(mean_s / np.maximum(wait_s, 1e-9) - 1.0)) if len(errors) else None,
        "sharpness": float(np.median(upper_s / np.maximum(mean_s, 1e-9))) if len(errors) else None,
        "median_wait_s": float(np.median(wait_s)) if len(errors) else None,
        "short": sum(int(len(rows) - rows.sum()) for rows in told),
        "refused": sum(each.refused for each in scores),
        "by_class": _by_class(scores),
        "while_waiting": _while_waiting(scores),
        "cpu_s": sum(each.cpu_s for each in scores),
    }


def _errors(errors: Floats, held: NDArray[np.bool_]) -> dict[str, Any]:
    return {
        "median_error": float(np.median(errors)) if len(errors) else None,
        "coverage_90": float(held.mean()) if len(held) else None,
        "compared": len(errors),
    }


def _by_class(scores: Sequence[ScoredWaits]) -> dict[str, Any]:
    found = {}
    for name in dict.fromkeys(name for each in scores for name in each.classes):
        errors, held = [], []
        for each in scores:
            mine = (each.deadline_class == each.classes.index(name))[each.told]
            errors.append(each.errors[mine])
            held.append(each.held[mine])
        row = _errors(np.concatenate(errors), np.concatenate(held))
        if row["compared"]:
            found[name] = row
    return found


def _while_waiting(scores: Sequence[ScoredWaits]) -> dict[str, Any]:
    mean_s = np.concatenate([each.again_mean_s for each in scores])
    upper_s = np.concatenate([each.again_upper_s for each in scores])
    left_s = np.concatenate([each.again_left_s for each in scores])
    told = np.maximum(mean_s, left_s) >= SHORT_S
    errors = np.abs(mean_s[told] / left_s[told] - 1.0)
    return _errors(errors, left_s[told] <= upper_s[told])
