"""What no number of instances can mend: the least time that each request takes by itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.model.serving.instance_type import InstanceType
from steward.model.serving.requests import RequestTrace

__all__ = ["Ceiling", "ceilings", "least_instances"]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The share of a class that could be met with unlimited instances, and what the rest lacks."""

    deadline_class: str
    attainment: float
    reasons: tuple[str, ...]


def ceilings(trace: RequestTrace, kind: InstanceType) -> tuple[Ceiling, ...]:
    """Return the ceiling of each class that has requests.

    Each request is taken alone on an idle instance, with all cached that could be.
    """
    ttft_s, itl_s, e2e_s = _floors(trace, kind)
    capacity = kind.kv_tokens // kind.block_tokens * kind.block_tokens
    tokens = trace.prompt_tokens + trace.output_tokens
    found = []
    for code, promised in enumerate(trace.classes):
        mine = trace.deadline_class == code
        if not mine.any():
            continue
        large = f"(up to {int(tokens[mine].max()):,})"
        more = f"have more tokens than its KV cache holds, {capacity:,} {large}"
        misses: list[tuple[Flags, str]] = [(mine & (tokens > capacity), more)]
        for name, least_s, limit_s in (
            ("first token", ttft_s, promised.ttft_s),
            ("time between tokens", itl_s, promised.itl_s),
            ("last token", e2e_s, promised.completion_s),
        ):
            if limit_s is not None:
                late = mine & (least_s > limit_s)
                text = f"need more than {limit_s:g} s for the {name} even on an idle instance"
                misses.append((late, f"{text} (up to {float(least_s[mine].max()):.3g} s)"))
        lost = np.logical_or.reduce([rows for rows, _ in misses])
        count = int(mine.sum())
        reasons = tuple(_reason(rows, count, text) for rows, text in misses if rows.any())
        found.append(
            Ceiling(
                deadline_class=promised.name,
                attainment=1.0 - float(lost.sum()) / count,
                reasons=reasons,
            )
        )
    return tuple(found)


def least_instances(trace: RequestTrace, kind: InstanceType) -> int:
    """Return how many instances the work takes at least, at the best rate of each of its parts."""
    times = kind.step_times
    sizes = {max(1.0, min(times.bend_tokens, kind.max_batched_tokens)), kind.max_batched_tokens}
    # time per token is lowest at the bend or at a full step: it falls before and is monotone after
    per_token_s = min(times.step_s(prefill_tokens=size) / size for size in sizes)
    prompt, output = _computed(trace), trace.output_tokens.astype(np.float64)
    read = output * (trace.prompt_tokens + output / 2)
    work_s = per_token_s * (prompt + output) + times.sequence_s * output + times.kv_token_s * read
    span_s = float(trace.arrival_s[-1] - trace.arrival_s[0])
    return max(1, int(float(work_s.sum()) / span_s)) if span_s > 0 else 1


def _floors(trace: RequestTrace, kind: InstanceType) -> tuple[Floats, Floats, Floats]:
    times = kind.step_times
    prompt, output = _computed(trace), trace.output_tokens.astype(np.float64)
    steps = np.ceil(prompt / kind.max_batched_tokens)
    beyond = np.maximum(0.0, prompt - steps * times.bend_tokens)
    before = trace.prompt_tokens - prompt
    ttft_s: Floats = (
        steps * (times.fixed_s + times.prefill_s)
        + times.token_s * prompt
        + times.token_beyond_s * beyond
        + times.attention_s * prompt * (before + prompt / 2)
    )
    alone_s = times.step_s(decode_sequences=1)
    itl_s: Floats = alone_s + times.kv_token_s * (trace.prompt_tokens + output / 2)
    itl_s = np.where(output > 1, itl_s, 0.0)
    return ttft_s, itl_s, ttft_s + (output - 1) * itl_s


def _computed(trace: RequestTrace) -> Floats:
    """Return the prompt tokens that must be computed even if every known block is cached."""
    shared = np.diff(trace.prefix_start) * trace.prefix_block_tokens
    least: Floats = np.maximum(1.0, (trace.prompt_tokens - shared).astype(np.float64))
    return least


def _reason(rows: Flags, count: int, text: str) -> str:
    missed = int(rows.sum())
    return f"{missed:,} of {count:,} requests ({missed / count:.2%}) {text}"
