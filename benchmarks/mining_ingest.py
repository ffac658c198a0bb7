"""Wide telemetry to baskets: CPU, memory and growth, beside pandas and plain polars.

The input is synthetic, in Reveal's layout (`reveal_layout.py`): 750 columns at 100 ms. Each way of
reading is a process of its own; CPU seconds are the user and system time of all its threads, its
start included; files are in the page cache. `MB` are those of the same table as CSV, measured by
writing it once, for Parquet as well. Every way gives the medians of all 749 columns in windows of
5 s and one value per group; ours goes on to levels and counts distributions, the others' values
are cut with our thresholds afterwards (values within a millionth of a threshold are counted apart:
rounding decides there). The large set is Parquet on disk; it is named by its size as CSV.
`--quick` reads short files and a set of 1 GB, where the start of the process is most of the time.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from report import bar, finish, progress, quick
from reveal_layout import run_table, write_run
from steward.batch import Workers
from steward.learn.patterns.basket_files import write_baskets
from steward.learn.patterns.column_names import Column, read_names
from steward.learn.patterns.cuts import levels_of
from steward.learn.patterns.discretise import discretise
from steward.learn.patterns.file_windows import WindowPlan
from steward.learn.patterns.from_telemetry import BasketRequest, make_baskets
from steward.learn.patterns.groups import GROUPS, MetricGroup, select_columns
from steward.learn.patterns.ingest import IngestPlan, ingest
from steward.learn.patterns.inputs import find_inputs

_WINDOW_S, _PERIOD_S = 5.0, 0.1
_HOST = "htc-g003"
_ROWS, _FILES = 50_000, 8
_LARGE_GB = (5.0, 10.0, 20.0)
Found = tuple[np.ndarray[Any, Any], dict[str, Any]]


def _groups(names: Sequence[str]) -> tuple[MetricGroup, ...]:
    """Return groups that every column is in: ours, and one for each other name."""
    columns = read_names(names)
    rest = dict.fromkeys(each.generic for each in select_columns(columns, GROUPS).unmapped)
    rest |= dict.fromkeys(each.generic for each in columns if each.metric == "cpu.busy_share")
    more = tuple(
        MetricGroup(name=re.sub(r"\W+", "_", name), match=(f"^{re.escape(name)}$",))
        for name in rest
    )
    return (*GROUPS, *(each for each in more if each.name.strip("_")))


# -- ways of reading, each in a process of its own ------------------------------------------------


def _ours(files: Sequence[str], groups: tuple[MetricGroup, ...]) -> Found:
    plan = IngestPlan(
        inputs=find_inputs(files), windows=WindowPlan(groups=groups, windows_s=(_WINDOW_S,))
    )
    found = ingest(plan)
    made = discretise(found, plan, keep_constant=True)
    values = np.concatenate([each.values for each in found.windows[0]])
    levels = {group: cuts for (_, group), cuts in made.cuts.items()}
    names = [group.name for group in groups]
    cuts = {str(names.index(group)): cuts.bounds for group, cuts in levels.items()}
    return values, {"cuts": cuts, "windows": len(made.baskets)}


def _ours_all(files: Sequence[str]) -> Found:
    return _ours(files, _groups(_header(files[0])))


def _ours_default(files: Sequence[str]) -> Found:
    return _ours(files, GROUPS)


def _header(file: str) -> list[str]:
    if file.endswith(".parquet"):
        return list(pl.scan_parquet(file).collect_schema().names())
    with Path(file).open(encoding="utf-8") as stream:
        return stream.readline().rstrip("\n").split(",")


def _grouped(medians: np.ndarray[Any, Any], header: Sequence[str]) -> np.ndarray[Any, Any]:
    """Return windows x groups of windows x columns, the columns in the order of the header."""
    groups = _groups(header)
    columns = [each for each in read_names(header) if each.place]
    selection = select_columns(columns, groups)
    found = np.full((len(medians), len(groups)), np.nan)
    for place, (group, members) in enumerate(zip(groups, selection.members, strict=True)):
        if members:
            own = [selection.columns[i] for i in members]
            values = medians[:, [each.place - 1 for each in own]] * [_factor(c) for c in own]
            how = np.nansum if group.combine == "sum" else np.nanmedian
            found[:, place] = how(values, axis=1)
    return found


def _factor(column: Column) -> float:
    return column.scale / (_PERIOD_S if column.per_sample else 1.0)


def _polars(files: Sequence[str]) -> Found:
    found = []
    for file in files:
        header = _header(file)
        if file.endswith(".parquet"):
            scan = pl.scan_parquet(file)
        else:
            types = dict.fromkeys(header[1:], pl.Float32)
            scan = pl.scan_csv(file, schema_overrides={header[0]: pl.Float64, **types})
        time = pl.col(header[0])
        number = ((time - time.first()) / _WINDOW_S + 1e-6).floor().cast(pl.Int64).alias("w")
        table = (
            scan.with_columns(number)
            .group_by("w")
            .agg(pl.col(header[1:]).median())
            .sort("w")
            .collect()
        )
        found.append(_grouped(table.drop("w").to_numpy(), header))
    return np.concatenate(found), {}


def _pandas(files: Sequence[str]) -> Found:
    import pandas as pd  # noqa: PLC0415 - an extra that only this needs

    found = []
    for file in files:
        header = _header(file)
        if file.endswith(".parquet"):
            table = pd.read_parquet(file)
        else:
            types = dict.fromkeys(header[1:], np.float32)
            table = pd.read_csv(file, dtype={header[0]: np.float64, **types})
        time = table[header[0]]
        number = np.floor((time - time.iloc[0]) / _WINDOW_S + 1e-6).astype(np.int64)
        medians = table[header[1:]].groupby(number).median()
        found.append(_grouped(medians.to_numpy(), header))
    return np.concatenate(found), {}


_WAYS: dict[str, Callable[[Sequence[str]], Found]] = {
    "ours": _ours_all,
    "ours, default groups": _ours_default,
    "polars": _polars,
    "pandas": _pandas,
}


def _child(way: str, out: str, files: Sequence[str]) -> None:
    values, more = _WAYS[way](files)
    np.save(out, values)
    print(json.dumps(more))


def _run(way: str, files: Sequence[Path], out: Path) -> dict[str, Any]:
    """Read in a process of its own; return its CPU seconds, wall time and peak memory."""
    program = (
        "import os, resource, runpy, subprocess, sys, time\n"
        "begin = time.perf_counter()\n"
        "done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, check=True)\n"
        "wall = time.perf_counter() - begin\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "import json\n"
        "print(json.dumps({'cpu_s': used.ru_utime + used.ru_stime, 'wall_s': wall,\n"
        "  'peak_gb': used.ru_maxrss * 1024 / 1e9, **json.loads(done.stdout or b'{}')}))\n"
    )
    command = [sys.executable, __file__, "--child", way, str(out), *map(str, files)]
    said = subprocess.run(
        [sys.executable, "-c", program, *command], capture_output=True, text=True, check=False
    )
    if said.returncode:
        raise RuntimeError(said.stderr[-2000:])
    found: dict[str, Any] = json.loads(said.stdout)
    return found


def _start_up(folder: Path) -> float:
    """Return the CPU seconds that a process of ours takes before it reads: imports, compiling."""
    tiny = folder / "tiny.parquet"
    run_table(200, seed=9, host=_HOST).write_parquet(tiny)
    return min(float(_run("ours", [tiny], folder / "tiny.npy")["cpu_s"]) for _ in range(2))


# -- comparing -----------------------------------------------------------------------------------


def _compare(folder: Path, rows: int, files: int) -> tuple[dict[str, Any], dict[str, float]]:
    parquet, texts = [], []
    for i in range(files):
        table = run_table(rows, seed=i, host=_HOST)
        parquet.append(folder / f"train_Model{i}forTask_set_2026_{_HOST}.parquet")
        table.write_parquet(parquet[-1], compression="snappy", row_group_size=25_000)
        if i < 4:
            texts.append(folder / f"train_Model{i}forTask_set_2026_{_HOST}.csv")
            table.write_csv(texts[-1])
    csv_mb = texts[0].stat().st_size / 1e6
    progress(f"{files} files of {csv_mb:.0f} MB as CSV, {parquet[0].stat().st_size / 1e6:.0f} MB")
    start_s = _start_up(folder)
    ways = [("parquet", way, parquet) for way in _WAYS] + [("csv", way, texts) for way in _WAYS]
    found: dict[str, Any] = {
        "csv_mb_per_file": csv_mb,
        "parquet_mb_per_file": parquet[0].stat().st_size / 1e6,
        "start_up_cpu_s": start_s,
    }
    for form, way, some in ways:
        some = some[:1] if way == "pandas" else some  # noqa: PLW2901
        out = folder / f"{form}-{way}.npy"
        runs = [_run(way, some, out) for _ in range(2)]
        best = min(runs, key=lambda run: run["cpu_s"])
        size = csv_mb * len(some)
        speed = size / best["cpu_s"]
        found[f"{form}, {way}"] = {
            "files": len(some), "cpu_s": best["cpu_s"], "wall_s": min(r["wall_s"] for r in runs),
            "peak_gb": best["peak_gb"], "mb_per_cpu_s": speed,
            "gb_per_s_wall": size / 1e3 / min(run["wall_s"] for run in runs),
        }  # fmt: skip
        progress(f"{form}, {way}: {best['cpu_s']:.2f} CPU-s, {speed:.0f} MB/CPU-s")
        if way == "ours":
            found["cuts"] = best["cuts"]
    return found, _agreement(folder, found.pop("cuts"))


def _agreement(folder: Path, cuts: dict[str, Sequence[float]]) -> dict[str, float]:
    """Compare window values, and levels with the same thresholds, of all ways with ours."""
    from steward.learn.patterns.cuts import Cuts  # noqa: PLC0415

    worst, differ, compared, near = 0.0, 0, 0, 0
    for form in ("parquet", "csv"):
        ours = np.load(folder / f"{form}-ours.npy")
        for way in ("polars", "pandas"):
            theirs = np.load(folder / f"{form}-{way}.npy")
            mine = ours[: len(theirs)]
            if not np.array_equal(np.isnan(mine), np.isnan(theirs)):
                worst = np.inf
            scale = np.maximum(np.abs(mine), 1e-9)
            worst = max(worst, float(np.nanmax(np.abs(mine - theirs) / scale)))
            for place, bounds in cuts.items():
                cut = Cuts(names=(), bounds=tuple(bounds), shares=(), windows=0, why="")
                column = int(place)
                one = levels_of(mine[:, column].astype(np.float32), cut)
                other = levels_of(theirs[:, column].astype(np.float32), cut)
                edge = np.zeros(len(one), np.bool_)
                for bound in bounds:
                    edge |= np.isclose(mine[:, column], bound, rtol=1e-6, atol=1e-12)
                differ += int(((one != other) & ~edge).sum())
                near += int(edge.sum())
                compared += len(one)
    return {
        "worst_relative": worst,
        "levels_differ": differ,
        "levels_compared": compared,
        "at_a_threshold": near,
    }


# -- the same bytes anywhere ---------------------------------------------------------------------


def _same_bytes(folder: Path) -> dict[str, str]:
    files = tuple(str(each) for each in sorted(folder.glob("train_*.parquet")))
    request = BasketRequest(paths=files, window_s=_WINDOW_S, sensitivity_s=(1.0, 2.0))
    found = {"1 process": _digest(request, Workers(), folder)}
    found["2 processes"] = _digest(request, Workers(processes=2), folder)
    from dask.distributed import LocalCluster  # noqa: PLC0415 - an extra

    for count in (1, 2):
        options = {"n_workers": count, "threads_per_worker": 1, "dashboard_address": None}
        with LocalCluster(processes=True, **options) as cluster:
            where = Workers(scheduler=cluster.scheduler_address)
            found[f"Dask, {count} workers"] = _digest(request, where, folder)
    return found


def _digest(request: BasketRequest, workers: Workers, folder: Path) -> str:
    made = make_baskets(request, workers=workers)
    write_baskets(made.baskets, folder / "baskets.parquet", about=made.report)
    return hashlib.sha256((folder / "baskets.parquet").read_bytes()).hexdigest()


# -- larger than memory --------------------------------------------------------------------------


def _large(folder: Path, sizes_gb: Sequence[float], csv_mb: float, rows: int) -> list[Any]:
    """Read growing sets; the files of a smaller one are part of the larger one."""
    tables = [run_table(rows, seed=100 + i, host=_HOST) for i in range(2)]
    found: list[Any] = []
    files: list[Path] = []
    for size_gb in sizes_gb:
        while len(files) * csv_mb < size_gb * 1e3:
            i = len(files)
            path = folder / f"large_{i:04}.parquet"
            write_run(path, tables[i % 2], turn=(i * 7919) % rows, host=f"n{i % 9:03}")
            files.append(path)
        run = _run("ours", files, folder / "large.npy")
        disk_gb = sum(path.stat().st_size for path in files) / 1e9
        as_csv_gb = len(files) * csv_mb / 1e3
        found.append({"csv_gb": as_csv_gb, "disk_gb": disk_gb, "files": len(files), **_plain(run)})
        progress(f"{as_csv_gb:.1f} GB as CSV: {run['cpu_s']:.1f} CPU-s, {run['peak_gb']:.2f} GB")
    return found


def _plain(run: dict[str, Any]) -> dict[str, Any]:
    return {key: run[key] for key in ("cpu_s", "wall_s", "peak_gb", "windows")}


def _growth(large: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return CPU seconds per GB at both ends, and what a line through all sizes gives at 100 GB."""
    size = np.array([each["csv_gb"] for each in large])
    cpu, wall, peak = (
        np.array([each[key] for each in large]) for key in ("cpu_s", "wall_s", "peak_gb")
    )
    found = {"cpu_s_per_gb_first": cpu[0] / size[0], "cpu_s_per_gb_last": cpu[-1] / size[-1]}
    if len(large) > 1:
        for name, values in (("cpu_s", cpu), ("wall_s", wall), ("peak_gb", peak)):
            slope, base = np.polyfit(size, values, 1)
            found[f"{name}_at_100_gb"] = base + slope * 100
    return {key: float(value) for key, value in found.items()}


