"""What open decisions are about: jobs, GPUs, nodes, and the nodes of GPUs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from steward.model.actions import Action
from steward.model.decision import Decision
from steward.model.frame import steps_of
from steward.model.identity import DecisionId

__all__ = ["ClaimIndex", "claims_node", "nodes_of"]


class ClaimIndex:
    """Finds the decisions that are about the same thing."""

    def __init__(self, decisions: Iterable[tuple[Decision, frozenset[str]]]) -> None:
        """Index decisions, each with the claims that it gives up if another wants them."""
        self._claims: defaultdict[str, set[DecisionId]] = defaultdict(set)
        self._nodes: defaultdict[str, set[DecisionId]] = defaultdict(set)
        self._yielded: defaultdict[str, set[DecisionId]] = defaultdict(set)
        for decision, yields in decisions:
            self.add(decision, yields)

    def add(self, decision: Decision, yields: frozenset[str] = frozenset()) -> None:
        """Add a decision with the claims that it gives up if another wants them."""
        for claim in decision.action.claims - yields:
            self._claims[claim].add(decision.id)
        for node in nodes_of(decision.action) - yields:
            self._nodes[node].add(decision.id)
        for claim in yields:
            self._yielded[claim].add(decision.id)

    def discard(self, decision: Decision) -> None:
        """Remove a decision that is closed."""
        for claim in decision.action.claims | nodes_of(decision.action):
            for index in (self._claims, self._nodes, self._yielded):
                index[claim].discard(decision.id)

    def yielding_to(self, decision: Decision) -> set[DecisionId]:
        """Return the decisions that would give up what this one is about."""
        found = [self._yielded.get(each, set()) for each in decision.action.claims]
        return set().union(*found) - {decision.id}

    def rivals(self, decision: Decision) -> set[DecisionId]:
        """Return the decisions about the same job or GPU, or about a node with its GPUs."""
        claims = decision.action.claims
        found = [self._claims.get(each, set()) for each in claims | nodes_of(decision.action)]
        found += [self._nodes.get(each, set()) for each in claims]
        return set().union(*found) - {decision.id}


def nodes_of(action: Action) -> frozenset[str]:
    """Return the claims on the nodes of an action's GPUs."""
    return frozenset(f"node:{steps_of(gpu)[0]}" for gpu in action.gpus)


def claims_node(action: Action) -> bool:
    """Return whether an action is about a whole node."""
    return any(claim.startswith("node:") for claim in action.claims)
