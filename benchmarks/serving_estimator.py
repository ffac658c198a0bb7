"""Does the waiting-time estimator meet its bars, on traces, seeds and mixes it was not fitted to?

Each trace of `llm_traces` in bursts beyond capacity, first come, first served, each wait until the
first token predicted at the arrival (`steward serve score`), with step times that are wrong at the
start. Constants were chosen while looking at the six traces with seeds 0 to 4, 20 and 21 (the seed
draws the bursts, and how wrong the step times are), at made-up traces, and at other mixes than
those here; why the first mix missed its bar was looked for with seed 20. Reported are seeds 11 and
12, 4 instances, profiles of slower and quicker machines, and mixes whose parts are tenants of their
own. No trace was held back. Nothing is learnt before a run, and nothing is kept between two.

Beside it, under the same protocol: QLM's estimate with one constant throughput (tokens per second
of a full batch of ShareGPT), and requests ahead times the mean time between two ends. The
step-time model is judged on points held out, by the worst of 20 splits (`serving_step_times.py`).

Last, a real engine: four recorded loads of a llama.cpp server on an H200 (`tests/data`), one after
the other, each moment shown as a gateway saw it. No bar. All four were looked at when the form of
the calibration was chosen, so their coverage is not a judgement of it.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from report import bar, finish, progress
from serving_step_times import SPLITS, errors_of
from steward.learn.estimators.serving.learned_waits import LearnedWaits
from steward.learn.step_profiles import instance_types, read_profiles
from steward.model.serving.forecasts import ServingForecasts
from steward.model.serving.instance_type import H200_LLAMA_8B, InstanceType
from steward.model.serving.requests import RequestTrace, merged
from steward.model.serving.view import ServingView
from steward.ports import ServingEstimator
from steward.sim.serving.bursts import in_bursts, repeated, requests_per_s
from steward.sim.serving.recorded import read_load, score_recorded
from steward.sim.serving.simulate import warm_up
from steward.sim.serving.traces import read_requests
from steward.sim.serving.wait_scores import ScoredWaits, score_record, score_waits
from steward.sim.traces.locate import data_folder

CHAT, SUMMARIES = "azure_llm_2023_conv", "arxiv_summarization_lengths"
LONG, SHARED = "mooncake_conversation", "sharegpt_lengths"
TRACES = (CHAT, SHARED, SUMMARIES, LONG, "lmsys_arena_vtc_2023", "servegen_m_small")
MIXES = {
    "chat > summaries > chat": (CHAT, SUMMARIES, CHAT),
    "chat > long > ShareGPT": (CHAT, LONG, SHARED),
}
ON_FOUR = (CHAT, LONG)
OTHER_PROFILES = ((CHAT, 4.0), (CHAT, 0.3), ("lmsys_arena_vtc_2023", 0.3), (SHARED, 4.0))
SEEDS = (11, 12)
OF_A_PART = 10_000
MEDIAN, COVERAGE = 0.05, (0.88, 0.92)
BOOTSTRAPS = 400
BLOCK = 500  # waits next to each other go wrong together
OURS, QLM, MEAN_GAP = "ours", "one constant throughput (QLM)", "requests ahead x mean gap"
WORKERS = 2
RECORDED = Path(__file__).resolve().parents[1] / "tests" / "data" / "llama-server-h200"
LOADS = ("azure", "sharegpt_backlog", "lmsys", "chat_and_summaries")
# Of `llama-server -c 131072 -np 32`; 2,048 tokens a step are its default.
SERVER = replace(
    H200_LLAMA_8B, kv_tokens=131_072, max_sequences=32, max_batched_tokens=2048, max_waiting=1
)
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One trace or mix, scored once."""

    name: str
    seed: int
    instances: int = 1
    estimator: str = OURS
    throughput: float = 0.0
    scale: float = 1.0  # of all step times

    @property
    def shown(self) -> str:
        told = [self.name]
        told += [f"{self.instances} instances"] if self.instances > 1 else []
        told += [f"step times x {self.scale:g}"] if self.scale != 1.0 else []
        return ", ".join(told)