def main() -> None:
    """Compare, check bytes, grow."""
    short = quick()
    with tempfile.TemporaryDirectory(prefix="mining-ingest-") as name:
        folder = Path(name)
        free_gb = shutil.disk_usage(folder).free / 1e9
        if free_gb < (2 if short else 30):
            raise SystemExit(f"only {free_gb:.0f} GB are free in {folder}: 30 GB are needed")
        rows = 12_000 if short else _ROWS
        compared, agreement = _compare(folder, rows, 2 if short else _FILES)
        digests = _same_bytes(folder)
        for each in folder.glob("*.csv"):
            each.unlink()
        sizes = (0.5, 1.0) if short else _LARGE_GB
        large = _large(folder, sizes, compared["csv_mb_per_file"], rows)
    growth = _growth(large)
    speed = {form: compared[f"{form}, ours"]["mb_per_cpu_s"] for form in ("parquet", "csv")}
    bars = [
        bar("MB of Parquet per CPU-s, in MB of the same table as CSV", speed["parquet"], ">=", 500),
        bar("MB of CSV per CPU-s", speed["csv"], ">=", 130),
        bar("values differ from polars' and pandas' by", agreement["worst_relative"], "<=", 1e-5),
        bar("levels that differ", agreement["levels_differ"], "==", 0),
        bar("different files from 1, 2 processes and Dask", len({*digests.values()}), "==", 1),
        bar("peak GB of memory with the largest set", large[-1]["peak_gb"], "<", 4.0),
        bar(
            "CPU-s per GB, largest set over smallest",
            growth["cpu_s_per_gb_last"] / growth["cpu_s_per_gb_first"], "<=", 1.25,
        ),
    ]  # fmt: skip
    results = {
        "compared": compared,
        "agreement": agreement,
        "sha256": digests,
        "large": large,
        "growth": growth,
    }
    finish("mining_ingest", results, bars)


if __name__ == "__main__":
    if "--child" in sys.argv:
        _child(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        main()
