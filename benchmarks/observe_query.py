"""Questions to one day of 1,000 GPUs: how long they take, and how many bytes a sample is on disk.

The day goes through the store's own way of writing: appended, flushed, compacted, summed up. The
peer is DuckDB alone over the same rows in one plain Parquet file per hour, as they came in (every
GPU at one moment, then the next), zstd, as a short script would write them.
Samples are every 10 s (8.64 million rows of 8 metrics); `--seconds 1` makes 86.4 million.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import duckdb
import numpy as np
import polars as pl

from report import bar, finish, progress
from steward.store.query import Query, parse
from steward.store.recording import Recording

_GPUS = 1000
_DAY_S = 86_400
_T0 = 20_000 * _DAY_S
_METRICS = (
    "gpu.busy_share",
    "gpu.memory.used_bytes",
    "gpu.power_watts",
    "gpu.temperature_celsius",
    "gpu.clock.sm_hz",
    "gpu.sm.active_share",
    "gpu.tensor.active_share",
    "gpu.dram.active_share",
)
_REPEATS = 7


def _hour(hour: int, every_s: int, busy_now: np.ndarray[Any, Any]) -> pl.DataFrame:
    """Make up one hour of a cluster with jobs: values move as NVML's do, in its steps."""
    dice = np.random.default_rng(hour)
    moments = 3600 // every_s
    shape = (moments, _GPUS)
    works = np.where(dice.random(_GPUS) < 0.05, dice.random(_GPUS) < 0.7, busy_now)
    busy_now[:] = works
    busy = np.where(works, np.clip(dice.normal(0.9, 0.1, shape), 0, 1), 0.0).round(2)
    sm = (busy * dice.normal(0.7, 0.02, shape)).clip(0, 1).round(4)
    watts = (80 + 600 * sm + dice.normal(0, 2, shape)).round(3)
    memory = np.where(works, 60 * 2**30 + dice.integers(0, 64, shape) * 2**20, 0.6 * 2**30)
    columns = {
        _METRICS[0]: busy,
        _METRICS[1]: memory,
        _METRICS[2]: watts,
        _METRICS[3]: (30 + watts / 14).round(0),
        _METRICS[4]: np.where(works, 1980e6 - 15e6 * dice.integers(0, 4, shape), 345e6),
        _METRICS[5]: sm,
        _METRICS[6]: (sm * 0.6).round(4),
        _METRICS[7]: (sm * 0.4 + dice.random(shape) * 0.01).round(4),
    }
    times = _T0 + hour * 3600 + np.arange(moments) * every_s
    names = [f"n{gpu // 8:03d}/gpu{gpu % 8}" for gpu in range(_GPUS)]
    return pl.DataFrame(
        {
            "t_s": np.repeat(times.astype(float), _GPUS),
            "entity": pl.Series(names * moments),
            **{name: values.ravel() for name, values in columns.items()},
        }
    )


def _day(every_s: int, hours: int) -> Iterator[pl.DataFrame]:
    busy_now = np.random.default_rng(0).random(_GPUS) < 0.7
    for hour in range(hours):
        yield _hour(hour, every_s, busy_now)


