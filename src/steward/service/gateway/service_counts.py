"""What the gateway counts for decisions: tokens by tenant, rates by upstream, prompts seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from steward.model.serving.token_counters import TokenCounters
from steward.model.serving.view import InstanceRates, ServingView
from steward.service.gateway.instances import Instances
from steward.service.gateway.live_view import LiveView
from steward.service.gateway.prefix_index import PrefixIndex, prompt_blocks
from steward.service.gateway.ticket import Ticket
from steward.service.gateway.upstream import Upstream

__all__ = ["ServiceCounts"]

_WINDOW_S = 10.0  # of rates
_NO_RATES = (float("nan"), 0.0, 0.0)


class ServiceCounts:
    """Fills `served_tokens`, `rates` and `prefixes` of views."""

    def __init__(self, view: LiveView, instances: Instances, prefixes: PrefixIndex) -> None:
        self._view = view
        self._instances = instances
        self.prefixes = prefixes
        self._counters = TokenCounters(len(view.classes), 0)
        self._rates: dict[str, tuple[float, float, float]] = {}
        self._counted: dict[str, tuple[int, float, int]] = {}
        self._window_s = 0.0
        self._since_s: float | None = None

    def arrive(self, ticket: Ticket, tenant: int) -> None:
        """Count a request in; its prompt is hashed only where there is a choice of upstreams."""
        self._counters.grow(len(self._view.classes), len(self._view.tenants))
        self._counters.arrive(ticket.code, tenant)
        ticket.tenant = tenant
        if len(self._instances.upstreams) > 1:
            ticket.blocks = prompt_blocks(ticket.call.body)

    def send(self, ticket: Ticket, upstream: Upstream) -> None:
        """Count a prompt as computed."""
        self._counters.serve(ticket.code, ticket.tenant, prompt=ticket.prompt_tokens)
        self.prefixes.sent(ticket, upstream)

    def tokens(self, ticket: Ticket, tokens: int) -> None:
        """Count tokens of an answer; below zero takes back what was counted too much."""
        self._counters.serve(ticket.code, ticket.tenant, output=tokens)

    def leave(self, ticket: Ticket) -> None:
        """Count a request out."""
        self._counters.leave(ticket.code, ticket.tenant)

    def tick(self, now_s: float, upstreams: Sequence[Upstream]) -> bool:
        """Bring the rates up to date; return whether a window is over."""
        if self._since_s is None:
            self._since_s = now_s
            self._counted = _counts(upstreams)
        self._window_s = now_s - self._since_s
        if self._window_s < _WINDOW_S:
            return False
        self._since_s = now_s
        before, self._counted = self._counted, _counts(upstreams)
        self._rates = {
            each.name: self._rate(each.name, before.get(each.name, self._counted[each.name]))
            for each in upstreams
        }
        self.prefixes.keep({each.name for each in upstreams})
        return True

    def _rate(self, name: str, before: tuple[int, float, int]) -> tuple[float, float, float]:
        now = self._counted[name]
        gaps = now[2] - before[2]
        itl_s = (now[1] - before[1]) / gaps if gaps > 0 else float("nan")
        tokens_per_s = max(0, now[0] - before[0]) / self._window_s
        return itl_s, tokens_per_s, self._rates.get(name, _NO_RATES)[1]

    def add_to(self, view: ServingView) -> ServingView:
        """Return the view with what is known."""
        return replace(
            view,
            served_tokens=self._counters.served if self._view.tenants else None,
            rates=self._by_row() if self._rates else None,
            prefixes=self.prefixes if self.prefixes else None,
        )

    def _by_row(self) -> InstanceRates:
        names = [each.name for each in self._instances.by_row]
        rows = np.array([self._rates.get(name, _NO_RATES) for name in names]).reshape(-1, 3)
        return InstanceRates(
            window_s=_WINDOW_S,
            itl_s=rows[:, 0],
            tokens_per_s=rows[:, 1],
            tokens_per_s_before=rows[:, 2],
        )


def _counts(upstreams: Sequence[Upstream]) -> dict[str, tuple[int, float, int]]:
    return {each.name: (each.tokens, each.between_s, each.gaps) for each in upstreams}
