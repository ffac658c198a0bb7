"""Questions to one day of 1,000 GPUs: how long they take, and how many bytes a sample is on disk.

The day goes through the store's own way of writing: appended, flushed, compacted, summed up. The
peer is DuckDB alone over the same rows in one plain Parquet file per hour, as they came in (every
GPU at one moment, then the next), zstd, as a short script would write them.
Samples are every second, the default of all recorders: 86.4 million rows of 8 metrics, which take
some ten minutes to write and 2.5 GB; `--seconds 10` makes a tenth of it. What is asked in the small
form is asked once more as on a day that is not over: its 5 min steps and the last hour's 10 s steps
are not there yet.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import duckdb
import numpy as np
import polars as pl

from report import bar, finish, progress
from steward.store.query import Expression, Query, is_sql, parse
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
    """Time it: on a machine with other work, processor time says more than the wait."""
    times, busy = [], []
    for _ in range(_REPEATS):
        began_s, busy_s = perf_counter(), process_time()
        work()
        times.append(perf_counter() - began_s)
        busy.append(process_time() - busy_s)
    return {
        "p50_s": round(median(times), 4),
        "max_s": round(max(times), 4),
        "cpu_s": round(median(busy), 4),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """How a thing is asked here, and how of plain files; `since` is the command's option."""

    ours: str
    plain: str
    since_s: float | None = None
    raw: bool = False  # SQL over all samples of the day: nothing can be left out


def _questions(hours: int) -> dict[str, Question]:
    """Return what is asked: each thing in the small form, and what people write as SQL."""
    from_s = _T0 + hours * 1800
    hour = f"t_s BETWEEN {from_s} AND {from_s + 3600}"
    last = "t_s >= (SELECT max(t_s) FROM plain) - 3600"
    one = "entity = 'n042/gpu3'"
    five = "floor(t_s / 300) * 300"
    busy, watts = '"gpu.busy_share"', '"gpu.power_watts"'
    every = "SELECT * EXCLUDE (job, run, workload, phase) FROM telemetry WHERE {}"
    steps = f"SELECT {five} AS t, {{}} FROM plain WHERE {{}} GROUP BY 1 ORDER BY 1"
    by_gpu = f"SELECT entity, avg({busy}) AS busy FROM {{}} GROUP BY 1 ORDER BY {{}}"
    by_node = f"SELECT {{}} AS node, avg({watts}) FROM {{}} GROUP BY 1"
    idlest = by_gpu.format("plain", "busy, entity LIMIT 10")
    node = by_node.format("split_part(entity, '/', 1)", "plain")
    return {
        "one GPU, one hour, every sample": Question(
            ours=every.format(f"{one} AND {hour}"),
            plain=f"SELECT * FROM plain WHERE {one} AND {hour}",
        ),
        "one GPU, the last hour, every sample": Question(
            ours=every.format(one),
            since_s=3600,
            plain=f"SELECT * FROM plain WHERE {one} AND {last}",
        ),
        "one GPU, the day in 5 min": Question(
            ours='max(gpu.power_watts), mean(gpu.busy_share) every 5m where entity = "n042/gpu3"',
            plain=steps.format(f"max({watts}), avg({busy})", one),
        ),
        "all GPUs, mean busy of the day in 5 min": Question(
            ours="mean(gpu.busy_share) every 5m", plain=steps.format(f"avg({busy})", "true")
        ),
        "mean busy of each GPU, the day": Question(
            ours="mean(gpu.busy_share) by entity", plain=by_gpu.format("plain", "entity")
        ),
        "ten idlest GPUs of the day": Question(
            ours="mean(gpu.busy_share) by entity bottom 10", plain=idlest
        ),
        "ten idlest GPUs, last hour": Question(
            ours="mean(gpu.busy_share) by entity since 1h bottom 10",
            plain=f"SELECT entity, avg({busy}) AS busy FROM plain WHERE {last} GROUP BY 1 "
            "ORDER BY busy, entity LIMIT 10",
        ),
        "power by node of the day": Question(ours="mean(gpu.power_watts) by node", plain=node),
        "ten idlest GPUs of the day, SQL over samples": Question(
            ours=by_gpu.format("telemetry", "busy, entity LIMIT 10"), plain=idlest, raw=True
        ),
        "power by node of the day, SQL over samples": Question(
            ours=by_node.format("node", "telemetry"), plain=node, raw=True
        ),
    }


