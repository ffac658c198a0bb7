"""Types of GPUs by their data sheets: memory, bandwidth, peak rates, power and link rate."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from steward.errors import unknown_name

__all__ = ["GpuType", "gpu_type", "gpu_types"]

_TERA, _GIGA = 1e12, 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuType:
    """What a data sheet says of a GPU; `low` is bfloat16, or float16 where there is no other."""

    name: str
    vendor: str
    memory_bytes: int
    memory_bytes_s: float
    fp32_flops: float
    tf32_flops: float
    low_flops: float
    power_watts: float
    link_bytes_s: float

    @property
    def rates(self) -> tuple[float, float, float, float]:
        """Return the rates that features are divided by: low, TF32, float32, memory."""
        return self.low_flops, self.tf32_flops, self.fp32_flops, self.memory_bytes_s


@cache
def gpu_types() -> dict[str, GpuType]:
    """Return every type by its name."""
    table = json.loads((files(__package__) / "gpu_types.json").read_text(encoding="utf-8"))
    found = {}
    for row in table["rows"]:
        each = dict(zip(table["columns"], row, strict=True))
        found[each["name"]] = GpuType(
            name=each["name"],
            vendor=each["vendor"],
            memory_bytes=int(each["memory_mib"]) << 20,
            memory_bytes_s=each["memory_gb_s"] * _GIGA,
            fp32_flops=each["fp32_tflops"] * _TERA,
            tf32_flops=each["tf32_tflops"] * _TERA,
            low_flops=each["low_tflops"] * _TERA,
            power_watts=each["power_w"],
            link_bytes_s=each["link_gb_s"] * _GIGA,
        )
    return found


def gpu_type(name: str, *, where: str = "gpu") -> GpuType:
    """Return a type by its name, or by what a driver or a cloud calls it.

    >>> gpu_type("NVIDIA A100-SXM4-40GB").name, gpu_type("Tesla T4").name
    ('a100-40', 't4')
    """
    known = gpu_types()
    plain = re.sub(r"nvidia|tesla|geforce|amd|instinct|amphere|[^a-z0-9]", "", name.lower())
    for each in known:
        if plain == each.replace("-", ""):
            return known[each]
    for pattern, short in _SPELLINGS:
        if re.fullmatch(pattern, plain):
            return known[short]
    raise unknown_name("GPU type", name, known, where=where)


_SPELLINGS = (
    (r"h200(sxm5?)?(141gb)?(hbm3e)?", "h200"),
    (r"h100(sxm5?)?(80gb)?(hbm3)?", "h100"),
    (r"h100pcie(80gb)?|h10080gbpcie", "h100-pcie"),
    (r"a100(sxm4?)?(80gb)?", "a100-80"),
    (r"a100(sxm4?)?40gb", "a100-40"),
    (r"a100pcie80gb|a10080gbpcie", "a100-80-pcie"),
    (r"a100pcie40gb|a10040gbpcie|a100pcie", "a100-40-pcie"),
    (r"v100pcie32gb", "v100-32-pcie"),
    (r"v100(pcie|pcie16gb)", "v100-16-pcie"),
    (r"v100(sxm2?)?32gb", "v100-32"),
    (r"v100(sxm2?)?(16gb)?", "v100-16"),
    (r"p100(pcie)?(16gb)?", "p100"),
    (r"rtxa6000", "a6000"),
    (r"rtxa5000", "a5000"),
    (r"rtx6000adageneration", "rtx6000ada"),
    (r"b200(sxm)?(180gb)?", "b200"),
)
