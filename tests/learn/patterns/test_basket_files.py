"""Baskets survive a file, and a wrong file is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.errors import StewardError
from steward.learn.patterns.basket_files import (
    is_baskets_file,
    read_about,
    read_baskets,
    write_baskets,
)
from steward.learn.patterns.baskets import ABSENT, Baskets


def some(levels: list[list[int]], *, labels: tuple[str, ...] = ("train", "infer")) -> Baskets:
    table = np.array(levels, np.uint8).reshape(-1, 2)
    return Baskets(
        groups=("gpu_util", "power"),
        level_names=(("zero", "low", "high"), ("low", "high")),
        levels=table,
        runs=("r1", "r2"),
        run=np.arange(len(table), dtype=np.int32) % 2,
        start_s=np.arange(len(table)) * 5.0,
        window_s=5.0,
        labels=labels,
    )


def same(one: Baskets, other: Baskets) -> bool:
    fields = ("groups", "level_names", "runs", "window_s", "labels")
    arrays = ("levels", "run", "start_s")
    return all(getattr(one, name) == getattr(other, name) for name in fields) and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays
    )


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([0, 1, 2, ABSENT]), st.sampled_from([0, 1, ABSENT]))),
    st.sampled_from([(), ("train", "infer")]),
)
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory,
    levels: list[tuple[int, int]],
    labels: tuple[str, ...],
) -> None:
    path = tmp_path_factory.mktemp("b") / "baskets.parquet"
    baskets = some([[*each] for each in levels], labels=labels)

    write_baskets(baskets, path, about={"rows": 3})

    assert same(read_baskets(path), baskets)
    assert read_about(path) == {"rows": 3}
    assert is_baskets_file(path)


def test_other_tools_read_the_names_of_levels(tmp_path: Path) -> None:
    path = tmp_path / "baskets.parquet"

    write_baskets(some([[2, 0], [ABSENT, 1]]), path)

    table = pl.read_parquet(path)
    assert table["gpu_util"].to_list() == ["high", None]
    assert table["_run_name"].to_list() == ["r1", "r2"]


def test_raw_telemetry_is_no_baskets_file(tmp_path: Path) -> None:
    path = tmp_path / "raw.parquet"
    pl.DataFrame({"t_s": [1.0]}).write_parquet(path)

    assert not is_baskets_file(path)
    with pytest.raises(StewardError, match="holds no baskets"):
        read_baskets(path)


def test_a_broken_and_a_missing_file_are_named(tmp_path: Path) -> None:
    path = tmp_path / "baskets.parquet"
    write_baskets(some([[2, 0]]), path)
    path.write_bytes(path.read_bytes()[:-9])

    with pytest.raises(StewardError, match="broken") as broken:
        read_baskets(path)
    with pytest.raises(StewardError, match="no such file"):
        read_baskets(tmp_path / "none.parquet")

    assert broken.value.where == str(path)


def test_groups_of_one_name_are_refused(tmp_path: Path) -> None:
    twice = Baskets(
        groups=("_a", "b", "b"),
        level_names=(("x", "x"), (), ()),
        levels=np.zeros((0, 3), np.uint8),
        runs=(),
        run=np.zeros(0, np.int32),
        start_s=np.zeros(0),
        window_s=1.0,
    )

    with pytest.raises(StewardError) as caught:
        write_baskets(twice, tmp_path / "b.parquet")

    assert "begins with _" in caught.value.problem
    assert "two groups are called 'b'" in caught.value.problem
    assert "two levels of one name" in caught.value.problem