def _write(folder: Path, plain: Path, every_s: int, hours: int) -> dict[str, float]:
    """Write the same rows both ways; return what ours took."""
    taken_s, rows = 0.0, 0
    with closing(Recording(folder)) as recording:
        for hour, frame in enumerate(_day(every_s, hours)):
            progress(f"  hour {hour + 1} of {hours}")
            rows += frame.height
            frame.write_parquet(plain / f"{hour:02d}.parquet", compression="zstd")
            began_s = process_time()
            for piece in frame.iter_slices(max(1, 30 // every_s) * _GPUS):  # a flush every 30 s
                recording.telemetry.append(piece)
                if recording.telemetry.table.waiting.rows >= 100_000:
                    recording.flush()
            taken_s += process_time() - began_s
        began_s = process_time()
        recording.settle()
        taken_s += process_time() - began_s
    return {"cpu_s": taken_s, "rows": rows, "rows_per_cpu_s": rows / taken_s}


def _size_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*.parquet"))


def _timed(work: Callable[[], object]) -> dict[str, float]:
    times = []
    for _ in range(_REPEATS):
        began_s = perf_counter()
        work()
        times.append(perf_counter() - began_s)
    return {"p50_s": round(median(times), 4), "max_s": round(max(times), 4)}


def _questions(hours: int) -> dict[str, tuple[str, str]]:
    """Name a question: how it is asked here, and how of plain files."""
    from_s = _T0 + hours * 1800
    hour = f"t_s BETWEEN {from_s} AND {from_s + 3600}"
    one = "entity = 'n042/gpu3'"
    five = "floor(t_s / 300) * 300"
    busy, watts = '"gpu.busy_share"', '"gpu.power_watts"'
    idlest = (
        f"SELECT entity, avg({busy}) AS busy FROM {{}} GROUP BY 1 ORDER BY busy, entity LIMIT 10"
    )
    by_node = f"SELECT {{}} AS node, avg({watts}) FROM {{}} GROUP BY 1"
    steps = f"SELECT {five} AS t, {{}} FROM plain WHERE {{}} GROUP BY 1 ORDER BY 1"
    return {
        "one GPU, one hour, every sample": (
            f"SELECT * EXCLUDE (job, run, workload, phase) FROM telemetry WHERE {one} AND {hour}",
            f"SELECT * FROM plain WHERE {one} AND {hour}",
        ),
        "one GPU, the day in 5 min": (
            'max(gpu.power_watts), mean(gpu.busy_share) every 5m where entity = "n042/gpu3"',
            steps.format(f"max({watts}), avg({busy})", one),
        ),
        "all GPUs, mean busy of the day in 5 min": (
            "mean(gpu.busy_share) every 5m",
            steps.format(f"avg({busy})", "true"),
        ),
        "ten idlest GPUs of the day": (idlest.format("telemetry"), idlest.format("plain")),
        "power by node of the day": (
            by_node.format("node", "telemetry"),
            by_node.format("split_part(entity, '/', 1)", "plain"),
        ),
    }


def _ask(folder: Path, question: str) -> list[tuple[object, ...]]:
    """Answer as the command does: a fresh database for every question."""
    if question.startswith("SELECT"):
        with Query(folder) as query:
            return query.ask(question).rows
    expression = parse(question)
    with Query(folder) as query:
        return query.ask(expression.sql(query.newest_s())).rows


def _ask_plain(plain: Path, question: str) -> list[tuple[object, ...]]:
    with closing(duckdb.connect()) as connection:
        connection.execute(f"CREATE VIEW plain AS FROM read_parquet('{plain}/*.parquet')")
        return connection.execute(question).fetchall()


def _same(ours: list[tuple[object, ...]], theirs: list[tuple[object, ...]]) -> bool:
    """Say whether two answers tell the same, whatever the order of rows and columns."""

    def plain(rows: list[tuple[object, ...]]) -> list[list[str]]:
        told = [[f"{v:.9g}" if isinstance(v, float) else str(v) for v in row] for row in rows]
        return sorted(sorted(row) for row in told)

    width = min(len(theirs[0]), len(ours[0])) if ours and theirs else 0
    if width > 4:  # ours also says node and kind
        return len(ours) == len(theirs)
    return bool(width) and plain(ours) == plain(theirs)


def measure(*, hours: int, every_s: int) -> dict[str, Any]:
    """Write both ways, ask both ways."""
    with tempfile.TemporaryDirectory(prefix="steward-query-") as scratch:
        folder, plain = Path(scratch) / "ours", Path(scratch) / "plain"
        plain.mkdir()
        progress("writing")
        written = _write(folder, plain, every_s, hours)
        samples = written["rows"] * len(_METRICS)
        parts = ("telemetry", "telemetry_10s", "telemetry_5m")
        return {
            "hours": hours,
            "every_s": every_s,
            "gpus": _GPUS,
            "written": written,
            "bytes_per_sample": {
                **{part: _size_bytes(folder / part) / samples for part in parts},
                "plain": _size_bytes(plain) / samples,
            },
            "questions": {
                name: _compared(folder, plain, name, asked)
                for name, asked in _questions(hours).items()
            },
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        }


def _compared(folder: Path, plain: Path, name: str, asked: tuple[str, str]) -> dict[str, Any]:
    progress(name)
    ours, theirs = asked
    same = _same(_ask(folder, ours), _ask_plain(plain, theirs))
    return {
        "ours": _timed(lambda: _ask(folder, ours)),
        "plain": _timed(lambda: _ask_plain(plain, theirs)),
        "same_rows": same,
    }


def bars_of(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Hold the figures against what is promised."""
    asked = results["questions"]
    slowest = max(each["ours"]["p50_s"] for each in asked.values())
    day = "one GPU, the day in 5 min"
    return [
        bar("every question, p50 seconds", slowest, "<", 1.0),
        bar("one GPU over the day, p50 seconds", asked[day]["ours"]["p50_s"], "<", 0.3),
        bar(
            "all answers have the peer's rows", min(e["same_rows"] for e in asked.values()), "==", 1
        ),
        bar("bytes per sample, raw", results["bytes_per_sample"]["telemetry"], "<", 2.0),
    ]


def main() -> None:
    """Measure and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two hours instead of a day")
    parser.add_argument("--seconds", type=int, default=10, help="how far apart samples are")
    asked = parser.parse_args()
    results = measure(hours=2 if asked.quick else 24, every_s=asked.seconds)
    finish("observe_query", results, bars_of(results))


if __name__ == "__main__":
    main()
