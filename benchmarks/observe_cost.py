"""What does watching cost: processor time, memory, and bytes on disk?

The agent's own process (`steward observe record`, all sources that work here) is watched from
outside while it reads 8 GPUs, this host and 12 jobs, once a second and ten times a second. The GPUs
are those of `observing/eight_gpus.c`, which stands in for the driver and answers at once: what
is measured is all of our own work. What a real driver costs on top is in `observe_h200.py`.

Once an hour files are merged and tiers made. That is watched too: a recorder ten times a second
goes on in a folder with a whole hour of its own samples, by a clock that soon ends that hour.
Memory is the most that the kernel has seen, not what a look now and then happens to find.

Bytes per sample are those of the real series in ../shared/data/h200, beside the same as CSV,
as CSV through gzip, and as blocks of a real Prometheus (made by promtool).
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import psutil

from report import bar, finish, progress, quick
from steward.store.files.parquet import Partitions, write_frame

HERE = Path(__file__).parent
DATA = Path(os.environ.get("STEWARD_DATA") or HERE.parent.parent / "shared" / "data")
STEWARD = str(Path(sys.executable).with_name("steward"))
SETTLE_S = 35.0  # imports and the first flush, after 30 s, are not the steady state
JOBS = 12
GRACE_S = 300.0  # as long after its end an hour is merged
QUIET_S = 20.0  # when nothing has changed for so long, all is merged
REVEAL_SHARE = 0.012  # what the authors of Reveal give for theirs at 100 ms, at the least


@contextmanager
def eight_gpus(folder: Path) -> Iterator[dict[str, str]]:
    """Build the stand-in for the driver and give the environment in which it is found."""
    library = folder / "libnvidia-ml.so.1"
    source = HERE / "observing" / "eight_gpus.c"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    env = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    del env["_RJEM_MALLOC_CONF"]  # our own polars has set it; a recorder begins without
    yield env


@contextmanager
def jobs(count: int) -> Iterator[int]:
    """Run sleeping processes in control groups named like Slurm's; as many as can be made."""
    root = Path("/sys/fs/cgroup")
    tops = [each for each in (root / "memory", root / "cpuacct", root) if each.is_dir()]
    made: list[Path] = []
    sleepers = [subprocess.Popen(["sleep", "3600"]) for _ in range(count)]
    try:
        for top in tops:
            for number, sleeper in enumerate(sleepers):
                group = top / "slurm" / "uid_0" / f"job_{9000 + number}"
                try:
                    group.mkdir(parents=True, exist_ok=True)
                    made.append(group)
                    (group / "cgroup.procs").write_text(str(sleeper.pid))
                except OSError:
                    continue
        yield len({group.name for group in made})
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()
        for group in reversed(made):
            shutil.rmtree(group, ignore_errors=True)
            try:
                group.rmdir()
            except OSError:
                continue


def watched(command: Sequence[str], env: dict[str, str], for_s: float) -> dict[str, Any]:
    """Run a recorder, and look at it from outside once it has settled."""
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    outside = psutil.Process(process.pid)
    time.sleep(SETTLE_S)
    forget_peak(process.pid)
    began_s, before = time.monotonic(), outside.cpu_times()
    resident = []
    while time.monotonic() - began_s < for_s:
        time.sleep(min(2.0, for_s / 20))
        resident.append(outside.memory_info().rss / 1e6)
    after, took_s = outside.cpu_times(), time.monotonic() - began_s
    most = peak_mb(process.pid)
    process.send_signal(signal.SIGINT)
    said = json.loads(process.communicate(timeout=60)[0])
    cpu_s = after.user + after.system - before.user - before.system
    half = len(resident) // 2
    ticks = {name: each["ticks"] for name, each in said["pace"].items()}
    return {
        "cpu_share": round(cpu_s / took_s, 5),
        "user_s": round(after.user - before.user, 2),
        "system_s": round(after.system - before.system, 2),
        "watched_s": round(took_s, 1),
        "columns": said["columns"],
        "known_values_per_tick": round(said["samples"] / max(ticks.values())),
        "ticks": ticks,
        "missed": {name: each["missed"] for name, each in said["pace"].items()},
        "resident_mb": round(most, 1),
        "median_resident_mb": round(float(np.median(resident)), 1),
        "growth_mb": round(
            float(np.median(resident[half:]) - np.median(resident[: max(1, half)])), 1
        ),
    }


