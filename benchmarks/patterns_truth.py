"""Patterns planted in telemetry of Reveal's layout: all found, none invented.

Runs are tables as Reveal's collector writes them (100 ms, `GPU: utilization.gpu.0.HOST[%]`), made
into baskets by the way that real ones take. Training runs have a pattern across GPU, CPU and
network that inference runs do not; in all runs GPU temperature follows memory. What nobody planted
(other groups, and everything when run labels are permuted) must not be found.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from report import bar, finish, progress
from steward.learn.patterns.baskets import Baskets
from steward.learn.patterns.compared_runs import Sides
from steward.learn.patterns.contrasts import Contrasts, ContrastSearch, find_contrasts
from steward.learn.patterns.episodes import find_episodes
from steward.learn.patterns.from_telemetry import BasketRequest, make_baskets

SEEDS, Q = 100, 0.05
RUNS, SECONDS, ROWS_PER_S = 40, 60, 10
HOST = "htc-g003"
# metric: lowest and highest value of its levels' range
METRICS = {
    "GPU: utilization.gpu.0": ("%", 5.0, 95.0),
    "GPU: power.draw.0": ("W", 90.0, 650.0),
    "GPU: temperature.gpu.0": ("C", 40.0, 80.0),
    "Turbostat:Busy%.-": ("%", 2.0, 90.0),
    "Memory:MemoryUtilization": ("%", 10.0, 80.0),
    "NetworkInterStat_diff:rx_bytes.ib0": ("bytes", 1e3, 3e8),
    "NetworkInterStat_diff:tx_bytes.ib0": ("bytes", 1e3, 3e8),
}
UTIL, POWER, TEMP, BUSY, MEMORY, RX, TX = range(7)
PLANTED = {"gpu_util": "high", "cpu_busy": "low", "net_rx": "high"}
EPISODE = ("mem_util", "high", "gpu_temp", "high")
LAG_S = 3


def levels_of_run(rng: np.random.Generator, *, training: bool, planted: bool) -> Any:  # noqa: ANN401
    """Return a level per second and metric: each metric has habits of its own in each run."""
    levels = np.empty((SECONDS, len(METRICS)), np.int64)
    for metric in range(len(METRICS)):
        habits = rng.dirichlet(np.full(3, 4.0))
        levels[:, metric] = rng.choice(3, SECONDS, p=habits)
        stays = rng.random(SECONDS) < 0.7
        for second in range(1, SECONDS):
            if stays[second]:
                levels[second, metric] = levels[second - 1, metric]
    if planted:
        levels[LAG_S:, TEMP] = levels[:-LAG_S, MEMORY]  # heat follows memory, three seconds later
    if planted and training:
        here = np.repeat(rng.random(SECONDS // 3) < 0.35, 3)
        levels[here, UTIL], levels[here, BUSY], levels[here, RX] = 2, 0, 2
    return levels


def write_run(path: Path, levels: NDArray[np.int64], rng: np.random.Generator) -> None:
    """Write a run as Reveal's collector does: tabs, an unnamed time, 100 ms."""
    every = np.repeat(levels, ROWS_PER_S, axis=0)
    noise = rng.normal(0, 0.03, every.shape)
    columns = {"time": np.arange(len(every)) / ROWS_PER_S + 1_760_000_000}
    for metric, (name, (unit, low, high)) in enumerate(METRICS.items()):
        share = np.clip((every[:, metric] + 0.5) / 3 + noise[:, metric], 0, 1)
        columns[f"{name}.{HOST}[{unit}]"] = low + share * (high - low)
    _, *names = columns
    rows = pl.DataFrame(columns).write_csv(separator="\t", float_precision=4, include_header=False)
    path.write_text("\t".join(["", *names]) + "\n" + rows)


def through_files(folder: Path, seed: int) -> Baskets:
    """Return the baskets of runs that were written as files and read again."""
    rng = np.random.default_rng(seed)
    for run in range(RUNS):
        kind = "train" if run % 2 else "infer"
        name = f"{kind}_ResNet18forImageClassification_cifar10_2025-01-01T00-{run:02}-00_{HOST}"
        levels = levels_of_run(rng, training=bool(run % 2), planted=True)
        write_run(folder / f"{name}.txt", levels, rng)
    return make_baskets(BasketRequest(paths=(str(folder),), window_s=1.0)).baskets


