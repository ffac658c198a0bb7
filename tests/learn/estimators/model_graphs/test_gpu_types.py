"""GPU types by their data sheets."""

from __future__ import annotations

import pytest

from steward.errors import StewardError
from steward.learn.estimators.model_graphs.gpu_types import gpu_type, gpu_types


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("NVIDIA A100-SXM4-40GB", "a100-40"),
        ("NVIDIA_A100_80GB_PCIe", "a100-80-pcie"),
        ("NVIDIA_H100_80GB_HBM3", "h100"),
        ("Tesla V100-PCIE-32GB", "v100-32-pcie"),
        ("AMD_Instinct_MI210", "mi210"),
        ("H200", "h200"),
    ],
)
def test_a_type_is_found_by_what_a_driver_calls_it(said: str, name: str) -> None:
    assert gpu_type(said).name == name


def test_each_type_is_found_by_its_own_name_and_has_all_its_rates() -> None:
    for name, found in gpu_types().items():
        assert gpu_type(name) is found
        assert min(*found.rates, found.memory_bytes, found.power_watts, found.link_bytes_s) > 0
        assert found.low_flops >= found.fp32_flops


def test_an_unknown_type_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(StewardError) as fault:
        gpu_type("h2000")

    assert "h200" in fault.value.hint
