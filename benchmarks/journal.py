"""How fast the store takes what it is given, and whether kill -9 can take anything from it.

Plain SQLite is the `sqlite3` module with the same durability, writing rows that are ready into a
table without indexes or triggers. The journal also makes the rows and keeps three indexes.
"""

from __future__ import annotations

import random
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import polars as pl

from crash_trials import Trial, journal_trial, telemetry_trial
from report import bar, finish, progress, quick
from steward.model.actions import Lend
from steward.model.decision import Decision, Expectation
from steward.model.identity import DecisionId, FindingId, GpuId, JobId, TenantId
from steward.store.journal import open_journal
from steward.store.records import Row, to_row
from steward.store.telemetry import Telemetry

_BATCHES = (1, 10, 100)
_TRIALS_PER_FOLDER = 10


def _decision(number: int) -> Decision:
    gpus = tuple(GpuId(f"n01/gpu{index}") for index in range(4))
    return Decision(
        id=DecisionId(f"d-{number:012x}"),
        t_s=1_700_000_000.0 + number,
        policy="lend-idle",
        action=Lend(gpus=gpus, owner=JobId("812"), borrower=JobId("830")),
        because="812 has not used 4 GPUs for 360 s; 830 fits and would wait 40 min more",
        findings=(FindingId(f"f-{number:012x}"),),
        forecasts=(),
        expects=Expectation(low=600.0, mid=1800.0, high=2400.0),
        check_after_s=600.0,
        tenant=TenantId("bio"),
    )


def _plain(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(
        "CREATE TABLE entries (seq INTEGER PRIMARY KEY, t_s REAL, kind TEXT, id TEXT, cause TEXT, "
        "body TEXT, crc INTEGER)"
    )
    return connection


def _append_plainly(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    connection.execute("COMMIT")


def _per_second(
    append: Callable[[Sequence[Any]], object], waiting: Iterator[Any], *, batch: int, times: int
) -> float:
    batches = [list(islice(waiting, batch)) for _ in range(times)]
    began_s = perf_counter()
    for each in batches:
        append(each)
    return batch * times / (perf_counter() - began_s)


def _throughput(folder: Path, batch: int, *, rounds: int, times: int) -> dict[str, float]:
    """Measure both by turns, so that a busy neighbour slows both."""
    numbers = range(1, rounds * times * batch + 1)
    values = (_decision(number) for number in numbers)
    rows = (to_row(_decision(number), seq=number) for number in numbers)
    journal = open_journal(f"sqlite:///{folder}/ours-{batch}.sqlite3")
    ours, plain = [], []
    with closing(journal), closing(_plain(folder / f"plain-{batch}.sqlite3")) as connection:
        for _ in range(rounds):
            ours.append(_per_second(journal.append, values, batch=batch, times=times))
            plain.append(
                _per_second(partial(_append_plainly, connection), rows, batch=batch, times=times)
            )
    ratios = [a / b for a, b in zip(ours, plain, strict=True)]
    return {
        "per_s": round(median(ours)),
        "plain_per_s": round(median(plain)),
        "ratio": round(median(ratios), 3),
    }


def _trials(
    trial: Callable[[Path, int, random.Random], Trial], folder: Path, times: int
) -> dict[str, Any]:
    dice = random.Random(20)  # noqa: S311 - moments to kill at
    done: list[Trial] = []
    for number in range(times):
        place = folder / f"{trial.__name__}-{number // _TRIALS_PER_FOLDER}"
        place.mkdir(exist_ok=True)
        done.append(trial(place, number, dice))
        if (number + 1) % 10 == 0:
            progress(f"{trial.__name__}: {number + 1} of {times}")
    return {
        "trials": len(done),
        "acknowledged": sum(each.acknowledged for each in done),
        "lost": sum(each.lost for each in done),
        "faults": [fault for each in done for fault in each.faults],
    }


def _telemetry(folder: Path, *, rounds: int) -> dict[str, float]:
    """Time a turn of 2,000 rows with 10 metrics when no flush is due, and the flush of 30 such."""
    dice = np.random.default_rng(0)
    turns_s, flushes_s = [], []
    with closing(Telemetry(folder / "speed")) as telemetry:
        for number in range(rounds * 30):
            frame = _frame(1_700_000_000.0 + number, dice)
            began_s = perf_counter()
            telemetry.append(frame)
            telemetry.upkeep(1_700_000_000.0)
            turns_s.append(perf_counter() - began_s)
            if number % 30 == 29:
                began_s = perf_counter()
                telemetry.flush()
                flushes_s.append(perf_counter() - began_s)
    return {
        "turn_p50_ms": round(float(np.percentile(turns_s, 50)) * 1e3, 3),
        "turn_p99_ms": round(float(np.percentile(turns_s, 99)) * 1e3, 3),
        "flush_60000_rows_p50_ms": round(float(np.percentile(flushes_s, 50)) * 1e3, 1),
    }


def _frame(t_s: float, dice: np.random.Generator) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "t_s": np.full(2000, t_s),
            "entity": [f"n{row // 8:03d}/gpu{row % 8}" for row in range(2000)],
            **{f"metric_{number}": dice.random(2000) for number in range(10)},
        }
    )


def main() -> None:
    """Measure, kill, report."""
    short = quick()
    results: dict[str, Any] = {"batch": {}}
    with tempfile.TemporaryDirectory(prefix="steward-journal-") as name:
        folder = Path(name)
        for batch in _BATCHES:
            progress(f"appending in batches of {batch}")
            rounds, times = (11, 20) if short else (15, 40)
            results["batch"][str(batch)] = _throughput(folder, batch, rounds=rounds, times=times)
        progress("appending and flushing telemetry")
        results["telemetry"] = _telemetry(folder, rounds=5 if short else 20)
        for room, trial in (("journal", journal_trial), ("telemetry", telemetry_trial)):
            results[f"kill_{room}"] = _trials(trial, folder, 10 if short else 110)
    kills = [results["kill_journal"], results["kill_telemetry"]]
    bars = [
        bar("batch_100_ratio", results["batch"]["100"]["ratio"], ">=", 0.2),
        bar("telemetry_turn_p50_ms", results["telemetry"]["turn_p50_ms"], "<", 5.0),
        bar("telemetry_flush_ms", results["telemetry"]["flush_60000_rows_p50_ms"], "<", 100.0),
        bar("kill_trials", sum(each["trials"] for each in kills), ">=", 20 if short else 200),
        bar("lost", sum(each["lost"] for each in kills), "==", 0),
        bar("faults", sum(len(each["faults"]) for each in kills), "==", 0),
    ]
    finish("journal", results, bars)


if __name__ == "__main__":
    main()
