"""Reads logs of faults and histories of failures, and checks what is found against what is known.

Sample lines of real machines; the speed on a kernel log; a storm of teardowns as NVSentinel's
users met it; a day on which a fleet fell silent; the check values of Titan's GPU lives; and
forecasts on the last third of Titan's and Alpine's histories, which nothing was chosen by (models
were chosen on the thirds before it). A rate per unit is the baseline.
"""

from __future__ import annotations

import csv
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from report import bar, finish, progress, quick
from steward.health import scan
from steward.health.history_report import history_report
from steward.learn.failures import read_history, score
from steward.model.faults import FaultKind
from steward.observe.faults import FaultLog, fault_of, read_faults

DATA = Path(os.environ.get("STEWARD_DATA", "../shared/data")) / "telemetry"
NOW_S = 1_790_000_000.0
LOG_BYTES = 400_000_000
STORM, OTHERS, STORM_S = 168_924, 10, 3 * 3600.0  # as reported of NVSentinel
DAY_S = 86_400.0
TITAN = DATA / "titan_gpu_life" / "gc_full.csv"
ALPINE = DATA / "olcf_disk_failures" / "alpine_formatted_data.csv"


def sample_lines() -> dict[str, Any]:
    """Return how many of the attributed lines are read, each with its code."""
    file = DATA / "xid_reference" / "log_lines.tsv"
    rows = [line.split("\t") for line in file.read_text().splitlines()[1:]]
    missed = []
    for code, *_, line in rows:
        found = fault_of(line)
        # Lost GPUs without a code are read as what they are; the table names them by their code.
        known = found is not None and (
            not code.isdecimal() or found.code == int(code) or found.kind is FaultKind.LOST
        )
        if not known:
            missed.append(line[:100])
    return {"lines": len(rows), "read": len(rows) - len(missed), "missed": missed}


def speed(size: int) -> dict[str, Any]:
    """Return bytes of log per second of one core, the best of three, at two shares of faults."""
    found = {}
    for name, every in (("one fault in 20,000 lines", 20_000), ("one in 1,000", 1_000)):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "kern.log"
            faults = _write_log(file, size, every)
            best, log = 0.0, FaultLog()
            for _ in range(4):  # the first one also compiles
                log, begin_s = FaultLog(), time.process_time()
                read_faults(file, log, now_s=NOW_S)
                best = max(best, log.bytes / (time.process_time() - begin_s))
        found[name] = {"mb_per_s": best / 1e6, "bytes": log.bytes, "lines": log.lines,
                       "faults": len(log.faults), "faults_written": faults}  # fmt: skip
    return found


def _write_log(file: Path, size: int, every: int) -> int:
    """Write a log of real lines of a Linux machine, with new times and faults among them."""
    source = DATA / "loghub_samples"
    real = next(iter(sorted(source.rglob("Linux*.log"))), None)
    lines = real.read_bytes().splitlines() if real else [b"x y z kernel: eth0: link up"]
    texts = [line.split(b" ", 4)[-1] for line in lines]
    rng, written, faults = np.random.default_rng(0), 0, 0
    with file.open("wb") as out:
        while written < size:
            piece = []
            picks = rng.integers(0, len(texts), every).tolist()
            for i in range(every):
                second = (faults * 60 + i // 20) % 2_000_000
                stamp = time.strftime("%b %d %H:%M:%S", time.gmtime(1_780_000_000 + second))
                piece.append(f"{stamp} n{i * 7919 % 500:03d} ".encode() + texts[picks[i]])
            stamp = time.strftime("%b %d %H:%M:%S", time.gmtime(1_780_000_000 + 60 * faults))
            xid = "NVRM: Xid (PCI:0000:06:00): 31, pid=7, name=a, Ch 00000020, intr 0. MMU Fault"
            head = f"{stamp} n{faults % 500:03d} kernel: [{faults}.000001]"
            piece.append(f"{head} {xid}".encode())
            faults += 1
            block = b"\n".join(piece) + b"\n"
            out.write(block)
            written += len(block)
    return faults


def storm() -> dict[str, Any]:
    """Return what a storm of Xid 45 in three hours, with ten faults of programs, leads to."""
    rng = np.random.default_rng(1)
    moments = np.sort(rng.uniform(0, STORM_S, STORM)).tolist()
    others = set(rng.choice(STORM, OTHERS, replace=False).tolist())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kern.log"
        with file.open("w") as out:
            for i, t_s in enumerate(moments):
                stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(1_780_000_000 + t_s))
                node, slot = f"gpu-{rng.integers(24):02d}", f"0000:{rng.integers(8) + 6:02x}:00"
                code = int(rng.choice((13, 31, 43))) if i in others else 45
                out.write(
                    f"{stamp}.{int(t_s % 1 * 1e6):06d}Z {node} kernel: [{t_s:.6f}] NVRM: Xid "
                    f"(PCI:{slot}): {code}, pid={rng.integers(9999)}, name=python3, Ch 00000008\n"
                )
        found = scan([file], now_s=NOW_S)
    return {
        "lines": found.log.lines,
        "incidents": len(found.incidents),
        "secondary": sum(not each.primary for each in found.incidents),
        "fatal": len(found.fatal),
        "nvsentinel_fatal": 672,
    }


