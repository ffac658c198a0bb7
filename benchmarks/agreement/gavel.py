"""Time-share policies against Gavel's own simulator (OSDI'20), as the anchors recorded it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from steward.decide.scheduling.time_shares.finish_time_fairness import FinishTimeFairness
from steward.decide.scheduling.time_shares.gandiva import Gandiva
from steward.decide.scheduling.time_shares.isolated import Isolated
from steward.decide.scheduling.time_shares.makespan import Makespan
from steward.decide.scheduling.time_shares.max_min import MaxMin
from steward.decide.scheduling.time_shares.max_sum import MaxSum
from steward.decide.scheduling.time_shares.problem import (
    TimeSharePolicy,
    TimeShareProblem,
    TimeShares,
)
from steward.decide.scheduling.time_shares.typed_fifo import TypedFifo
from steward.model.machines import Machines, machines_of
from steward.model.replay import Replay
from steward.model.throughput import ThroughputTable
from steward.sim.lab.time_shares import replay_time_shares
from steward.sim.traces import read_trace
from steward.sim.traces.locate import data_folder
from steward.sim.traces.throughputs import read_throughputs

__all__ = ["lines"]

Floats = NDArray[np.float64]
BOUND = 0.02
SEEDS = range(8)
TYPES = ("v100", "p100", "k80")
POLICIES: dict[str, TimeSharePolicy] = {
    "fifo": TypedFifo(aware=False),
    "fifo_perf": TypedFifo(),
    "max_min_fairness": MaxMin(aware=False),
    "max_min_fairness_perf": MaxMin(),
    "max_min_fairness_water_filling_perf": MaxMin(water_filling=True),
    "finish_time_fairness": FinishTimeFairness(aware=False),
    "finish_time_fairness_perf": FinishTimeFairness(),
    "gandiva": Gandiva(),
    "isolated": Isolated(),
    "min_total_duration": Makespan(aware=False),
    "min_total_duration_perf": Makespan(),
    "max_sum_throughput_perf": MaxSum(),
}


def lines(quick: bool) -> list[dict[str, Any]]:  # noqa: FBT001 - the assembly's own call
    """Return one line per run of the peer, and one more where the peer's fault is shown."""
    traces = data_folder()
    table = read_throughputs(traces / "gavel")
    anchors = pl.read_csv(traces / "anchors" / "peer_summary.csv.gz")
    runs = list(anchors.filter(simulator="gavel-sim").iter_rows(named=True))
    _replayed(runs[0], Isolated(), table)  # compiles
    found = []
    for run in runs:
        if run["policy"] == "gandiva":
            found.append(_over_seeds(run, table, SEEDS[: 3 if quick else None]))
            continue
        found.append(_line(run, _replayed(run, POLICIES[run["policy"]], table)))
        if run["policy"] == "fifo":
            found.append(_line(run, _replayed(run, FaultyFifo(), table), fault=True))
    return found


def _replayed(
    run: dict[str, Any], policy: TimeSharePolicy, table: ThroughputTable, seed: int = 0
) -> Replay:
    counts = [int(part) for part in run["cluster"].split()[0].split(":")]
    return replay_time_shares(
        read_trace(run["trace"]), _machines(counts), policy, throughputs=table, seed=seed
    )


def _machines(counts: list[int]) -> Machines:
    """Return servers of one GPU each, as many of each type as the anchor says."""
    kinds = [kind for kind, count in zip(TYPES, counts, strict=True) if count]
    node_types = np.repeat(np.arange(len(kinds)), [count for count in counts if count])
    return replace(machines_of(sum(counts), gpus_per_node=1), type=node_types, types=tuple(kinds))


def _line(run: dict[str, Any], replay: Replay, *, fault: bool = False) -> dict[str, Any]:
    jct_s, makespan_s = _measures(replay)
    off = (jct_s / run["avg_jct_s"] - 1.0, makespan_s / run["makespan_s"] - 1.0)
    # several types and drawn at random: there the peer does not do what it says
    differs = run["policy"] == "fifo" and not fault and not run["cluster"].startswith("32:")
    close = all(abs(part) <= BOUND for part in off)
    note = f"mean JCT {off[0]:+.2%}, makespan {off[1]:+.2%}"
    if differs:
        note += "; the peer draws a type and then takes another one (next line)"
    if fault:
        note += "; ours with the peer's fault put in"
    return {
        "what": _what(run) + (" (peer's fault)" if fault else ""),
        "ours": [round(jct_s, 1), round(makespan_s, 1)],
        "peer": [run["avg_jct_s"], run["makespan_s"]],
        "bar": "none: the peer's fault" if differs else f"both within {BOUND:.0%}",
        "holds": differs or close,
        "cpu_s": round(replay.cpu_s, 2),
        "note": f"{note}; peer {run['user_cpu_s']} CPU s",
    }


