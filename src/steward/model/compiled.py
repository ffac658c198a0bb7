"""Moved to `steward.compiled`."""

from steward.compiled import njit, reference_to

__all__ = ["njit", "reference_to"]
