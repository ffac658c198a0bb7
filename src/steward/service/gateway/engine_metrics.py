"""What model servers publish about themselves: vLLM's, SGLang's, TGI's and llama.cpp's names.

Whole names are matched: `vllm:num_requests_waiting` is also the beginning of another metric.
"""

from __future__ import annotations

import math

from steward.service.gateway.upstream import EngineLoad

__all__ = ["read_load"]

# The first name that is there counts; older servers have the later ones.
_RUNNING = (
    *("vllm:num_requests_running", "sglang:num_running_reqs", "sglang_num_running_reqs"),
    *("tgi_batch_current_size", "llamacpp:requests_processing"),
)
_WAITING = (
    *("vllm:num_requests_waiting", "sglang:num_queue_reqs", "sglang_num_queue_reqs"),
    *("tgi_queue_size", "llamacpp:requests_deferred"),
)
_KV_SHARE = (
    *("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage"),
    *("sglang_token_usage", "llamacpp:kv_cache_usage_ratio"),
)
_TOKENS = (
    *("vllm:generation_tokens_total", "vllm:generation_tokens"),
    *("sglang:generation_tokens_total", "sglang:generation_tokens"),
    "llamacpp:tokens_predicted_total",
)
_WANTED = frozenset((*_RUNNING, *_WAITING, *_KV_SHARE, *_TOKENS))


def read_load(text: str) -> EngineLoad:
    """Return what the exposition says; unknown metrics and broken lines are passed over.

    >>> read_load('vllm:num_requests_waiting{engine="0"} 3').waiting
    3.0
    """
    values: dict[str, list[float]] = {}
    for line in text.splitlines():
        name = line[: _name_end(line)]
        if name in _WANTED:
            value = _value(line, len(name))
            if value is not None:
                values.setdefault(name, []).append(value)
    shares = _first(values, _KV_SHARE)
    return EngineLoad(
        running=_sum(_first(values, _RUNNING)),
        waiting=_sum(_first(values, _WAITING)),
        kv_share=max(shares) if shares else None,
        generated_tokens=_sum(_first(values, _TOKENS)),
    )


def _name_end(line: str) -> int:
    ends = [at for at in (line.find("{"), line.find(" ")) if at >= 0]
    return min(ends, default=0)


def _value(line: str, begin: int) -> float | None:
    rest = line[line.rfind("}") + 1 :] if line[begin : begin + 1] == "{" else line[begin:]
    try:
        value = float(rest.split()[0])
    except (ValueError, IndexError):
        return None
    return value if math.isfinite(value) else None


def _first(values: dict[str, list[float]], names: tuple[str, ...]) -> list[float]:
    return next((values[name] for name in names if name in values), [])


def _sum(values: list[float]) -> float | None:
    return sum(values) if values else None