def _over_seeds(run: dict[str, Any], table: ThroughputTable, seeds: range) -> dict[str, Any]:
    """Pairs are drawn at random: compare the peer's one draw with the spread of ours."""
    replays = [_replayed(run, POLICIES["gandiva"], table, seed) for seed in seeds]
    values = np.array([_measures(replay) for replay in replays])
    peer = np.array([run["avg_jct_s"], run["makespan_s"]])
    low, high = values.min(axis=0), values.max(axis=0)
    inside = (peer >= low * (1.0 - BOUND)) & (peer <= high * (1.0 + BOUND))
    return {
        "what": _what(run),
        "ours": values.mean(axis=0).round(1).tolist(),
        "peer": peer.tolist(),
        "bar": f"the peer's draw lies within {BOUND:.0%} of the range over {len(seeds)} seeds",
        "holds": bool(inside.all()),
        "cpu_s": round(float(np.mean([replay.cpu_s for replay in replays])), 2),
        "note": f"range {low.round(1).tolist()} to {high.round(1).tolist()}; "
        f"peer {run['user_cpu_s']} CPU s",
    }


def _measures(replay: Replay) -> tuple[float, float]:
    jct_s = replay.end_s - replay.trace.submit_s
    return float(jct_s.mean()), float(replay.end_s.max() - replay.trace.submit_s.min())


def _what(run: dict[str, Any]) -> str:
    return f"{run['policy']} on {run['trace']}, {run['cluster'].split()[0]}: mean JCT, makespan"


@dataclass(slots=True)
class FaultyFifo:
    """FIFO as the peer's program has it, to show that its fault is the whole difference.

    It draws a type at random among those with room, then gives the last one of the alphabet that
    has any GPU left, whether the job fits there or not, and takes the drawn one off the list. A
    job that ended is replaced before those behind it are counted. Keeps state: not a policy.
    """

    name: str = "faulty-fifo"
    aware: bool = False
    packed: bool = False
    fills_idle: bool = False
    min_recompute_s: float = 1920.0
    given: dict[int, int] = field(default_factory=dict)
    dice: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311

    def decide(self, problem: TimeShareProblem) -> TimeShares:
        row = {int(job): i for i, job in enumerate(problem.job)}
        free = problem.capacity.copy()
        queue = [job for job in row if job not in self.given]
        self._replace_ended(problem, row, free, queue)
        self._give(problem, row, free, queue)
        shares = np.zeros_like(problem.rate)
        for job, kind in self.given.items():
            shares[row[job], kind] = 1.0
        return TimeShares(jobs=shares, pairs=np.zeros((0, len(free))), memory=problem.memory)

    def _replace_ended(
        self,
        problem: TimeShareProblem,
        row: dict[int, int],
        free: Floats,
        queue: list[int],
    ) -> None:
        for job in sorted(self.given):
            kind = self.given[job]
            if job in row:
                free[kind] -= problem.gpus[row[job]]
                continue
            del self.given[job]
            if queue:
                next_row = row[queue[0]]
                if problem.gpus[next_row] <= free[kind] and problem.rate[next_row, kind] > 0.0:
                    self.given[queue.pop(0)] = kind
                    free[kind] -= problem.gpus[next_row]

    def _give(
        self,
        problem: TimeShareProblem,
        row: dict[int, int],
        free: Floats,
        queue: list[int],
    ) -> None:
        # the alphabet turns the usual order round: k80, p100, v100
        listed = [kind for kind in reversed(range(len(free))) if free[kind] > 0.0]
        while queue and listed:
            job = queue.pop(0)
            gpus = problem.gpus[row[job]]
            roomy = [i for i, kind in enumerate(listed) if free[kind] >= gpus]
            if not roomy:
                break
            drawn, kind = roomy[self.dice.randrange(len(roomy))], listed[-1]
            if problem.rate[row[job], kind] > 0.0:
                self.given[job] = kind
                free[kind] -= gpus
                if free[kind] == 0.0:
                    listed.pop(drawn)


if __name__ == "__main__":
    for entry in lines(quick=False):
        print("ok  " if entry["holds"] else "FAIL", entry)