def directly(groups: tuple[str, ...], seed: int, *, planted: bool) -> Baskets:
    """Return the same kind of runs as baskets, without files between."""
    rng = np.random.default_rng(seed)
    levels = [levels_of_run(rng, training=bool(run % 2), planted=planted) for run in range(RUNS)]
    return Baskets(
        groups=groups,
        level_names=(("low", "medium", "high"),) * len(groups),
        levels=np.concatenate(levels).astype(np.uint8),
        runs=tuple(f"run-{run}" for run in range(RUNS)),
        run=np.repeat(np.arange(RUNS), SECONDS).astype(np.int32),
        start_s=np.tile(np.arange(SECONDS) * 1.0, RUNS),
        window_s=1.0,
        labels=("infer", "train") * (RUNS // 2),
    )


def contrasted(baskets: Baskets, labels: NDArray[np.bool_]) -> Contrasts:
    """Return what tells training from inference."""
    sides = Sides(target="train", against="infer", is_target=labels, is_other=~labels)
    search = ContrastSearch(q=Q, permutations=0, growth=1.0)
    return find_contrasts(baskets, sides, search)


def judged(found: Contrasts) -> tuple[int, int, bool]:
    """Return how many patterns are reported, how many hold nothing planted, and if it is there."""
    groups = [{item.group for item in each.items} for each in found.found]
    invented = sum(not each & {*PLANTED} for each in groups)
    exact = any({item.group: item.level for item in each.items} == PLANTED for each in found.found)
    return len(groups), invented, exact


def main() -> None:
    """Exit with 1 when a bar does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="10 seeds")
    seeds = 10 if parser.parse_args().quick else SEEDS
    with tempfile.TemporaryDirectory(prefix="steward-truth-") as place:
        real = through_files(Path(place), 1_000)
    labels = np.array([each == "train" for each in real.labels])
    file_found = judged(contrasted(real, labels))
    file_episode = episode_found(real)
    names = ("gpu_util", "gpu_power", "gpu_temp", "cpu_busy", "mem_util", "net_rx", "net_tx")
    shares, exact, episodes, false_episodes, null_any, null_episodes = [], 0, 0, [], 0, 0
    for seed in range(100, 100 + seeds):  # 0 to 9 were looked at while this was written
        progress(f"seed {seed}")
        baskets = directly(names, seed, planted=True)
        labels = np.array([each == "train" for each in baskets.labels])
        many, invented, there = judged(contrasted(baskets, labels))
        shares.append(invented / many if many else 0.0)
        exact += there
        episode = episode_found(baskets)
        episodes += episode[0]
        false_episodes.append(episode[1])
        permuted = np.random.default_rng(seed + 50_000).permutation(labels)
        null_any += bool(contrasted(baskets, permuted).found)
        bare = directly(names, seed + 10_000, planted=False)
        null_episodes += len(find_episodes(bare, 5.0, q=Q)) > 0
    fdr = float(np.mean(shares))
    results = {
        "seeds": seeds,
        "runs": RUNS,
        "windows_per_run": SECONDS,
        "stated_q": Q,
        "contrast_found_share": exact / seeds,
        "contrast_false_discovery_rate": fdr,
        "any_contrast_with_permuted_labels": null_any / seeds,
        "episode_found_share": episodes / seeds,
        "episode_false_discovery_rate": float(np.mean(false_episodes)),
        "any_episode_where_none_is_planted": null_episodes / seeds,
        "through_files": {
            "groups": list(real.groups),
            "windows": len(real),
            "patterns": file_found[0],
            "invented": file_found[1],
            "planted_found": file_found[2],
            "episode_found": file_episode[0],
        },
    }
    slack = 1.645 * (Q * (1 - Q) / seeds) ** 0.5  # what 100 seeds of a true 5 % may show
    bars = [
        bar("planted contrast found", exact / seeds, ">=", 0.95),
        bar("contrasts: false discovery rate", fdr, "<=", Q),
        bar("any contrast, run labels permuted", null_any / seeds, "<=", Q + slack),
        bar("planted episode found", episodes / seeds, ">=", 0.95),
        bar("episodes: false discovery rate", float(np.mean(false_episodes)), "<=", Q),
        bar("any episode without one planted", null_episodes / seeds, "<=", Q + slack),
        bar("planted contrast found through files", float(file_found[2]), "==", 1.0),
        bar("invented contrasts through files", float(file_found[1]), "==", 0.0),
        bar("planted episode found through files", float(file_episode[0]), "==", 1.0),
    ]
    finish("patterns_truth", results, bars)


def episode_found(baskets: Baskets) -> tuple[bool, float]:
    """Return whether the planted episode is there, and the share of those nobody planted.

    That any level of one metric is followed by the same of the other is what was planted.
    """
    found = find_episodes(baskets, 5.0, q=Q)
    pairs = [(found.items[a], found.items[b]) for a, b in zip(found.first, found.then, strict=True)]
    there = any((a.group, a.level, b.group, b.level) == EPISODE for a, b in pairs)
    related = {EPISODE[0], EPISODE[2]}
    false = sum({a.group, b.group} != related and not _planted(a.group, b.group) for a, b in pairs)
    return there, false / len(pairs) if pairs else 0.0


def _planted(one: str, other: str) -> bool:
    """Return whether both change together where a training run has the planted contrast."""
    return {one, other} <= {*PLANTED}


if __name__ == "__main__":
    main()
