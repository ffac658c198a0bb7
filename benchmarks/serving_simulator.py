"""How many requests does the serving simulator replay per CPU second, and is skipping exact?

19,366 requests with the lengths and arrivals of Azure's chat, on 1 and 4 instances, with all that
the simulator has: chunked prefill, KV blocks scarce enough to preempt, a prefix cache (shared
prefixes are made up: the trace has none), failures, a scaler that looks every 10 s. The policy
is a Python object that is called for every request; the bar is for those whose own time is
small. What plans (`qlm`, `chiron`) is timed beside them. Compiling happens before the clock.

DynoSim measured on such a machine: 12,800 (1 instance) and 6,230 (4). Taking decode stretches in
closed form is compared with every step taken by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from report import bar, finish, progress, quick
from steward.decide.serving import DISPATCHERS
from steward.model.serving.instance_type import H200_LLAMA_8B
from steward.model.serving.requests import BATCH, RequestTrace, requests_of
from steward.model.serving.view import SERVING, Scaling, ServingView
from steward.sim.serving.result import ServingRun
from steward.sim.serving.simulate import Failure, Fleet, simulate, warm_up
from steward.sim.serving.traces import read_requests

REPEATS = 5
PEERS = {1: 12_800, 4: 6_230}
PLAIN = ("fcfs", "edf", "priority", "round-robin", "least-loaded")
PREFIX_TOKENS = 256
SCARCE_KV_TOKENS = 30_000  # a few times what one instance holds on average


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlightCaps:
    """Adds an instance when much waits, drains it when nothing does, and sets caps."""

    name: str = "in-flight-caps"
    every_s: float = 10.0
    fewest: int = 1

    def scale(self, view: ServingView) -> Scaling:
        instances = view.instances
        on = np.flatnonzero(instances.state == SERVING)
        limits = tuple((int(row), 128) for row in on)
        start = (0,) if len(view.queue) > 20 and len(on) < len(instances) else ()
        spare = len(view.queue) == 0 and len(on) > self.fewest
        return Scaling(start=start, drain=(int(on[-1]),) if spare else (), limits=limits)


def main() -> None:
    """Time each policy, then compare stretches with single steps."""
    repeats = 2 if quick() else REPEATS
    warm_up()
    trace = with_prefixes(read_requests("azure_llm_2023_conv"))
    results: dict[str, Any] = {}
    bars = []
    for instances in (1, 4):
        for policy in DISPATCHERS:
            count = repeats if policy in PLAIN else 1
            runs = [serve(trace, instances, policy) for _ in range(count)]
            best = min(runs, key=lambda run: run.cpu_s)  # others share this machine
            row = summary(best)
            row["peer_requests_per_cpu_s"] = PEERS[instances]
            results[f"{policy}, {instances}"] = row
            progress(f"{policy} on {instances}: {row['requests_per_cpu_s']:,}")
        slowest = min(
            row["requests_per_cpu_s"]
            for name, row in results.items()
            if name in {f"{policy}, {instances}" for policy in PLAIN}
        )
        bars.append(
            bar(f"slowest plain policy, {instances} instances (1/CPU s)", slowest, ">=", 50_000)
        )
    for instances in (1, 4):
        apart_s = agreement(trace, instances)
        results[f"agreement with single steps, {instances} (s)"] = apart_s
        bars.append(bar(f"agreement with single steps, {instances} (s)", apart_s, "<=", 1e-9))
    preempted = results["fcfs, 1"]["preemptions"]
    bars.append(bar("preemptions happened", preempted, ">", 0))
    finish("serving_simulator", results, bars)


def with_prefixes(trace: RequestTrace) -> RequestTrace:
    """Give requests one of 50 system prompts of 256 to 1,024 tokens; a quarter are batch."""
    draw = np.random.default_rng(1)
    chosen = draw.zipf(1.3, len(trace)) % 50
    unique = iter(range(1_000_000, 10_000_000))
    prefix = []
    for which, tokens in zip(chosen.tolist(), trace.prompt_tokens.tolist(), strict=True):
        shared = 1 + which % 4
        ids = [which * 4 + place for place in range(min(shared, tokens // PREFIX_TOKENS))]
        prefix.append([*ids, *(next(unique) for _ in range(tokens // PREFIX_TOKENS - len(ids)))])
    made = requests_of(
        trace.name,
        arrival_s=trace.arrival_s,
        prompt_tokens=trace.prompt_tokens,
        output_tokens=trace.output_tokens,
        prefix=prefix,
        prefix_block_tokens=PREFIX_TOKENS,
        synthetic=True,
    )
    return made.with_share(BATCH, draw.random(len(trace)) < 0.25)


def serve(
    trace: RequestTrace, instances: int, policy: str, *, every_step: bool = False
) -> ServingRun:
    """Replay once with everything on."""
    kind = replace(H200_LLAMA_8B, kv_tokens=SCARCE_KV_TOKENS, max_batched_tokens=2048)
    failures = tuple(Failure(t_s=500.0 * (n + 1), instance=n % instances) for n in range(6))
    fleet = Fleet(
        types=(kind,), instances=(0,) * instances, places=instances + 2, failures=failures
    )
    scaler = InFlightCaps(fewest=instances)
    chosen = DISPATCHERS[policy]()
    return simulate(trace, fleet, chosen, scaler=scaler, every_step=every_step)


def summary(run: ServingRun) -> dict[str, Any]:
    """Return what shows that the features were at work."""
    record = run.as_record()
    shown = ("finished", "attainment", "preemptions", "returns", "reused_token_share", "steps")
    return {
        "requests_per_cpu_s": round(record["requests_per_cpu_s"]),
        "dispatcher_calls": run.calls,
        **{name: record[name] for name in shown},
    }


def agreement(trace: RequestTrace, instances: int) -> float:
    """Return how far apart any token time is between stretches and single steps."""
    fast, slow = (serve(trace, instances, "fcfs", every_step=each) for each in (False, True))
    pairs = ((fast.finish_s, slow.finish_s), (fast.first_token_s, slow.first_token_s))
    return float(max(np.abs(a - b).max() for a, b in pairs))


if __name__ == "__main__":
    main()
