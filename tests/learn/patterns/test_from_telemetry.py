"""Telemetry in any form becomes baskets; what is wrong with it is said, counted and bounded."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from steward.batch import Workers
from steward.errors import StewardError
from steward.learn.patterns.basket_files import write_baskets
from steward.learn.patterns.baskets import ABSENT, Baskets
from steward.learn.patterns.from_telemetry import (
    BasketRequest,
    MadeBaskets,
    load_baskets,
    make_baskets,
)
from telemetry_tables import (
    IPC,
    POWER,
    reveal_table,
    write_csv,
    write_reveal,
)

T0 = 1_700_000_000.0


def made(*paths: Path, **options: Any) -> MadeBaskets:
    given = {"window_s": 1.0, **options}
    return make_baskets(BasketRequest(paths=tuple(map(str, paths)), **given))


def level(baskets: Baskets, group: str) -> list[str | None]:
    place = baskets.groups.index(group)
    names = baskets.level_names[place]
    return [None if code == ABSENT else names[code] for code in baskets.levels[:, place]]


def noted(found: MadeBaskets, words: str) -> bool:
    return any(words in note for note in found.notes)


def simple(rows: int = 100, **more: object) -> pl.DataFrame:
    """Return a table of our names: the GPU works in the second half."""
    busy = (np.arange(rows) >= rows // 2).astype(float)
    t_s = T0 + np.arange(rows) * 0.1
    return pl.DataFrame(
        {"t_s": t_s, "gpu.busy_share": busy, "gpu.power_watts": 80 + 500 * busy, **more}
    )


# -- forms ---------------------------------------------------------------------------------------


def test_reveals_files_become_levels_with_their_labels(tmp_path: Path) -> None:
    write_reveal(
        tmp_path / "train_VGG16forImages_c10_2025-01-01T00-00-00_htc-g003.txt", reveal_table()
    )
    write_reveal(
        tmp_path / "infer_BERTforQA_squad_2025-01-01T00-00-00_htc-g003.txt", reveal_table()
    )

    baskets = made(tmp_path).baskets

    assert baskets.groups == ("gpu_util", "gpu_power", "cpu_busy", "cpu_ipc", "net_rx")
    assert level(baskets, "gpu_util") == (["zero"] * 30 + ["high"] * 30) * 2
    assert baskets.labels == ("infer", "train")
    assert baskets.start_s[1] - baskets.start_s[0] == pytest.approx(1.0)


def test_text_parquet_and_gzip_of_one_table_give_the_same_levels(tmp_path: Path) -> None:
    table = reveal_table(rows=400)
    forms = [write_reveal(tmp_path / "a" / "run.txt", table)]
    (tmp_path / "run.csv.gz").write_bytes(gzip.compress(table.write_csv().encode()))
    table.write_parquet(tmp_path / "run.parquet", row_group_size=70)
    forms += [tmp_path / "run.csv.gz", tmp_path / "run.parquet"]

    first, *others = [made(path).baskets for path in forms]

    for other in others:
        assert np.array_equal(first.levels, other.levels)
        assert first.groups == other.groups


def test_counters_of_our_recorder_become_rates(tmp_path: Path) -> None:
    rows = 200
    energy = np.cumsum(np.where(np.arange(rows) < 100, 10_000, 60_000))  # mJ each 100 ms
    columns = {"run": ["a"] * 100 + ["b"] * 100, "t": T0 + np.arange(rows) * 0.1}
    pl.DataFrame({**columns, "energy_mj": energy, "gpu_util": [50] * rows}).write_csv(
        tmp_path / "t.csv"
    )
    (tmp_path / "events.jsonl").write_text(
        '{"run": "a", "kind": "idle"}\nbad\n{"run": "b", "workload": "w"}\n'
    )

    found = made(tmp_path / "t.csv", keep_constant=True)

    assert found.baskets.runs == ("a", "b")
    assert found.baskets.labels == ("idle", "w")
    (power,) = [each for each in found.report["cuts"] if each["group"] == "gpu_power"]
    assert (power["min"], power["max"]) == (
        pytest.approx(100, rel=1e-4),
        pytest.approx(600, rel=1e-4),
    )
    assert level(found.baskets, "gpu_power") == ["low"] * 10 + ["high"] * 10


def test_baskets_file_or_telemetry_may_be_loaded(tmp_path: Path) -> None:
    simple().write_parquet(tmp_path / "raw.parquet")
    first = load_baskets([tmp_path / "raw.parquet"], window_s=1.0)
    write_baskets(first, tmp_path / "b.parquet")

    again = load_baskets([tmp_path / "b.parquet"])

    assert np.array_equal(first.levels, again.levels)


def test_further_statistics_are_groups_of_their_own(tmp_path: Path) -> None:
    reveal_table().write_parquet(tmp_path / "a.parquet")

    found = made(tmp_path, statistics=("median", "spread", "slope"), only=("gpu_power", "cpu_ipc"))

    assert found.baskets.groups == (
        "gpu_power", "cpu_ipc", "gpu_power.spread", "cpu_ipc.spread", "gpu_power.slope",
        "cpu_ipc.slope",
    )  # fmt: skip


def test_cuts_of_one_set_are_used_for_another(tmp_path: Path) -> None:
    simple().write_parquet(tmp_path / "a.parquet")
    simple().with_columns(pl.col("gpu.power_watts") * 0.1).write_parquet(tmp_path / "b.parquet")
    first = made(tmp_path / "a.parquet")
    write_baskets(first.baskets, tmp_path / "cuts.parquet", about=first.report)

    found = made(tmp_path / "b.parquet", cuts_from=tmp_path / "cuts.parquet", keep_constant=True)

    assert set(level(found.baskets, "gpu_power")) == {"low"}


def test_larger_windows_are_compared_with_the_first(tmp_path: Path) -> None:
    reveal_table().write_parquet(tmp_path / "a.parquet")

    sizes = made(tmp_path, sensitivity_s=(2.0, 5.0)).sizes

    assert [each.window_s for each in sizes] == [1.0, 2.0, 5.0]
    assert [each.windows for each in sizes] == [60, 30, 12]
    assert sizes[0].agreement == 1.0
    assert sizes[2].groups["gpu_util"].agreement == 1.0
    assert 0.3 < sizes[2].groups["cpu_ipc"].agreement < 1.0


def test_hardware_has_thresholds_of_its_own(tmp_path: Path) -> None:
    for host, factor in (("n1", 1.0), ("n2", 3.0)):
        table = reveal_table(host=host, seed=int(factor))
        power = f"{POWER}.{host}[W]"
        table.with_columns(pl.col(power) * factor).write_parquet(tmp_path / f"{host}.parquet")
    (tmp_path / "hosts.yaml").write_text("n1: old\nn2: new\n")

    found = made(tmp_path, scope="cluster", hosts=tmp_path / "hosts.yaml")

    bounds = {
        each["scope"]: each["bounds"]
        for each in found.report["cuts"]
        if each["group"] == "gpu_power"
    }
    assert bounds["new"][1] > 2.5 * bounds["old"][1]
    power = np.array(level(found.baskets, "gpu_power"))
    for run in (0, 1):
        assert (power[found.baskets.run == run] == "high").mean() == pytest.approx(1 / 3, abs=0.05)


# -- anywhere ------------------------------------------------------------------------------------


def test_one_process_two_and_dask_give_the_same_bytes(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="dask is an extra")
    folder = tmp_path / "in"
    folder.mkdir()
    for i in range(300):  # more than one part
        reveal_table(rows=40 + i % 7, seed=i).write_csv(folder / f"r{i:03}.csv")
    request = BasketRequest(paths=(str(folder),), window_s=1.0, sensitivity_s=(0.5,))

    def digest(workers: Workers) -> bytes:
        found = make_baskets(request, workers=workers)
        write_baskets(found.baskets, tmp_path / "b.parquet", about=found.report)
        return (tmp_path / "b.parquet").read_bytes()

    alone = digest(Workers())
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
    ) as cluster:
        on_dask = digest(Workers(scheduler=cluster.scheduler_address))
    two = digest(Workers(processes=2))

    assert alone == on_dask == two


# -- bad input -----------------------------------------------------------------------------------


def test_files_with_different_columns_share_groups(tmp_path: Path) -> None:
    simple().write_parquet(tmp_path / "a.parquet")
    simple().drop("gpu.power_watts").with_columns(foo=1.0).write_parquet(tmp_path / "b.parquet")

    found = made(tmp_path)

    assert level(found.baskets, "gpu_power")[10:] == [None] * 10
    assert found.report["unmapped"]["most"] == {"foo": 1}


def test_doubled_columns_are_used_once(tmp_path: Path) -> None:
    time = [T0 + i * 0.1 for i in range(100)]
    low, high = [0.0] * 50 + [90.0] * 50, [55.0] * 100
    names = ["time", "gpu_util", "gpu_util", "DCGM_FI_DEV_GPU_UTIL"]
    write_csv(tmp_path / "a.csv", names, {0: time, 1: low, 2: high, 3: high})

    found = made(tmp_path)

    assert noted(found, "1 times: columns that are there twice")
    assert noted(found, "1 times: columns that say the same by another name")
    assert level(found.baskets, "gpu_util") == ["zero"] * 5 + ["high"] * 5


def test_instructions_per_cycle_in_per_cent_are_scaled(tmp_path: Path) -> None:
    for host, factor in (("n1", 1.0), ("n2", 100.0), ("n3", 1.0)):
        table = reveal_table(host=host)
        ipc = f"{IPC}.{host}[-]"
        table.with_columns(pl.col(ipc) * factor).write_parquet(tmp_path / f"{host}.parquet")

    found = made(tmp_path)

    (ipc_cuts,) = [each for each in found.report["cuts"] if each["group"] == "cpu_ipc"]
    assert ipc_cuts["max"] < 4
    assert noted(found, "cpu_ipc is in per cent")
    runs = found.baskets.run
    shares = [
        np.mean([x == "high" for x in np.array(level(found.baskets, "cpu_ipc"))[runs == r]])
        for r in range(3)
    ]
    assert shares[0] == shares[1] == shares[2]


def test_units_that_differ_by_host_are_named(tmp_path: Path) -> None:
    for host, factor in (("n1", 1.0), ("n2", 1000.0), ("n3", 1.0)):
        table = reveal_table(host=host)
        power = f"{POWER}.{host}[W]"
        table.with_columns(pl.col(power) * factor).write_parquet(tmp_path / f"{host}.parquet")

    assert noted(made(tmp_path), "gpu_power of n2")


def test_text_among_numbers_is_counted(tmp_path: Path) -> None:
    time = [T0 + i * 0.1 for i in range(100)]
    values: list[object] = [float(i % 50) for i in range(100)]
    values[3], values[4], values[5] = "error", "N/A", "17 %"
    write_csv(tmp_path / "a.csv", ["time", "gpu_util"], {0: time, 1: values})

    found = made(tmp_path)

    assert noted(found, "1 times: text where numbers belong (first: 'error' in gpu_util)")
    assert len(found.baskets) == 10


def test_lines_that_do_not_fit_the_header_are_counted(tmp_path: Path) -> None:
    lines = ["time,gpu_util", *(f"{T0 + i * 0.1},{i % 50}" for i in range(100))]
    lines[20] += ",9,9"
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")

    found = made(tmp_path)

    assert noted(found, "1 times: lines with more or fewer fields than 2")
    assert found.report["rows"] == 99


def test_runs_of_three_rows_have_no_window(tmp_path: Path) -> None:
    reveal_table(rows=3).write_csv(tmp_path / "a.csv")
    reveal_table().write_csv(tmp_path / "b.csv")

    found = made(tmp_path)

    assert found.baskets.runs == ("b",)
    assert noted(found, "1 runs have no full window of 1 s")
    with pytest.raises(StewardError, match="no run has a full window"):
        made(tmp_path / "a.csv")


def test_time_that_goes_back_is_counted(tmp_path: Path) -> None:
    table = pl.concat([simple(), simple()])
    table.write_csv(tmp_path / "a.csv")

    found = made(tmp_path)

    assert noted(found, "1 times: times that go back within a run")
    assert len(found.baskets) == 10


def test_rows_without_a_time_are_counted(tmp_path: Path) -> None:
    table = simple().with_columns(t_s=pl.col("t_s").cast(pl.String))
    table[7, "t_s"] = "yesterday"
    table.write_csv(tmp_path / "a.csv")

    assert noted(made(tmp_path), "1 times: rows whose time cannot be read")


def test_a_metric_without_any_value_is_absent(tmp_path: Path) -> None:
    simple(**{"gpu.temperature_celsius": pl.Series([None] * 100, dtype=pl.Float64)}).write_parquet(
        tmp_path / "a.parquet"
    )

    found = made(tmp_path)

    assert "gpu_temp" in found.report["absent_groups"]
    assert "gpu_temp" not in found.baskets.groups


def test_constant_groups_are_left_out_and_named(tmp_path: Path) -> None:
    simple(**{"gpu.temperature_celsius": 40.0}).write_parquet(tmp_path / "a.parquet")

    found = made(tmp_path)

    assert found.report["constant_groups"] == ["gpu_temp"]
    assert "gpu_temp" not in found.baskets.groups
    assert noted(found, "one level everywhere: gpu_temp")


def test_one_class_and_missing_labels_are_said(tmp_path: Path) -> None:
    for name in ("train_a", "train_b", "other"):
        simple().write_parquet(tmp_path / f"{name}.parquet")

    found = made(tmp_path, label="^(train)_")

    assert noted(found, "all labelled runs are 'train'")
    assert noted(found, "1 of 3 runs have no label")


def test_many_distinct_labels_are_bounded(tmp_path: Path) -> None:
    runs = 50_000
    table = pl.DataFrame(
        {
            "run": np.repeat([f"r{i}" for i in range(runs)], 4),
            "t_s": T0 + np.arange(runs * 4) * 0.5,
            "gpu.busy_share": np.arange(runs * 4) % 3 / 2,
        }
    )
    table.write_parquet(tmp_path / "a.parquet")
    pl.DataFrame({"run": [f"r{i}" for i in range(runs)], "label": range(runs)}).write_csv(
        tmp_path / "l.csv"
    )

    found = made(tmp_path / "a.parquet", labels=tmp_path / "l.csv")

    assert len(found.baskets.runs) == runs
    assert noted(found, "50,000 different labels")
    assert len(str(found.report)) < 20_000


def test_empty_and_missing_folders_are_named(tmp_path: Path) -> None:
    for path, words in (
        (tmp_path, "no telemetry here"),
        (tmp_path / "x", "no such file or folder"),
    ):
        with pytest.raises(StewardError, match=words) as caught:
            made(path)
        assert caught.value.where == str(path)


def test_files_that_are_no_tables_are_left_out_and_named(tmp_path: Path) -> None:
    simple().write_csv(tmp_path / "good.csv")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "text.txt").write_text("hello\n")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1" + b"x" * 100)
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    (tmp_path / "long.csv").write_text("time,metric,value\n1,gpu_util,2\n")
    (tmp_path / "unknown.csv").write_text("time,foo\n1,2\n")

    found = made(tmp_path)

    assert found.baskets.runs == ("good",)
    assert found.report["skipped"]["files"] == 6
    with pytest.raises(StewardError, match="5 more files cannot be used"):
        made(*(path for path in sorted(tmp_path.iterdir()) if path.name != "good.csv"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"window_s": 0.0}, "windows cannot be 0 s"),
        ({"scope": "planet"}, "planet"),
        ({"statistics": ("mode",)}, "mode"),
        ({"only": ("gpu_utl",)}, "gpu_utl"),
        ({"label": "("}, "no expression"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    simple().write_parquet(tmp_path / "a.parquet")

    with pytest.raises(StewardError, match=words):
        made(tmp_path, **options)


def test_values_beyond_numbers_are_no_values(tmp_path: Path) -> None:
    table = simple().with_columns(
        pl.when(pl.int_range(pl.len()) < 30)
        .then(float("inf"))
        .otherwise(pl.col("gpu.power_watts"))
        .alias("gpu.power_watts")
    )
    table.write_parquet(tmp_path / "a.parquet")

    assert level(made(tmp_path).baskets, "gpu_power")[:3] == [None] * 3


def test_slow_samples_are_said(tmp_path: Path) -> None:
    rows = 40
    slow = {"t_s": T0 + np.arange(rows) * 15.0, "gpu.busy_share": np.arange(rows) / rows}
    pl.DataFrame(slow).write_csv(tmp_path / "a.csv")

    found = made(tmp_path)

    assert len(found.baskets) == rows
    assert noted(found, "samples come every 15 s")
