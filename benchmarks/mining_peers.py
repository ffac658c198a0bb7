"""One contender of `mining.py` in a process of its own: works in an environment without steward.

mining_peers.py CONTENDER INPUT.npy SUPPORT OUTPUT.json
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterable
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

LEVELS = 3
Found = Iterable[tuple[tuple[int, ...], int]]


def least(share: float, many: int) -> int:
    """Return the smallest whole number that is at least this share."""
    return ceil(round(share * many, 6))


def between(share: float, many: int) -> float:
    """Return a share that no rounding takes for another: half a window below the smallest."""
    return (least(share, many) - 0.5) / many


def peak_mb() -> float:
    """Return the most memory this program had; `getrusage` would include what started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def pyfim_fpgrowth(levels: np.ndarray[Any, Any], share: float) -> Found:
    """Run Borgelt's FP-growth in C."""
    import fim  # noqa: PLC0415

    rows = (levels + np.arange(levels.shape[1], dtype=np.uint8) * LEVELS).tolist()
    found: Found = fim.fpgrowth(rows, supp=-least(share, len(rows)), zmin=1, report="a")
    return found


def polars_pyfim(levels: np.ndarray[Any, Any], share: float) -> Found:
    """Count identical baskets first."""
    import fim  # noqa: PLC0415
    import polars as pl  # noqa: PLC0415

    items = levels + np.arange(levels.shape[1], dtype=np.uint8) * LEVELS
    table = pl.from_numpy(items).group_by(pl.all()).len()
    *columns, counts = (column.to_list() for column in table)
    bags = dict(zip(zip(*columns, strict=True), counts, strict=True))
    found: Found = fim.fpgrowth(bags, supp=-least(share, len(levels)), zmin=1, report="a")
    return found


def _one_hot(levels: np.ndarray[Any, Any]) -> Any:  # noqa: ANN401 - a frame of pandas
    import pandas as pd  # noqa: PLC0415

    parts = [levels[:, [g]] == np.arange(LEVELS) for g in range(levels.shape[1])]
    return pd.DataFrame(np.hstack(parts))


def _mlxtend(name: str, levels: np.ndarray[Any, Any], share: float) -> Found:
    from mlxtend import frequent_patterns  # noqa: PLC0415

    table = getattr(frequent_patterns, name)(
        _one_hot(levels), min_support=between(share, len(levels))
    )
    counts = np.rint(table["support"].to_numpy(float) * len(levels)).astype(int)
    return [(tuple(each), int(n)) for each, n in zip(table["itemsets"], counts, strict=True)]


def mlxtend_fpgrowth(levels: np.ndarray[Any, Any], share: float) -> Found:
    """Run FP-growth over a one-hot table."""
    return _mlxtend("fpgrowth", levels, share)


def mlxtend_hmine(levels: np.ndarray[Any, Any], share: float) -> Found:
    """Run H-Mine over a one-hot table."""
    return _mlxtend("hmine", levels, share)


def _pami(algorithm: Any, levels: np.ndarray[Any, Any], share: float) -> Found:  # noqa: ANN401
    items = (levels + np.arange(levels.shape[1], dtype=np.uint8) * LEVELS).tolist()
    file = Path(sys.argv[4]).with_suffix(".txt")
    file.write_text("".join("\t".join(map(str, row)) + "\n" for row in items))
    miner = algorithm(str(file), least(share, len(items)), "\t")
    miner.mine()
    patterns = miner.getPatterns()
    return [
        (tuple(int(i) for i in (each.split("\t") if isinstance(each, str) else each)),
         int(n[0] if isinstance(n, list) else n))
        for each, n in patterns.items()
    ]  # fmt: skip


def pami_eclat_bitset(levels: np.ndarray[Any, Any], share: float) -> Found:
    """Run Eclat over bits; it reads a file."""
    from PAMI.frequentPattern.basic import ECLATbitset  # noqa: PLC0415

    return _pami(ECLATbitset.ECLATbitset, levels, share)


