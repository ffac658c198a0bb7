"""What became of the requests, and how well promises were kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.model.serving.requests import RequestTrace

__all__ = ["PERCENTILES", "ServingRun"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
PERCENTILES = (50, 90, 95, 99)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServingRun:
    """One row per request; NaN is what never happened."""

    trace: RequestTrace
    policy: str
    sent_s: Floats  # from the gateway to an instance, the first time
    first_token_s: Floats
    finish_s: Floats
    instance: Ints  # the last one it was sent to
    preemptions: Ints  # by its server, for want of KV blocks
    returns: Ints  # to the gateway: evicted, or its instance failed
    reused_tokens: Ints  # of its prompt, found in a prefix cache
    end_s: float
    gpu_seconds: float
    steps: int
    calls: int  # of the dispatcher
    cpu_s: float
    offloaded: Mapping[str, int] = field(
        default_factory=dict
    )  # prefix blocks, where there is a tier

    @property
    def ttft_s(self) -> Floats:
        """Return how long each request waited for its first token."""
        return self.first_token_s - self.trace.arrival_s

    @property
    def itl_s(self) -> Floats:
        """Return the mean time between a request's tokens; 0 for those with one token."""
        gaps = np.maximum(self.trace.output_tokens - 1, 1)
        times: Floats = (self.finish_s - self.first_token_s) / gaps
        return times

    @property
    def e2e_s(self) -> Floats:
        """Return how long each request took from its arrival to its last token."""
        return self.finish_s - self.trace.arrival_s

    def met(self) -> NDArray[np.bool_]:
        """Return which requests got all that their class promises; unfinished ones did not."""
        kept = np.isfinite(self.finish_s)
        for code, promised in enumerate(self.trace.classes):
            mine = self.trace.deadline_class == code
            for took, limit in (
                (self.ttft_s, promised.ttft_s),
                (self.itl_s, promised.itl_s),
                (self.e2e_s, promised.completion_s),
            ):
                if limit is not None:
                    kept &= ~mine | (np.nan_to_num(took, nan=np.inf) <= limit)
        return kept

    def attainment(self) -> dict[str, float]:
        """Return the share of requests of each class that got what it promises."""
        met = self.met()
        shares = {}
        for code, promised in enumerate(self.trace.classes):
            mine = self.trace.deadline_class == code
            if mine.any():
                shares[promised.name] = float(met[mine].mean())
        return shares

    def as_record(self) -> dict[str, Any]:
        """Return the figures as JSON knows them."""
        done = int(np.isfinite(self.finish_s).sum())
        span_s = self.end_s - float(self.trace.arrival_s[0])
        generated = int(self.trace.output_tokens[np.isfinite(self.finish_s)].sum())
        return {
            "trace": self.trace.name,
            "policy": self.policy,
            "requests": len(self.trace),
            "finished": done,
            "attainment": self.attainment(),
            "gpu_seconds": self.gpu_seconds,
            "requests_per_cpu_s": len(self.trace) / max(self.cpu_s, 1e-9),
            "cpu_s": self.cpu_s,
            "end_s": self.end_s,
            "tokens_per_s": generated / span_s if span_s > 0 else None,
            "ttft_s": _percentiles(self.ttft_s),
            "itl_s": _percentiles(self.itl_s[self.trace.output_tokens > 1]),
            "e2e_s": _percentiles(self.e2e_s),
            "by_class": self._by_class(),
            "preemptions": int(self.preemptions.sum()),
            "returns": int(self.returns.sum()),
            "reused_token_share": float(
                self.reused_tokens.sum() / max(1, self.trace.prompt_tokens.sum())
            ),
            "dispatcher_calls": self.calls,
            "steps": self.steps,
        }

    def _by_class(self) -> dict[str, Any]:
        found = {}
        for code, promised in enumerate(self.trace.classes):
            mine = self.trace.deadline_class == code
            found[promised.name] = {
                "requests": int(mine.sum()),
                "ttft_s": _percentiles(self.ttft_s[mine]),
                "itl_s": _percentiles(self.itl_s[mine & (self.trace.output_tokens > 1)]),
                "e2e_s": _percentiles(self.e2e_s[mine]),
            }
        return found


def _percentiles(values: Floats, levels: Sequence[int] = PERCENTILES) -> dict[str, float | None]:
    known = values[np.isfinite(values)]
    if not len(known):
        return {f"p{level}": None for level in levels}
    found = np.percentile(known, levels)
    return {f"p{level}": float(value) for level, value in zip(levels, found, strict=True)}
