"""`steward learn baskets` and `quality` on tables and recorded folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from steward.learn.patterns.basket_files import read_about, read_baskets
from telemetry_tables import GPU, POWER, reveal_table, write_csv, write_reveal
from told import steward

HOST = "htc-g003"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    for i, kind in enumerate(("train", "infer")):
        name = f"{kind}_VGG16forImages_c10_2025-01-0{i + 1}T00-00-00_{HOST}.txt"
        write_reveal(folder / name, reveal_table(seed=i))
    return folder


def test_baskets_are_written_with_their_report(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "b.parquet"

    said = steward("learn", "baskets", runs, "--window", "1s", "--out", out, "--json")

    assert said.code == 0
    report = said.json
    assert (report["windows"], report["runs"], report["files"]) == (120, 2, 2)
    (util,) = [each for each in report["cuts"] if each["group"] == "gpu_util"]
    assert util["levels"] == ["zero", "high"]
    assert "exactly 0" in util["why"]
    assert read_baskets(out).labels == ("infer", "train")
    assert read_about(out)["cuts"] == report["cuts"]


def test_a_person_sees_groups_cuts_and_sizes(runs: Path) -> None:
    said = steward("learn", "baskets", runs, "--window", "1s", "--sensitivity", "500ms,5s")

    assert said.code == 0
    assert "120 windows of 1 s from 2 runs in 2 files" in said.out
    assert "gpu_power  low medium high" in said.out
    assert "by the size of windows" in said.out
    assert "0.5 s" in said.out


def test_the_json_has_the_sensitivity(runs: Path) -> None:
    said = steward("learn", "baskets", runs, "--window", "1s", "--sensitivity", "5s", "--json")

    assert [each["window_s"] for each in said.json["sensitivity"]] == [1.0, 5.0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--window", "soon"], "'soon' is no time"),
        (["--window", "0s"], "windows cannot be 0 s"),
        (["--scope", "planet"], "planet"),
        (["--only", "gpu_utl"], "gpu_utl"),
    ],
)
def test_wrong_use_is_named(runs: Path, options: list[str], words: str) -> None:
    said = steward("learn", "baskets", runs, *options)

    assert said.code == 2
    assert words in said.err


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    said = steward("learn", "baskets", tmp_path / "none")

    assert said.code == 2
    assert "there is no such file or folder" in said.err


def test_quality_names_what_is_wrong_with_tables(tmp_path: Path) -> None:
    time = [1_700_000_000.0 + i * 0.1 for i in range(200)]
    rng = np.random.default_rng(0)
    table = reveal_table(rows=200)
    columns = table.columns
    clean = {i: table[name].to_list() for i, name in enumerate(columns)}
    names = [*columns, f"{POWER}.{HOST}[W]", f"GPU: fan.speed.0.{HOST}[%]", "temp"]
    values: dict[int, list[object]] = {**clean, 0: [*time]}
    values[len(columns)] = [1.0] * 200
    values[len(columns) + 1] = [""] * 200
    values[len(columns) + 2] = [*(rng.normal(size=199)), "hot"]
    write_csv(tmp_path / "a.csv", names, values)

    said = steward("learn", "quality", tmp_path, "--json")

    assert said.code == 1
    kinds = {(flaw["kind"], flaw["metric"]) for flaw in said.json["flaws"]}
    assert ("missing", "gpu.fan.speed_share") in kinds
    notes = " ".join(said.json["notes"])
    assert "columns that are there twice" in notes
    assert "'hot' in temp" in notes


def test_quality_finds_units_that_differ_by_host(tmp_path: Path) -> None:
    for host, factor in (("n1", 1.0), ("n2", 1.0), ("n3", 1000.0)):
        power = f"{POWER}.{host}[W]"
        table = reveal_table(host=host, rows=200).with_columns(pl.col(power) * factor)
        table.write_parquet(tmp_path / f"{host}.parquet")

    said = steward("learn", "quality", tmp_path, "--json")

    assert any(
        flaw["metric"] == "gpu.power_watts" and "1000" in flaw["meaning"] + flaw["hint"]
        for flaw in said.json["flaws"]
    )


def test_quality_of_clean_tables_is_good(runs: Path) -> None:
    said = steward("learn", "quality", runs)

    assert said.code == 0
    assert "nothing is wrong" in said.err
    assert GPU not in said.out
