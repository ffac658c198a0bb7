"""Every placement has a description for people."""

from __future__ import annotations

from steward.decide.placement import DESCRIPTIONS, PLACEMENTS


def test_every_placement_is_described_in_a_line() -> None:
    assert set(DESCRIPTIONS) == set(PLACEMENTS.values())
    assert all(0 < len(text) < 90 for text in DESCRIPTIONS.values())
