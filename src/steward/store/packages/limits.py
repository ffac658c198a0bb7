"""Size limits of packages: rules and their logs are small, larger ones are hostile."""

from __future__ import annotations

__all__ = [
    "MOST_FILES",
    "MOST_FILE_BYTES",
    "MOST_MANIFEST_BYTES",
    "MOST_PACKED_BYTES",
    "MOST_RATIO",
    "MOST_TOTAL_BYTES",
]

MOST_PACKED_BYTES = 64 * 2**20
MOST_TOTAL_BYTES = 256 * 2**20  # unpacked
MOST_FILE_BYTES = 64 * 2**20
MOST_MANIFEST_BYTES = 8 * 2**20
MOST_FILES = 10_000
MOST_RATIO = 200  # of unpacked to packed; logs reach 20, repeated zeros 1000
