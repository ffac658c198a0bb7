"""How bad the error codes of NVLink's switches are, after NVIDIA's public catalogue."""

from __future__ import annotations

from collections.abc import Mapping

from steward.model.faults.remedies import Remedy

__all__ = ["SXIDS"]

_ALWAYS = (10_003, 12_020, 22_003, 22_011, *range(23_001, 23_018))
_MAYBE = (
    10_001, 10_002, 10_004, 10_005, 11_001, 11_009, 11_013, 11_018, 11_019, 11_020, 12_001, 12_002,
    12_022, *range(12_024, 12_028), *range(12_030, 12_033), 14_017, 15_001, 15_006, 15_009, 15_010,
    15_012, 15_013, 19_047, 19_048, 19_054, 19_056, 19_058, 19_060, 19_061, 19_063, 19_064, 19_066,
    19_067, 19_069, 19_070, 20_034, 22_012, *range(24_004, 24_008),
)  # fmt: skip
_NEVER = (
    11_004, 11_012, *range(11_021, 11_024), 12_021, 12_023, 12_028, 15_008, 15_011, 19_049, 19_055,
    19_057, 19_059, 19_062, 19_065, 19_068, 19_071, 19_084, 20_001, 20_009, 20_012, 22_013,
    *range(24_001, 24_004),
)  # fmt: skip

# What is fatal for all GPUs of the switch needs the node; the line itself says it of the others.
SXIDS: Mapping[int, Remedy] = {
    **dict.fromkeys(_ALWAYS, Remedy.REBOOT_NODE),
    **dict.fromkeys(_MAYBE, Remedy.RESET_GPU),
    **dict.fromkeys(_NEVER, Remedy.WATCH),
}
