"""Leave traffic alone."""

from __future__ import annotations

from dataclasses import dataclass

from steward.model.decision import Decision
from steward.model.fabric.view import FabricView

__all__ = ["NoCaps"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoCaps:
    """What the fabric does by itself: the rival to beat."""

    name: str = "none"

    def decide(self, _: FabricView) -> tuple[Decision, ...]:
        """Return nothing."""
        return ()
