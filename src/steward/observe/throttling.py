"""Texts of NVML's clock throttle reasons, for display."""

from __future__ import annotations

__all__ = ["REASONS", "throttle_reasons"]

# Resting, chosen clocks and keeping step with others are no trouble; the rest is.
REASONS = {
    0x004: "power cap",
    0x008: "hardware slowdown",
    0x020: "heat",
    0x040: "heat (hardware)",
    0x080: "power brake",
}


def throttle_reasons(bits: float) -> tuple[str, ...]:
    """Return the reasons that cost speed.

    >>> throttle_reasons(0x1), throttle_reasons(0x25)
    ((), ('power cap', 'heat'))
    """
    return tuple(text for bit, text in REASONS.items() if int(bits) & bit)