def pami_fpgrowth(levels: np.ndarray[Any, Any], share: float) -> Found:
    """Run FP-growth; it reads a file."""
    from PAMI.frequentPattern.basic import FPGrowth  # noqa: PLC0415

    return _pami(FPGrowth.FPGrowth, levels, share)


def efficient_apriori(levels: np.ndarray[Any, Any], share: float) -> Found:
    """Run Apriori in plain Python."""
    from efficient_apriori import itemsets_from_transactions  # noqa: PLC0415

    items = (levels + np.arange(levels.shape[1], dtype=np.uint8) * LEVELS).tolist()
    found, _ = itemsets_from_transactions(items, min_support=between(share, len(levels)))
    return [each for sizes in found.values() for each in sizes.items()]


def spark_fpgrowth(levels: np.ndarray[Any, Any], share: float) -> Found:
    """Run FP-growth in a JVM beside this process."""
    from pyspark.ml.fpm import FPGrowth  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = spark.config("spark.driver.memory", "4g").getOrCreate()
    items = (levels + np.arange(levels.shape[1], dtype=np.uint8) * LEVELS).tolist()
    table = session.createDataFrame([(row,) for row in items], ["items"])
    model = FPGrowth(itemsCol="items", minSupport=share, minConfidence=0.9).fit(table)
    found = [(tuple(row["items"]), int(row["freq"])) for row in model.freqItemsets.collect()]
    session.stop()
    return found


def prefixspan(levels: np.ndarray[Any, Any], share: float) -> Found:
    """Mine sequences: rows padded with 255; patterns of at most 5 steps."""
    from prefixspan import PrefixSpan  # noqa: PLC0415

    rows = [row[row != 255].tolist() for row in levels]
    miner = PrefixSpan(rows)
    miner.maxlen = 5
    return [(tuple(steps), n) for n, steps in miner.frequent(least(share, len(rows)))]


def seq2pat(levels: np.ndarray[Any, Any], share: float) -> Found:
    """Mine sequences; it returns none of one step, so that these are counted here."""
    from sequential.seq2pat import Seq2Pat  # noqa: PLC0415

    rows = [(row[row != 255].astype(int) + 1).tolist() for row in levels]
    smallest = least(share, len(rows))
    found = Seq2Pat(sequences=rows, max_span=None).get_patterns(min_frequency=smallest)
    single = [(symbol, sum(symbol in row for row in rows)) for symbol in range(1, 256)]
    several = [(tuple(s - 1 for s in each[:-1]), each[-1]) for each in found if len(each) <= 6]
    return [*((((s - 1),), n) for s, n in single if n >= smallest), *several]


CONTENDERS: dict[str, Callable[[np.ndarray[Any, Any], float], Found]] = {
    each.__name__: each
    for each in (
        pyfim_fpgrowth,
        polars_pyfim,
        mlxtend_fpgrowth,
        mlxtend_hmine,
        pami_eclat_bitset,
        pami_fpgrowth,
        efficient_apriori,
        spark_fpgrowth,
        prefixspan,
        seq2pat,
    )
}


def digest(found: Found, *, ordered: bool) -> tuple[int, str]:
    """Return how many patterns there are, and a checksum of all with their counts."""
    lines = sorted(
        f"{' '.join(map(str, each if ordered else sorted(each)))}:{n}" for each, n in found
    )
    return len(lines), hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def main() -> None:
    """Measure one contender, conversion of the matrix included; write what it took."""
    name, file, share, out = sys.argv[1:5]
    levels = np.load(file)
    small = np.tile(levels[:8], (5, 1))
    if name != "spark_fpgrowth":  # imports are not what is measured
        CONTENDERS[name](small, 0.5)
    cpu, wall = time.process_time(), time.perf_counter()
    found = CONTENDERS[name](levels, float(share))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    many, checksum = digest(found, ordered=name in {"prefixspan", "seq2pat"})
    result = {"wall_s": wall, "patterns": many, "checksum": checksum}
    if name == "spark_fpgrowth":  # its work is in a JVM
        result |= {"not_measured": "CPU and memory: they are a JVM's"}
    else:
        result |= {"cpu_s": cpu, "peak_mb": peak_mb()}
    Path(out).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
