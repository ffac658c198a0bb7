import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.errors import StewardError
from steward.sim.shapes import GPU_USE, HOST_USE, STEP_S, measured_shapes

SHAPES = measured_shapes()
ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("STEWARD_DATA", ROOT.parent / "shared" / "data"))


def host_means(name: str, window_s: float = 10.0) -> np.ndarray:
    """Return cores, read and write rates of a shape over every window of that length."""
    begins = np.arange(0.0, 60.0, STEP_S)
    shape = np.full(len(begins), SHAPES.code(name))
    whole = SHAPES.integral(shape, begins + window_s, HOST_USE)
    return (whole - SHAPES.integral(shape, begins, HOST_USE)) / window_s


def test_an_idle_job_keeps_less_than_a_tenth_of_a_core_busy_and_touches_no_disk() -> None:
    cores, read, write = host_means("idle_allocated").T

    assert cores.max() < 0.1 / 8  # eight processes of a gang stay below a tenth together
    assert read.max() == write.max() == 0.0
    assert SHAPES.demand[SHAPES.code("idle_allocated")] == 0.0


@pytest.mark.parametrize("name", ["compile", "dataset_load"])
def test_a_legitimate_quiet_phase_keeps_a_core_busy(name: str) -> None:
    cores = host_means(name)[:, 0]

    assert cores.min() > 0.9
    assert cores.mean() >= 1.0
    assert SHAPES.demand[SHAPES.code(name)] < 0.05


def test_a_checkpoint_writes_hundreds_of_megabytes_a_second() -> None:
    write = host_means("checkpoint")[:, 2]

    assert write.min() > 300e6


def test_training_keeps_a_gpu_busy() -> None:
    demand = SHAPES.demand[list(SHAPES.codes("train."))]

    assert len(demand) >= 8
    assert demand.min() > 0.25
    assert np.median(demand) > 0.9


@given(
    name=st.sampled_from(SHAPES.names),
    cells=st.tuples(st.integers(0, 3000), st.integers(0, 600)),
    part=st.floats(0.0, 1.0),
)
def test_the_integral_is_the_sum_of_the_values(
    name: str, cells: tuple[int, int], part: float
) -> None:
    first, count = cells
    middles = (first + np.arange(count + 1) + 0.5) * STEP_S
    weights = np.append(np.ones(count), part)  # the last cell counts in part
    shape = np.full(len(middles), SHAPES.code(name))
    summed = (SHAPES.value(shape, middles, GPU_USE) * weights[:, None]).sum(axis=0) * STEP_S

    ends_s = np.array([first, first + count + part]) * STEP_S
    before, after = SHAPES.integral(np.repeat(shape[:1], 2), ends_s, GPU_USE)

    assert after - before == pytest.approx(summed, abs=1e-6)


def test_a_shape_that_ends_begins_anew() -> None:
    shape = np.array([SHAPES.code("compile")])
    once_s = SHAPES.length[shape] * STEP_S

    first = SHAPES.value(shape, np.array([3.05]), HOST_USE)
    again = SHAPES.value(shape, 3.05 + 7 * once_s, HOST_USE)
    whole = SHAPES.integral(shape, 7 * once_s, HOST_USE)

    assert first == pytest.approx(again)
    assert whole == pytest.approx(7 * SHAPES.totals[shape, HOST_USE])


def test_an_unknown_shape_is_named_with_the_known_ones() -> None:
    with pytest.raises(StewardError, match="no shape called 'compil'"):
        SHAPES.code("compil")


def test_the_shapes_that_come_with_steward_are_small() -> None:
    with files("steward.sim").joinpath("shapes.parquet").open("rb") as file:
        assert len(file.read()) < 200_000


@pytest.mark.data
def test_the_committed_shapes_are_what_the_script_makes(tmp_path: Path) -> None:
    output = tmp_path / "shapes.parquet"
    script = ROOT / "scripts" / "make_shapes.py"

    subprocess.run([sys.executable, script, DATA / "h200", output], check=True)

    made = pl.read_parquet(output)
    committed = ROOT / "src" / "steward" / "sim" / "shapes.parquet"
    assert made.equals(pl.read_parquet(committed))
