"""Columns of files by their names, with or without the device in front."""

from __future__ import annotations

import pytest

from steward.model.metrics.columns import TRIED, ColumnNames


@pytest.mark.parametrize(
    ("name", "metric", "device", "scale"),
    [
        ("gpu.busy_share", "gpu.busy_share", "", 1.0),
        ("gpu0_power_w", "gpu.power_watts", "gpu0", 1.0),
        ("GPU3:util", "gpu.busy_share", "gpu3", 0.01),
        ("gpu4_what", None, "gpu4", 1.0),
        ("[gpu2] DCGM_FI_DEV_GPU_UTIL", "gpu.busy_share", "gpu2", 0.01),
        ("cpu12.busy_share", "cpu.busy_share", "cpu12", 1.0),
        ("mine", "gpu.power_watts", "", 2.0),
        ("gpu1_mine", "gpu.power_watts", "gpu1", 2.0),
        ("what", None, "", 1.0),
    ],
)
def test_a_column_is_a_metric_of_a_device(
    name: str, metric: str | None, device: str, scale: float
) -> None:
    names = ColumnNames(TRIED, {"mine": ("gpu.power_watts", 2.0)})

    column = names.column(name)

    assert (column.metric.name if column.metric else None) == metric
    assert (column.device, column.scale) == (device, scale)