@dataclass(slots=True, kw_only=True)
class EqualWork:
    """The same work for each request: QLM's with a constant throughput, or the mean gap."""

    name: str
    throughput: float | None = None  # tokens per second; None: from gaps between ends
    ends: list[float] = field(default_factory=list)
    tokens: float = 256.0
    squares: float = 2 * 256.0**2
    gap_s: float = 0.05
    count: int = 1

    def learn(self, view: ServingView, ended: Ints) -> None:
        made = view.requests.generated_tokens[ended].astype(np.float64)
        self.count += len(ended)
        self.tokens += float((made - self.tokens).sum()) / self.count
        self.squares += float((made**2 - self.squares).sum()) / self.count
        finish_s = view.requests.finish_s[ended].tolist()
        if len(view.queue) <= int(view.instances.room.sum()):
            self.ends.clear()
            return
        self.ends = (self.ends + finish_s)[-1000:]
        if len(self.ends) > 100:
            self.gap_s = (self.ends[-1] - self.ends[0]) / (len(self.ends) - 1)

    def predict(self, view: ServingView) -> ServingForecasts:
        rows, places = len(view.requests.arrival_s), len(view.instances)
        serving = max(int((view.instances.state == 2).sum()), 1)
        work_s = self.tokens / self.throughput if self.throughput else self.gap_s * serving
        spread = max(self.squares - self.tokens**2, 0.0) ** 0.5 / self.tokens
        free = view.instances.limit - view.instances.running - view.instances.waiting
        flat = np.broadcast_to(np.float64(work_s), (1, rows))
        none = np.broadcast_to(np.float64(0.0), (1, rows))
        return ServingForecasts(
            output_tokens=np.broadcast_to(np.float64(self.tokens), rows),
            output_sd=none[0],
            work_s=flat,
            work_sd_s=np.broadcast_to(np.float64(work_s * spread), (1, rows)),
            first_token_s=none,
            run_s=flat,
            bound_share=0.0,
            bound_sds=1.2816,
            backlog_s=-work_s * free.astype(np.float64),
            backlog_sd_s=np.zeros(places),
        )


def main() -> None:
    """Score every trace and mix with ours and the rivals, then judge the step times."""
    short, alone = _asked()
    warm_up()
    profile = data_folder().parent / "h200" / "serving_truth.csv"
    kind = instance_types([profile], H200_LLAMA_8B)[0]
    throughput = _tokens_per_s(kind)
    runs = _runs(throughput, short=short, rivals=not alone)
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        scores = list(pool.map(scored, runs, [kind] * len(runs)))
    ours: dict[str, list[ScoredWaits]] = {}
    rivals: dict[str, dict[str, Any]] = {}
    for run, score in zip(runs, scores, strict=True):
        if run.estimator == OURS:
            ours.setdefault(run.shown, []).append(score)
        else:
            rivals.setdefault(run.estimator, {})[run.shown] = summary([score])
    results: dict[str, Any] = {name: summary(found) for name, found in ours.items()}
    bars = [each for name, row in results.items() for each in _bars(name, row)]
    results["rivals"] = rivals
    results["real engine"] = real_engine(short=short)
    for each in read_profiles(profile):
        row = errors_of(each, 1 if short else SPLITS)
        results[f"step times, {each.model}"] = row
        worst = row["median_error_of_splits"]["worst"]
        bars.append(bar(f"{each.model}: step times held out, worst split", worst, "<=", MEDIAN))
    finish("serving_estimator", results, bars)


def _asked() -> tuple[bool, bool]:
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, same code")
    parser.add_argument("--without-rivals", action="store_true", help="ours only: all the bars")
    given = parser.parse_args()
    return given.quick, given.without_rivals


def _bars(name: str, row: dict[str, Any]) -> list[dict[str, Any]]:
    low, high = COVERAGE
    return [
        bar(f"{name}: median error", row["median_error"], "<=", MEDIAN),
        bar(f"{name}: coverage of 90 % bounds", row["coverage_90"], ">=", low),
        bar(f"{name}: coverage of 90 % bounds", row["coverage_90"], "<=", high),
    ]


def _runs(throughput: float, *, short: bool, rivals: bool) -> list[Run]:
    names = TRACES[:1] if short else (*MIXES, *TRACES)
    seeds = SEEDS[:1] if short else SEEDS
    found = [] if short else [Run(name=name, seed=seeds[0], instances=4) for name in ON_FOUR]
    found += [Run(name=name, seed=seed) for name in names for seed in seeds]
    if not short:
        found += [Run(name=name, seed=seeds[0], scale=scale) for name, scale in OTHER_PROFILES]
    for rival in (QLM, MEAN_GAP) if rivals else ():
        found += [
            Run(name=name, seed=seeds[0], estimator=rival, throughput=throughput) for name in names
        ]
    return found


