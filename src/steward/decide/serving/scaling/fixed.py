"""As many instances as there were at the start."""

from __future__ import annotations

from dataclasses import dataclass

from steward.model.serving.view import Scaling, ServingView

__all__ = ["Fixed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """The instances that there are: none starts, none goes away."""

    every_s: float = 60.0
    name: str = "fixed"

    def scale(self, view: ServingView) -> Scaling:
        del view
        return Scaling()
