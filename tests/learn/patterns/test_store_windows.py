"""Recorded folders: nodes and what ran on them, hour by hour."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from steward.learn.patterns.from_telemetry import BasketRequest, make_baskets
from steward.learn.patterns.store_windows import hours_of, is_store, node_runs
from steward.model.span import Span
from steward.store.files.parquet import HOUR_S, Partitions, write_frame
from steward.store.files.spans import SpanStore

HOUR = 480_000
T0 = HOUR * HOUR_S


def record(folder: Path, node: str, t_s: np.ndarray, *, gpus: int = 2) -> None:
    """Write a node's host and GPUs as the recorder does: a file per set of columns."""
    parts = Partitions(folder / "telemetry")
    busy = (np.arange(len(t_s)) % 100 >= 50).astype(float)
    for number in np.unique(t_s // HOUR_S):
        inside = t_s // HOUR_S == number
        host = {"t_s": t_s[inside], "entity": node, "host.load_1m": 1.0}
        host["host.cpu.user_cores"] = busy[inside] * 4
        write_frame(parts.folder(int(number)), pl.DataFrame(host))
        for gpu in range(gpus):
            rows = {"t_s": t_s[inside] + 0.003 * gpu, "entity": f"{node}/gpu{gpu}"}
            rows |= {"gpu.busy_share": busy[inside], "gpu.power_watts": 80 + 500 * busy[inside]}
            write_frame(parts.folder(int(number)), pl.DataFrame(rows))


def test_a_nodes_hours_become_one_run(tmp_path: Path) -> None:
    record(tmp_path, "n01", T0 + HOUR_S - 100 + np.arange(200.0))
    record(tmp_path, "n02", T0 + HOUR_S - 100 + np.arange(100.0))

    found = make_baskets(BasketRequest(paths=(str(tmp_path),), window_s=10.0))

    assert is_store(tmp_path)
    assert [number for number, _ in hours_of(tmp_path)] == [HOUR, HOUR + 1]
    baskets = found.baskets
    assert baskets.runs == ("n01", "n02")
    assert baskets.groups == ("gpu_util", "gpu_power", "cpu_cores")
    assert np.bincount(baskets.run).tolist() == [20, 10]
    assert (baskets.levels[:10] == baskets.levels[10:20]).all()  # two hours of one node
    assert baskets.levels[:10, 0].tolist() == [0] * 5 + [1] * 5
    assert baskets.start_s[0] == T0 + HOUR_S - 100


def test_spans_of_runs_divide_a_nodes_time(tmp_path: Path) -> None:
    record(tmp_path, "n01", T0 + np.arange(100.0))
    spans = [
        Span(
            id=f"s{i}", entity="n01", kind="run", name=name, from_s=T0 + start, to_s=T0 + end,
            source="test", about={"workload": label},
        )
        for i, (name, start, end, label) in enumerate(
            [("a", 0, 40, "idle"), ("b", 60, 100, "train")]
        )
    ]  # fmt: skip
    store = SpanStore(tmp_path / "spans")
    store.keep(spans)
    store.table.close()

    found = make_baskets(BasketRequest(paths=(str(tmp_path),), window_s=10.0))

    assert [run.name for run in node_runs(tmp_path)] == ["a", "b"]
    assert found.baskets.runs == ("a", "b")
    assert found.baskets.labels == ("idle", "train")
    assert np.bincount(found.baskets.run).tolist() == [4, 4]


def test_a_window_that_does_not_divide_an_hour_ends_with_it(tmp_path: Path) -> None:
    record(tmp_path, "n01", T0 + HOUR_S - 60 + np.arange(120.0))

    found = make_baskets(BasketRequest(paths=(str(tmp_path),), window_s=7.0))

    starts = found.baskets.start_s - (T0 + HOUR_S)
    assert (np.diff(starts) >= 4).all()
    assert 0.0 in starts