def scored(run: Run, kind: InstanceType) -> ScoredWaits:
    """Score one run, in a process of its own."""
    kind = replace(kind, step_times=kind.step_times.scaled(run.scale))
    estimator: ServingEstimator = LearnedWaits()
    if run.estimator != OURS:
        constant = run.throughput if run.estimator == QLM else None
        estimator = EqualWork(name=run.estimator, throughput=constant)
    if run.name in MIXES:
        found = _on_mix(MIXES[run.name], kind, estimator, run.seed)
    else:
        trace = read_requests(run.name)
        found = score_waits(trace, kind, estimator, instances=run.instances, seed=run.seed)
    median, held = float(np.median(found.errors)), float(found.held.mean())
    progress(f"{run.shown}, {run.estimator}, seed {run.seed}: {median:.1%}, held {held:.1%}")
    return found


def real_engine(*, short: bool) -> dict[str, Any]:
    """Judge predictions of the waits before a real server, by load; nothing is tuned on them."""
    kind = instance_types([RECORDED / "steps.csv"], SERVER)[0]
    loads = tuple(read_load(RECORDED / f"load_{name}.csv") for name in LOADS)
    if short:
        loads = tuple(each.head(150) for each in loads[:1])
    found: dict[str, Any] = {}
    for how, tenants in (("one tenant", False), ("a tenant each", True)):
        for each in score_recorded(loads, kind, LearnedWaits(), tenants=tenants):
            row = found[f"{each.trace}, {how}"] = score_record([each])
            error, held = row["median_error"], row["coverage_90"]
            progress(f"real engine, {each.trace}, {how}: {error:.1%}, held {held:.1%}")
    return found


def _tokens_per_s(kind: InstanceType) -> float:
    shared = read_requests(SHARED)
    return requests_per_s(shared, kind) * float(shared.head(3000).output_tokens.mean())


def _on_mix(
    parts: tuple[str, ...], kind: InstanceType, estimator: ServingEstimator, seed: int
) -> ScoredWaits:
    """Score one source of requests after another; each is a tenant, as API keys would tell."""
    made: list[RequestTrace] = []
    begin_s = 0.0
    for place, name in enumerate(parts):
        whole = read_requests(name)
        source = repeated(whole, min(len(whole), OF_A_PART * (place + 1)))
        rows = np.arange(len(source))[-OF_A_PART:]
        part = repeated(_rows(source, rows), OF_A_PART)
        part = in_bursts(part, requests_per_s(part, kind), instances=1, seed=seed + 10 * place)
        arrival_s = part.arrival_s - part.arrival_s[0] + begin_s
        begin_s = float(arrival_s[-1])
        tenants = (name,)
        codes = np.zeros(len(part), np.int64)
        made.append(replace(part, arrival_s=arrival_s, tenants=tenants, tenant=codes))
    mixed = replace(merged(made), name=" > ".join(parts))
    return score_waits(mixed, kind, estimator, seed=seed, in_time=True)


def _rows(trace: RequestTrace, rows: Ints) -> RequestTrace:
    """Return the last rows of a trace, without prefixes."""
    first = int(rows[0])
    columns = ("arrival_s", "prompt_tokens", "output_tokens", "deadline_class", "tenant", "model")
    return replace(
        trace,
        **{name: getattr(trace, name)[first:] for name in columns},
        prefix_ids=np.zeros(0, np.int64),
        prefix_start=np.zeros(len(rows) + 1, np.int64),
        prefix_block_tokens=0,
    )


def summary(scores: list[ScoredWaits]) -> dict[str, Any]:
    """Return the figures with intervals: blocks of neighbouring waits are drawn anew."""
    record = score_record(scores)
    draw = np.random.default_rng(0)
    errors = np.concatenate([each.errors for each in scores])
    held = np.concatenate([each.held for each in scores])
    starts = np.arange(0, len(errors), BLOCK)
    medians, shares = [], []
    for _ in range(BOOTSTRAPS):
        chosen = draw.choice(starts, len(starts))
        rows = np.concatenate([np.arange(at, min(at + BLOCK, len(errors))) for at in chosen])
        medians.append(float(np.median(errors[rows])))
        shares.append(float(held[rows].mean()))
    by_seed = [(float(np.median(each.errors)), float(each.held.mean())) for each in scores]
    return {
        **record,
        "median_error_interval": np.quantile(medians, (0.025, 0.975)).tolist(),
        "coverage_90_interval": np.quantile(shares, (0.025, 0.975)).tolist(),
        "by_seed": by_seed,
    }


if __name__ == "__main__":
    main()
