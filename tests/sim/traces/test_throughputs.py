from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from steward.errors import StewardError
from steward.sim.traces.throughputs import read_throughputs

SOLO = """worker_type,job_type,scale_factor,steps_per_s
k80,LM (batch size 5),1,1.5
v100,LM (batch size 5),1,6
v100,LM (batch size 5),2,9.5
v100_unconsolidated,LM (batch size 5),2,7.25
"""
PAIRS = """worker_type,job_type_a,scale_factor_a,job_type_b,scale_factor_b,\
steps_per_s_a,steps_per_s_b
v100,LM (batch size 5),1,LM (batch size 5),1,4,4
v100_unconsolidated,LM (batch size 5),2,LM (batch size 5),2,3,3
"""


def folder(path: Path, **files: str) -> Path:
    for name, text in files.items():
        with gzip.open(path / f"throughputs_{name}.csv.gz", "wt", encoding="utf-8") as file:
            file.write(text)
    return path


def test_rates_alone_spread_out_and_in_pairs_are_read(tmp_path: Path) -> None:
    table = read_throughputs(folder(tmp_path, solo=SOLO, pairs=PAIRS))

    assert table.types == ("k80", "v100")
    assert table.reference == "v100"
    assert table.solo[0].tolist() == [1.5, 6.0]
    assert table.spread[1, 1] == 7.25
    assert table.pairs[1, 0, 0] == 4.0
    assert np.isnan(table.pairs[1, 1, 1])


def test_a_folder_without_pairs_has_none(tmp_path: Path) -> None:
    table = read_throughputs(folder(tmp_path, solo=SOLO))

    assert np.isnan(table.pairs).all()


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "the table of rates is not there"),
        ({"solo": "worker_type,job_type\nv100,LM\n"}, "lacks scale_factor, steps_per_s"),
        ({"solo": SOLO.replace("v100", "p100")}, "has no rates for v100; there are: k80, p100"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, files: dict[str, str], words: str) -> None:
    with pytest.raises(StewardError, match=words):
        read_throughputs(folder(tmp_path, **files))