def silent_day() -> dict[str, Any]:
    """Return the incidents of a day on which a fleet fell silent in one minute."""
    found = scan(sorted((DATA / "fasrc_ipmi").glob("*.csv")), now_s=NOW_S)
    first = found.blackouts[0]
    return {
        "incidents": len(found.incidents),
        "nodes": len(first.nodes),
        "steady_before": first.steady,
        "answered_again": first.back,
        "minute_of_day": first.t_s % DAY_S / 60,
    }


def titan() -> dict[str, Any]:
    """Return rates and worst units of Titan, in GPU-hours, with intervals."""
    history = read_history(TITAN)
    found = history_report(history)
    summary = {row["SN"]: row["batch"] for row in _rows(TITAN.with_name("gc_summary_loc.csv"))}
    batches = {each: sum(batch == each for batch in summary.values()) for each in ("old", "new")}
    return {
        "gpu_hours": found.exposure_h,
        "batches": batches,
        "kinds": {
            name: {
                "count": rate.count,
                "units_with": rate.units_with,
                "mtbe_h": asdict(rate.mtbe_h),
                "per_million_h_between_units": asdict(rate.between_units.times(1e6)),
                "dispersion": rate.dispersion,
                "worst_units": len(rate.worst),
                "count_without_worst": rate.without_worst_count,
                "per_million_h_without_worst": asdict(rate.without_worst.times(1e6)),
                "worst": found.worst[name][:5],
            }
            for name, rate in found.kinds.items()
        },
        "survive_a_year": asdict(found.survival.at(365.0)),
    }


def _rows(file: Path) -> Iterator[dict[str, str]]:
    with file.open(newline="") as text:
        yield from csv.DictReader(text)


def forecasts(file: Path) -> dict[str, Any]:
    """Return how good forecasts over 30 days were on the last third."""
    begin_s = time.process_time()
    found = asdict(score(read_history(file), horizon_s=30 * DAY_S))
    return found | {"cpu_s": time.process_time() - begin_s}


def main() -> None:
    """Check all of it; the short form reads less and forecasts for Alpine only."""
    short = quick()
    results: dict[str, Any] = {}
    progress("sample lines, the storm, the silent day")
    results["samples"] = sample_lines()
    results["storm"] = storm()
    results["silent_day"] = silent_day()
    progress("speed")
    results["speed"] = speed(LOG_BYTES // 8 if short else LOG_BYTES)
    progress("Titan")
    results["titan"] = titan()
    for name, file in (("alpine", ALPINE), ("titan", TITAN))[: 1 if short else 2]:
        progress(f"forecasts: {name}")
        results[f"forecast_{name}"] = forecasts(file)
    finish("health_logs", results, list(_bars(results)))


def _bars(results: dict[str, Any]) -> Iterator[dict[str, Any]]:
    samples, kinds = results["samples"], results["titan"]["kinds"]
    yield bar("sample lines that are read", samples["read"], ">=", 39)
    for name, each in results["speed"].items():
        yield bar(f"MB/s of kernel log on one core, {name}", each["mb_per_s"], ">=", 200)
        yield bar(f"faults found, {name}", each["faults"] / each["faults_written"], "==", 1)
    yield bar("false fatals in a storm of Xid 45", results["storm"]["fatal"], "<=", 0)
    yield bar("incidents of the silent day", results["silent_day"]["incidents"], "==", 1)
    yield bar("steady nodes in it", results["silent_day"]["steady_before"], "==", 1620)
    yield bar("Titan: DBE", kinds["DBE"]["count"], "==", 4826)
    yield bar("Titan: OTB", kinds["OTB"]["count"], "==", 1541)
    yield bar("Titan: GPUs with a DBE", kinds["DBE"]["units_with"], "==", 3946)
    yield bar("Titan: DBEs of the worst", kinds["DBE"]["worst"][0][1], "==", 106)
    hours = results["titan"]["gpu_hours"] / 1e6
    yield bar("Titan: GPU-hours off 883.8 million", abs(hours - 883.8), "<=", 0.05)
    for kind, known in (("DBE", 183_000), ("OTB", 574_000)):
        mtbe = kinds[kind]["mtbe_h"]
        inside = mtbe["low"] <= known <= mtbe["high"]
        yield bar(f"Titan: known MTBE of {kind} in the interval", int(inside), "==", 1)
    for name in ("alpine", "titan"):
        if (found := results.get(f"forecast_{name}")) is not None:
            gains = found["auc_gain_interval"][0], found["brier_gain_interval"][0]
            yield bar(f"{name}: AUC above the unit's rate, lower end", gains[0], ">", 0)
            yield bar(f"{name}: Brier below the unit's rate, lower end", gains[1], ">", 0)


if __name__ == "__main__":
    main()
