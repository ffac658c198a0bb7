"""Judges requests that were replayed at a real server, and the simulator's prediction of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.clients.request_replay import Replayed
from steward.model.serving.instance_type import InstanceType
from steward.model.serving.requests import RequestTrace
from steward.sim.serving.plan import PolicyChoice
from steward.sim.serving.resample import picked
from steward.sim.serving.result import PERCENTILES
from steward.sim.serving.simulate import Fleet, simulate

__all__ = ["Times", "compared", "measured_times", "predicted_times", "replay_record"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Times:
    """Seconds by request from when it was due; NaN is what never happened."""

    trace: RequestTrace
    ttft_s: Floats
    itl_s: Floats
    e2e_s: Floats

    def met(self) -> NDArray[np.bool_]:
        """Return which requests got all that their class promises."""
        kept = np.isfinite(self.e2e_s)
        for code, promised in enumerate(self.trace.classes):
            mine = self.trace.deadline_class == code
            for took_s, limit_s in (
                (self.ttft_s, promised.ttft_s),
                (self.itl_s, promised.itl_s),
                (self.e2e_s, promised.completion_s),
            ):
                if limit_s is not None:
                    kept &= ~mine | (np.nan_to_num(took_s, nan=np.inf) <= limit_s)
        return kept

    def by_class(self) -> dict[str, dict[str, Any]]:
        """Return count, attainment and percentiles of each class that has requests."""
        met, found = self.met(), {}
        for code, promised in enumerate(self.trace.classes):
            mine = self.trace.deadline_class == code
            if mine.any():
                several = mine & (self.trace.output_tokens > 1)
                found[promised.name] = {
                    "requests": int(mine.sum()),
                    "attainment": float(met[mine].mean()),
                    "ttft_s": _percentiles(self.ttft_s[mine]),
                    "itl_s": _percentiles(self.itl_s[several]),
                    "e2e_s": _percentiles(self.e2e_s[mine]),
                }
        return found


def measured_times(trace: RequestTrace, found: Replayed) -> Times:
    """Return the times of the requests that were answered or failed."""
    rows = found.settled
    mine = picked(trace, rows, trace.arrival_s[rows])
    tokens = np.maximum(found.output_tokens[rows], 1)
    first_s, finish_s, due_s = (each[rows] for each in (found.first_s, found.finish_s, found.due_s))
    return Times(
        trace=replace(mine, output_tokens=tokens),
        ttft_s=first_s - due_s,
        itl_s=(finish_s - first_s) / np.maximum(tokens - 1, 1),
        e2e_s=finish_s - due_s,
    )


def predicted_times(
    trace: RequestTrace,
    kinds: tuple[InstanceType, ...],
    instances: int,
    policies: PolicyChoice,
) -> Times:
    """Return what the simulator says of the same requests; models go to the first type's."""
    plain = replace(trace, models=(), model=np.full(len(trace), -1, np.int64))
    fleet = Fleet(types=kinds[:1], instances=(0,) * instances)
    estimator = policies.estimator() if policies.estimator else None
    run = simulate(plain, fleet, policies.dispatcher(), estimator=estimator)
    return Times(trace=trace, ttft_s=run.ttft_s, itl_s=run.itl_s, e2e_s=run.e2e_s)


def compared(measured: Times, predicted: Times) -> dict[str, dict[str, float | None]]:
    """Return measured over predicted, by class: medians of TTFT, ITL and E2E."""
    ours, theirs = measured.by_class(), predicted.by_class()
    return {
        name: {
            f"{what}_p50_ratio": _ratio(row[what]["p50"], theirs.get(name, row)[what]["p50"])
            for what in ("ttft_s", "itl_s", "e2e_s")
        }
        for name, row in ours.items()
    }


def replay_record(trace: RequestTrace, found: Replayed, measured: Times) -> dict[str, Any]:
    """Return what was measured as JSON knows it."""
    kinds = Counter(each for each in found.errors if each)
    sent = np.isfinite(found.sent_s)
    asked = trace.output_tokens[np.isfinite(found.finish_s)]
    came = found.output_tokens[np.isfinite(found.finish_s)]
    span_s = float(np.nanmax(found.finish_s)) if np.isfinite(found.finish_s).any() else 0.0
    met = measured.met()
    return {
        "trace": trace.name,
        "requests": len(trace),
        "sent": int(sent.sum()),
        "settled": len(found.settled),
        "interrupted": found.interrupted,
        "attainment": {name: row["attainment"] for name, row in measured.by_class().items()},
        "by_class": measured.by_class(),
        "errors": dict(kinds),
        "error_examples": dict(found.details),
        "tokens_per_s": float(came.sum()) / span_s if span_s > 0 else None,
        "goodput_per_s": float(met.sum()) / span_s if span_s > 0 else None,
        "client_late_s": _percentiles(found.late_s) | {"max": _largest(found.late_s)},
        "client_held": found.held,
        "prompt_token_ratio": _median(found.prompt_tokens / trace.prompt_tokens),
        "output_token_ratio": _median(came / asked) if len(asked) else None,
    }


def _percentiles(values: Floats) -> dict[str, float | None]:
    known = values[np.isfinite(values)]
    if not len(known):
        return {f"p{level}": None for level in PERCENTILES}
    found = np.percentile(known, PERCENTILES)
    return {f"p{level}": float(value) for level, value in zip(PERCENTILES, found, strict=True)}


def _largest(values: Floats) -> float | None:
    return float(values.max()) if len(values) else None


def _median(values: Floats) -> float | None:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else None


def _ratio(measured: float | None, predicted: float | None) -> float | None:
    return measured / predicted if measured is not None and predicted else None