def forget_peak(pid: int) -> None:
    """Let the kernel look for the most memory of a process anew."""
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="utf-8")


def peak_mb(pid: int) -> float:
    """Return the most memory that a process has had resident since then."""
    said = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(said.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6


def an_hour_of(recorded: Path, out: Path, hour: int) -> int:
    """Write an hour of files as a recorder has left them, again and again, one per flush."""
    found = sorted((recorded / "telemetry").rglob("*.parquet"), key=lambda f: f.stat().st_mtime_ns)
    tables = [pl.read_parquet(file) for file in found]
    times = np.concatenate([table["t_s"].to_numpy() for table in tables])
    first_s, length_s = float(times.min()), float(np.ptp(times))
    parts, count = Partitions(out / "telemetry"), 0
    begin_s = hour * 3600.0
    while begin_s + length_s < (hour + 1) * 3600.0:
        for table in tables:
            write_frame(parts.folder(hour), table.with_columns(pl.col("t_s") - first_s + begin_s))
            count += 1
        begin_s += length_s + 0.1
    return count


def end_of_hour(env: dict[str, str], recorded: Path, out: Path) -> dict[str, Any]:
    """Watch a recorder while an hour of its own samples is merged and gets its tier."""
    hour = int(time.time() // 3600) - 1
    count = an_hour_of(recorded, out, hour)
    raw, tier = (Partitions(out / name).folder(hour) for name in ("telemetry", "telemetry_10s"))
    over_s = (hour + 1) * 3600.0 + GRACE_S
    command = [sys.executable, str(HERE / "observing" / "late_recorder.py")]
    options = ["observe", "record", "--every", "100ms", "--for", "1000s", "--out", str(out)]
    ahead_s = over_s - SETTLE_S - 10.0 - time.time()
    process = subprocess.Popen(
        [*command, str(ahead_s), *options], env=env, stdout=subprocess.DEVNULL
    )
    outside = psutil.Process(process.pid)
    time.sleep(SETTLE_S)
    forget_peak(process.pid)
    began_s, before = time.monotonic(), outside.cpu_times()
    quiet_since_s, seen = began_s, -1
    while time.monotonic() - quiet_since_s < QUIET_S or not tier.is_dir():
        time.sleep(0.5)
        now = len([*raw.glob("*")]) + (len([*tier.glob("*")]) if tier.is_dir() else 0)
        if now != seen:
            quiet_since_s, seen = time.monotonic(), now
        if time.monotonic() - began_s > 600.0:
            raise SystemExit("the hour was not merged within ten minutes")
    after, took_s = outside.cpu_times(), time.monotonic() - began_s
    most = peak_mb(process.pid)
    process.send_signal(signal.SIGINT)
    process.wait(timeout=60)
    return {
        "resident_mb": round(most, 1),
        "cpu_s": round(after.user + after.system - before.user - before.system, 2),
        "watched_s": round(took_s, 1),
        "files_before": count,
        "files_after": len([*raw.glob("*.parquet")]),
        "files_of_tier": len([*tier.glob("*.parquet")]),
    }


def cpu_and_memory(*, short: bool) -> dict[str, Any]:
    """Record at both paces; the fast one long enough for an hour's worth of ticks at 1 s."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name, eight_gpus(Path(name)) as env, jobs(JOBS) as made:
        for every, for_s in (("1s", 60.0), ("100ms", 60.0 if short else 360.0)):
            out = Path(name) / f"every-{every}"
            progress(f"recording every {every} for {for_s:.0f} s")
            command = [STEWARD, "observe", "record", "--every", every]
            options = ["--for", f"{for_s + 600}s", "--out", str(out), "--json"]
            found[every] = watched([*command, *options], env, for_s)
        progress("the end of an hour")
        end = end_of_hour(env, out, Path(name) / "hour")
        steady_s = found["100ms"]["cpu_share"] * end["watched_s"]
        found["end_of_hour"] = end | {"merging_cpu_s": round(max(0.0, end["cpu_s"] - steady_s), 2)}
        found["jobs"] = made
    return found


# -- bytes on disk -----------------------------------------------------------------------------


def on_disk() -> dict[str, Any]:
    """Compare bytes per sample of the same real samples in four forms."""
    source = DATA / "h200" / "telemetry.csv.gz"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        out = folder / "ours"
        command = [STEWARD, "observe", "import", str(source)]
        subprocess.run(
            [*command, "--format", "h200", "--out", str(out)], check=True, capture_output=True
        )
        files = sorted((out / "telemetry").rglob("date=*/**/*.parquet"))
        frames = [pl.read_parquet(file) for file in files if "tier" not in str(file)]
        rows = pl.concat(frames, how="diagonal").sort("entity", "t_s")
        long = rows.unpivot(index=["t_s", "entity"], variable_name="metric").drop_nulls("value")
        csv = folder / "samples.csv"
        rows.write_csv(csv)
        text = folder / "samples.txt"
        _write_openmetrics(long, text)
        blocks = folder / "blocks"
        promtool = ["promtool", "tsdb", "create-blocks-from", "openmetrics", text, blocks]
        subprocess.run([str(each) for each in promtool], check=True, capture_output=True)
        sizes = {
            "steward": sum(f.stat().st_size for f in files if "tier" not in str(f)),
            "prometheus": sum(f.stat().st_size for f in blocks.rglob("*") if f.is_file()),
            "prometheus_without_index": sum(f.stat().st_size for f in blocks.rglob("chunks/*")),
            "csv": csv.stat().st_size,
            "csv_gzip": len(gzip.compress(csv.read_bytes(), 6)),
        }
    count = long.height
    return {
        "samples": count,
        "bytes_per_sample": {name: round(size / count, 3) for name, size in sizes.items()},
        "times_prometheus": round(sizes["steward"] / sizes["prometheus"], 3),
    }


def _write_openmetrics(long: pl.DataFrame, file: Path) -> None:
    with file.open("w", encoding="utf-8") as text:
        for (metric,), part in long.sort("metric", "entity", "t_s").group_by(
            "metric", maintain_order=True
        ):
            name = str(metric).replace(".", "_")
            text.write(f"# TYPE {name} gauge\n")
            text.writelines(
                f'{name}{{entity="{entity}"}} {value!r} {t_s:.3f}\n'
                for t_s, entity, value in part.select("t_s", "entity", "value").iter_rows()
            )
        text.write("# EOF\n")


def main() -> None:
    """Measure, and hold the figures against the bars."""
    short = quick()
    results: dict[str, Any] = {"cost": cpu_and_memory(short=short), "disk": on_disk()}
    slow, fast, end = (results["cost"][name] for name in ("1s", "100ms", "end_of_hour"))
    with_merging = fast["cpu_share"] + end["merging_cpu_s"] / 3600.0
    results["reveal_cpu_share_at_100ms"] = REVEAL_SHARE
    finish(
        "observe_cost",
        results,
        [
            bar("CPU share of a core at 1 s", slow["cpu_share"], "<", 0.01),
            bar("CPU share of a core at 100 ms, with merging", with_merging, "<", 0.03),
            bar("columns", fast["columns"], ">=", 700),
            bar("resident MB", max(slow["resident_mb"], fast["resident_mb"]), "<", 150.0),
            bar("resident MB at the end of an hour", end["resident_mb"], "<", 150.0),
            bar("files of an hour, after its end", end["files_after"], "<", end["files_before"]),
            bar("growth of the second half over the first in MB", fast["growth_mb"], "<", 5.0),
            bar(
                "missed ticks at 100 ms, share",
                max(
                    missed / (fast["ticks"][name] + missed)
                    for name, missed in fast["missed"].items()
                ),
                "<",
                0.01,
            ),
            bar("bytes on disk, times Prometheus'", results["disk"]["times_prometheus"], "<", 1.0),
        ],
    )


if __name__ == "__main__":
    main()
