"""What moving pages earns, by budget, threshold and context: the bandit's state.

A decision is followed for some epochs: its reward is the stall that the pages it promoted saved
while they were near, less what the demoted ones cost while they were far and what the moves cost,
as a share of the stall of that time. What the rule itself predicts is part of the context, and the
prior is that it is right. Posterior and draws are those of `learn/outcomes/thompson.py`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.learn.estimators.pages.arrivals import PageArrivals
from steward.learn.estimators.pages.reuse import PageReuse
from steward.learn.outcomes.thompson import ArmPosterior, rng_of
from steward.model.memory.ranking import ARMS, move_cost_s, moves_of, net_s, rank
from steward.model.memory.view import ArmBeliefs, MemoryForecasts, MemoryView, Moves

__all__ = ["CONTEXT", "PageMigration"]

Floats = NDArray[np.float64]
CONTEXT = ("rule", "one", "load", "latency", "ping-pong")
_NONE = -1


@dataclass(slots=True, kw_only=True)
class _Open:
    """A decision whose reward is not known yet."""

    epoch: int
    arm: int
    context: Floats
    net_s: float
    room: int  # made for new pages, and not taken yet
    stall_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class PageMigration:
    """Linear Thompson sampling with forgetting over `ARMS`; the first arm, nothing, earns 0."""

    window: int = 24  # epochs that a decision is followed
    fade: float = 0.99
    prior: float = 4.0
    seed: int = 0
    name: str = "page-migration"
    state_version: int = 1
    reuse: PageReuse = field(default_factory=PageReuse)
    arrivals: PageArrivals = field(default_factory=PageArrivals)
    _arms: list[ArmPosterior] = field(init=False)
    _open: deque[_Open] = field(default_factory=deque)
    _by: NDArray[np.int64] = field(init=False)  # epoch of the decision that moved a page last
    _contexts: Floats = field(init=False)
    saved_s: float = 0.0  # by what was moved so far, less what it cost

    def __post_init__(self) -> None:
        self._arms = [self._fresh() for _ in ARMS]
        self._by = np.zeros(0, np.int64)
        self._contexts = np.zeros((len(ARMS), len(CONTEXT)))

    def _fresh(self) -> ArmPosterior:
        return ArmPosterior(
            size=len(CONTEXT), fade=self.fade, prior=self.prior, squares=0.01, seen=1.0
        )

    # -- learning ------------------------------------------------------------------------------

    def learn(self, view: MemoryView) -> None:
        """Take in one epoch: credit the decisions whose pages were accessed, close old ones."""
        self.reuse.learn(view)
        if len(self._by) != len(view.tier):
            self._by = np.full(len(view.tier), _NONE, np.int64)
            self._open.clear()
        new = self.arrivals.learn(view, self.reuse.expected(len(view.tier)))
        self._give_room(view, new)
        self._credit(view)
        while self._open and view.epoch - self._open[0].epoch >= self.window:
            self._close(self._open.popleft())

    def _give_room(self, view: MemoryView, new: NDArray[np.int64]) -> None:
        """Note of new near pages which decision made their room."""
        if self._open and self._open[-1].room:
            near = new[view.tier[new] == 0][: self._open[-1].room]
            self._by[near] = self._open[-1].epoch
            self._open[-1].room -= len(near)

    def _credit(self, view: MemoryView) -> None:
        if not self._open:
            return
        saved_s = self.arrivals.saved_s
        accesses = int(view.count[view.touched].sum())
        base_s = max(1e-12, accesses * (view.system.access_s(0) + saved_s))
        first = self._open[0].epoch
        rows = view.touched[self._by[view.touched] >= first]
        sign = np.where(view.tier[rows] == 0, 1.0, -1.0)
        places = self._by[rows] - first
        size = self._open[-1].epoch - first + 1
        gained = np.bincount(places, weights=sign * view.count[rows] * saved_s, minlength=size)
        for each in self._open:
            each.net_s += float(gained[each.epoch - first])
            self.saved_s += float(gained[each.epoch - first])
            each.stall_s += base_s

    def _close(self, done: _Open) -> None:
        if done.arm == 0 or done.stall_s <= 0.0:
            return
        reward = done.net_s / done.stall_s * self.window
        context = done.context
        # What the rule predicts is the prior: learned is by how much it is wrong.
        self._arms[done.arm].add(context, float(np.clip(reward, -1.0, 1.0)) - context[0])

    def took(self, view: MemoryView, moves: Moves) -> None:
        """Take note of what was moved after this moment."""
        arm = max(0, moves.arm)
        count = len(moves.promote) + len(moves.demote)
        self._by[moves.promote] = view.epoch
        self._by[moves.demote] = view.epoch
        if not count:
            return
        cost_s = count * move_cost_s(view)
        self.saved_s -= cost_s
        context = self._contexts[arm].copy()
        self._open.append(
            _Open(epoch=view.epoch, arm=arm, context=context, net_s=-cost_s, room=moves.room)
        )

    # -- predicting ----------------------------------------------------------------------------

    def predict(self, view: MemoryView) -> MemoryForecasts:
        """Return expected accesses, and the posterior of each arm in this context."""
        found = MemoryForecasts(
            accesses=self.reuse.expected(len(view.tier)),
            saved_s=self.arrivals.saved_s,
            new_pages=self.arrivals.pages,
            new_accesses=self.arrivals.accesses,
            after_touch=self.reuse.after_touch(len(view.tier)),
            trap_pages=self.arrivals.trapped,
        )
        self._contexts = self._contexts_of(view, found)
        mean, deviation = np.zeros(len(ARMS)), np.zeros(len(ARMS))
        for number in range(1, len(ARMS)):
            context = self._contexts[number]
            means, deviations = self._arms[number].beliefs(context[None])
            mean[number], deviation[number] = context[0] + means[0], deviations[0]
        draw = rng_of(f"{self.seed}/{view.epoch}").standard_normal()  # one: arms are alike
        drawn = mean + draw * deviation
        drawn[0] = 0.0
        seen = np.array([each.weight for each in self._arms])
        arms = ArmBeliefs(mean=mean, deviation=deviation, drawn=drawn, seen=seen)
        return replace(found, arms=arms)

    def _contexts_of(self, view: MemoryView, expects: MemoryForecasts) -> Floats:
        near_pages = view.system.tiers[0].pages
        ranked = rank(view, expects)
        unloaded_s = view.system.access_s(len(view.system.tiers) - 1)
        slower = view.link.far_access_s / unloaded_s - 1.0 if view.link.far_access_s else 0.0
        accesses = int(view.count[view.touched].sum())
        base_s = accesses * (view.system.access_s(0) + expects.saved_s)
        found = np.zeros((len(ARMS), len(CONTEXT)))
        for number, arm in enumerate(ARMS):
            room, count = moves_of(ranked, arm, near_pages)
            rule = min(1.0, net_s(ranked, room, count) / base_s) if base_s > 0 else 0.0
            count += room
            # All of it scales with what is moved: an arm that moves nothing here earns nothing.
            size = min(1.0, count / max(1, near_pages) * 8.0)
            rest = np.array([1.0, view.link.load_share, np.clip(slower, 0.0, 4.0) / 4.0])
            found[number, 0] = rule
            found[number, 1:4] = size * rest
            found[number, 4] = size * view.link.ping_pong_share
        return found

    # -- keeping -------------------------------------------------------------------------------

    def save_state(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {
            "arms": [each.name for each in ARMS],
            "posteriors": [each.save_state() for each in self._arms],
            "reuse": self.reuse.save_state(),
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state. Raise on one that does not fit."""
        if list(state["arms"]) != [each.name for each in ARMS]:
            raise ValueError("it has other arms")
        arms = [self._fresh() for _ in ARMS]
        for arm, saved in zip(arms, state["posteriors"], strict=True):
            arm.restore_state(saved)
        self.reuse.restore_state(state["reuse"])
        self._arms = arms