def _ask(folder: Path, question: Question) -> list[tuple[object, ...]]:
    """Answer as the command does: a fresh database for every question."""
    expression = Expression() if is_sql(question.ours) else parse(question.ours)
    if question.since_s is not None:
        expression.since_s = question.since_s
    newest_s = 0.0
    if question.since_s is not None or not is_sql(question.ours):
        with Query(folder) as query:
            newest_s = query.newest_s()
    from_s, to_s = expression.time(newest_s)
    with Query(folder, from_s=from_s, to_s=to_s) as query:
        sql = question.ours if is_sql(question.ours) else expression.sql(newest_s)
        return query.run(sql).rows


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
    """Write both ways, ask both ways; then ask a day that is not over yet."""
    with tempfile.TemporaryDirectory(prefix="steward-query-") as scratch:
        folder, plain = Path(scratch) / "ours", Path(scratch) / "plain"
        plain.mkdir()
        progress("writing")
        written = _write(folder, plain, every_s, hours)
        return {"hours": hours, "every_s": every_s, "gpus": _GPUS, "written": written} | asked(
            folder, plain, hours=hours, rows=int(written["rows"])
        )


def asked(folder: Path, plain: Path, *, hours: int, rows: int) -> dict[str, Any]:
    """Ask what was written."""
    samples = rows * len(_METRICS)
    parts = ("telemetry", "telemetry_10s", "telemetry_5m")
    questions = _questions(hours)
    return {
        "bytes_per_sample": {
            **{part: _size_bytes(folder / part) / samples for part in parts},
            "plain": _size_bytes(plain) / samples,
        },
        "questions": {
            name: _compared(folder, plain, name, question) for name, question in questions.items()
        },
        "day_not_over": {
            name: _compared(folder, None, name, question)
            for name, question in _begin_again(folder, questions).items()
        },
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def _begin_again(folder: Path, questions: dict[str, Question]) -> dict[str, Question]:
    """Leave the folder as it is before its day and its last hour are over; return what to ask."""
    shutil.rmtree(folder / "telemetry_5m")
    shutil.rmtree(max((folder / "telemetry_10s").glob("date=*/hour=*")))
    return {name: each for name, each in questions.items() if not is_sql(each.ours)}


def _compared(folder: Path, plain: Path | None, name: str, question: Question) -> dict[str, Any]:
    progress(name)
    ours = {"ours": _timed(lambda: _ask(folder, question)), "raw": question.raw}
    if plain is None:
        return ours
    return ours | {
        "plain": _timed(lambda: _ask_plain(plain, question.plain)),
        "same_rows": _same(_ask(folder, question), _ask_plain(plain, question.plain)),
    }


def bars_of(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Hold the figures against what is promised."""
    asked = results["questions"]
    slowest = max(each["ours"]["p50_s"] for each in asked.values())
    live = max(each["ours"]["p50_s"] for each in results["day_not_over"].values())
    day = "one GPU, the day in 5 min"
    return [
        bar("every question, p50 seconds", slowest, "<", 1.0),
        bar("every question, day not over, p50 seconds", live, "<", 1.0),
        bar("one GPU over the day, p50 seconds", asked[day]["ours"]["p50_s"], "<", 0.3),
        bar(
            "all answers have the peer's rows", min(e["same_rows"] for e in asked.values()), "==", 1
        ),
        bar("bytes per sample, raw", results["bytes_per_sample"]["telemetry"], "<", 2.0),
    ]


def main() -> None:
    """Measure and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two hours, a sample in 10 s")
    parser.add_argument("--seconds", type=int, help="how far apart samples are: 1 unless --quick")
    options = parser.parse_args()
    every_s = options.seconds or (10 if options.quick else 1)
    results = measure(hours=2 if options.quick else 24, every_s=every_s)
    finish("observe_query", results, bars_of(results))


if __name__ == "__main__":
    main()
