"""The instance with the emptiest KV cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from steward.decide.serving.assignment import placed
from steward.model.serving.view import Dispatch, ServingView

__all__ = ["LeastLoaded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastLoaded:
    """One queue by arrival; each request goes to the instance with the smallest used KV share."""

    name: str = "least-loaded"

    def dispatch(self, view: ServingView) -> Dispatch:
        return placed(view, _emptiest)


def _emptiest(view: ServingView, request: int, choices: Sequence[int]) -> int:
    del request
    instances = view.instances
    return min(
        choices,
        key=lambda row: instances.kv_tokens[row] / view.types[int(instances.type[row])].kv_tokens,
    )
