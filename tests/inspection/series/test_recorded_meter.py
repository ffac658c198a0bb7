from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from steward.inspection.series.recorded_meter import RecordedMeter
from steward.store.telemetry import Telemetry

GPU = "n1/gpu0"
ABOUT = (GPU, "job:j1", "n1")


@pytest.fixture
def meter(tmp_path: Path) -> Iterator[RecordedMeter]:
    """Return a meter over 1,000 s: the GPU idles until 500, and its neighbour is always busy."""
    telemetry = Telemetry(tmp_path)
    t_s = np.arange(0.0, 1000.0, 10.0)
    values = np.where(t_s < 500, 0.1, 0.7) + 0.02 * np.sin(t_s)
    for entity, column in ((GPU, values), ("n1/gpu1", np.full(100, 0.9))):
        frame = {"t_s": t_s, "entity": [entity] * 100, "gpu.busy_share": column}
        telemetry.append(pl.DataFrame(frame))
    yield RecordedMeter(telemetry)
    telemetry.close()


def test_the_mean_is_that_of_the_first_entity_in_that_time(meter: RecordedMeter) -> None:
    before = meter.mean("gpu_busy_share", ABOUT, from_s=0.0, to_s=499.0)
    after = meter.mean("gpu_busy_share", ABOUT, from_s=500.0, to_s=999.0)

    assert before is not None
    assert after is not None
    assert before.mid == pytest.approx(0.1, abs=0.01)
    assert after.mid == pytest.approx(0.7, abs=0.01)
    assert before.low < before.mid < before.high < after.low


def test_who_holds_a_gpu_can_be_asked_for(meter: RecordedMeter) -> None:
    mine = meter.mean('gpu_busy_share{job_id="j1"}', ABOUT, from_s=0.0, to_s=99.0)
    others = meter.mean('gpu_busy_share{job_id="j2"}', ABOUT, from_s=0.0, to_s=99.0)

    assert mine is not None
    assert others is None


def test_where_nothing_is_said_of_the_first_the_others_count(meter: RecordedMeter) -> None:
    found = meter.mean("gpu_busy_share", ("job:j1", "n1/gpu1"), from_s=0.0, to_s=99.0)

    assert found is not None
    assert (found.low, found.mid, found.high) == (0.9, 0.9, 0.9)


@pytest.mark.parametrize("expr", ["gpu_busy_share <", "no_such_metric", "gpu_power_watts"])
def test_what_cannot_be_measured_is_unknown(meter: RecordedMeter, expr: str) -> None:
    assert meter.mean(expr, ABOUT, from_s=0.0, to_s=99.0) is None
    assert meter.holds(expr, ABOUT, t_s=99.0) is None


@pytest.mark.parametrize(("t_s", "holds"), [(400.0, True), (900.0, False), (5000.0, None)])
def test_a_condition_is_told_from_fresh_samples(
    meter: RecordedMeter, t_s: float, *, holds: bool | None
) -> None:
    assert meter.holds("gpu_busy_share < 0.3", ABOUT, t_s=t_s) is holds


def test_two_samples_are_enough_for_a_mean(meter: RecordedMeter) -> None:
    found = meter.mean("gpu_busy_share", ABOUT, from_s=0.0, to_s=10.0)

    assert found is not None
    assert found.low < found.mid < found.high
