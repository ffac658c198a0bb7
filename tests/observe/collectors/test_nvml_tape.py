"""What a real H200 answered (`data/nvml-h200`) becomes numbers that such a GPU can have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from recorded_nvml import ReplayedNvml
from steward.clients.nvml import Driver, GpuRegistry
from steward.model.event import Observation
from steward.model.frame import Frame
from steward.model.metrics import aliases_from
from steward.observe.collectors.nvml import Nvml
from steward.observe.normalise import Normaliser

TAPE = Path(__file__).parents[2] / "data" / "nvml-h200" / "tape.json.gz"
TICKS, EVERY_S = 122, 0.5
REST, TRAINING = slice(2, 36), slice(56, 102)  # ticks


class Recorded:
    """The whole tape, read tick by tick as it was recorded."""

    def __init__(self) -> None:
        self.now_s = 0.0
        driver = Driver(ReplayedNvml(TAPE), plugged=Path("/nowhere"), clock=lambda: self.now_s)
        self.nvml = Nvml(node="n1", registry=GpuRegistry(driver), job_of_pid=lambda _pid: None)
        self.layout = self.nvml.layout()
        rows = []
        for tick in range(TICKS):
            self.now_s = tick * EVERY_S
            rows.append(np.full(self.layout.width, -1.0))
            self.nvml.sample(rows[-1])
        (block,) = self.layout.blocks
        self.names = block.names
        columns = dict(zip(block.names, np.array(rows).T, strict=True))
        times = {"t_s": np.arange(TICKS) * EVERY_S, "entity": [block.entity] * TICKS}
        self.raw: Frame = pl.DataFrame({**times, **columns}).fill_nan(None)
        self.end: Observation = self.nvml.collect(TICKS * EVERY_S)
        self.frame, self.events = Normaliser(source="nvml", vocabulary="nvml").normalise(self.raw)

    def mean(self, name: str, ticks: slice) -> float:
        return float(self.frame[name][ticks].mean())  # type: ignore[arg-type]  # of numbers


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    return Recorded()


def test_every_name_of_the_gpu_is_in_the_table(recorded: Recorded) -> None:
    assert set(recorded.names) <= set(aliases_from("nvml"))
    assert recorded.events == ()
    assert len(recorded.names) == 47


def test_every_value_is_known_sooner_or_later(recorded: Recorded) -> None:
    never = [n for n in recorded.frame.columns if recorded.frame[n].null_count() == TICKS]

    assert never == []


def test_the_gpu_reports_what_it_is(recorded: Recorded) -> None:
    assert recorded.end.cluster is not None
    ((gpu,),) = [node.gpus for node in recorded.end.cluster.nodes]

    assert (gpu.model.name, gpu.model.generation) == ("NVIDIA H200", "hopper")
    assert gpu.model.max_watts == 700.0
    assert recorded.nvml.available().status == "ok"
    assert "580.159.04" in recorded.nvml.available().reason


def test_shares_are_between_none_and_all(recorded: Recorded) -> None:
    shares = [name for name in recorded.frame.columns if name.endswith("_share")]

    assert len(shares) >= 15
    for name in shares:
        assert recorded.frame[name].is_between(0.0, 1.0).all(), name


def test_power_is_that_of_an_h200(recorded: Recorded) -> None:
    # A mean of a second may pass the limit a little, what is drawn at an instant by much more.
    assert recorded.frame["gpu.power_watts"].is_between(70.0, 720.0).all()
    assert recorded.mean("gpu.power_watts", REST) == pytest.approx(82.0, rel=0.02)
    assert recorded.mean("gpu.power_watts", TRAINING) == pytest.approx(693.0, rel=0.02)
    assert recorded.frame["gpu.power.limit_watts"].unique().to_list() == [700.0]


def test_the_energy_counter_agrees_with_power(recorded: Recorded) -> None:
    """It is read at the start, after 30 s and after 60 s; power is a mean that lags behind."""
    watts = recorded.frame["gpu.energy.mean_watts"]

    assert watts[:60].null_count() == 60
    assert recorded.mean("gpu.power_watts", slice(1, 61)) == pytest.approx(watts[60], rel=0.05)
    assert recorded.mean("gpu.power_watts", slice(61, 121)) == pytest.approx(watts[120], rel=0.05)


def test_memory_adds_up(recorded: Recorded) -> None:
    frame = recorded.frame
    parts = ["gpu.memory.used_bytes", "gpu.memory.free_bytes", "gpu.memory.reserved_bytes"]
    limit = frame["gpu.memory.limit_bytes"]

    assert limit.unique().to_list() == [143_771 * 2**20]  # 150.8 GB, as nvidia-smi shows it
    assert frame.select(pl.sum_horizontal(parts)).to_series().equals(limit, check_names=False)
    assert recorded.mean("gpu.memory.used_bytes", TRAINING) > 3e9


def test_training_is_seen_by_the_hardware_counters(recorded: Recorded) -> None:
    assert recorded.mean("gpu.sm.active_share", REST) == 0.0
    assert recorded.mean("gpu.sm.active_share", TRAINING) > 0.9
    assert recorded.mean("gpu.tensor.active_share", TRAINING) > 0.7
    assert recorded.mean("gpu.busy_share", TRAINING) > 0.95


def test_clocks_and_temperatures_are_in_our_units(recorded: Recorded) -> None:
    assert recorded.frame["gpu.clock.sm_hz"].is_between(3.45e8, 1.98e9).all()
    assert recorded.mean("gpu.clock.memory_hz", TRAINING) == 3.201e9
    assert recorded.frame["gpu.temperature_celsius"].is_between(25.0, 90.0).all()
    assert recorded.frame["gpu.memory.temperature_celsius"].is_between(25.0, 95.0).all()


def test_the_process_that_trained_is_found(recorded: Recorded) -> None:
    (row,) = recorded.end.frame.to_dicts()

    assert row["entity"].startswith("n1/gpu0@pid:")
    assert row["process.used_memory"] > 5e8
    assert 0.0 <= row["process.sm_util"] <= 100.0
