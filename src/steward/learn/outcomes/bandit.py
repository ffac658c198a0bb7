"""Chooses among actions by what they earned, and explores only as much as can be afforded.

One arm is the baseline: what would be done without the bandit. Until a comparison on logged choices
shows that choosing by what was learnt is surely better, the baseline is chosen but for a small
share; a gate closes even that where exploring could cost more than a few percent of what the
baseline earns (conservative bandits, Kazerouni et al. 2017). A drift of the rewards takes the trust
back and lets older evidence count less.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.learn.outcomes.evaluation import ChoiceLog, Comparison, compare
from steward.learn.outcomes.thompson import (
    DRAWS,
    ArmPosterior,
    best_shares_of_many,
    rng_of,
    with_floor,
)
from steward.learn.patterns.changes.online import PageHinkley

__all__ = ["BanditSettings", "Chosen", "OutcomeBandit"]

Floats = NDArray[np.float64]
DAY_S = 86400.0
_BOUND = 1.645  # deviations below which a reward lies in one of twenty cases


@dataclass(frozen=True, slots=True, kw_only=True)
class BanditSettings:
    """How boldly to choose and how much evidence to ask for."""

    floor: float = 0.05  # share that is spread over all arms once the choices are trusted
    explore_share: float = 0.1  # the same before
    loss_share: float = 0.05  # of what the baseline earns, that exploring may cost
    allowance: float = 3.0  # rewards that exploring may cost before anything is earned
    least_effective: float = 100.0
    evaluate_every: int = 25  # rewards, and a tenth of those that are kept
    block_s: float = DAY_S
    log: int = 4000  # newest choices that are kept
    drift_limit: float = 15.0  # deviations that the errors of an arm may add up to
    kept_after_drift: float = 0.1
    fade: float = 0.995


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A choice with the probability of each arm, which is journalled with what it leads to."""

    arm: int
    shares: tuple[float, ...]
    why: str  # trusted, exploring, gate closed, protected


@dataclass(slots=True, kw_only=True)
class _Logged:
    t_s: float
    context: Floats
    arm: int
    chance: float
    reward: float


@dataclass(slots=True, kw_only=True)
class OutcomeBandit:
    """Discounted linear Thompson sampling behind a conservative gate."""

    arms: Sequence[str]
    baseline: int
    size: int  # of a context
    settings: BanditSettings = field(default_factory=BanditSettings)
    trusted: bool = False
    comparison: Comparison | None = None
    drifts_s: list[float] = field(default_factory=list)
    protected: int = 0  # choices that were left to the baseline and out of the evaluation
    gated: int = 0
    spent: float = 0.0  # what exploring has cost so far: expected of the baseline, less earned
    earned: float = 0.0  # by all choices that were not protected, in size
    _posteriors: list[ArmPosterior] = field(init=False)
    _log: deque[_Logged] = field(init=False)
    _drift: PageHinkley = field(init=False)
    _since: int = 0  # rewards since the last evaluation

    def __post_init__(self) -> None:
        self._posteriors = [
            ArmPosterior(size=self.size, fade=self.settings.fade) for _ in self.arms
        ]
        self._log = deque(maxlen=self.settings.log)
        self._drift = self._detector()

    def _detector(self) -> PageHinkley:
        limit = self.settings.drift_limit
        return PageHinkley(width=2 * len(self.arms), threshold=limit, warm_up=30)

    # -- choosing ------------------------------------------------------------------------------

    def choose(self, context: Floats, key: str, *, protected: bool = False) -> Chosen:
        """Return an arm: the same one for the same key and the same knowledge."""
        only = np.eye(len(self.arms))[self.baseline]
        if protected:
            self.protected += 1
            return Chosen(arm=self.baseline, shares=tuple(only.tolist()), why="protected")
        if self.trusted:
            shares, why = self.shares(context, key), "trusted"
        else:
            shares, why = with_floor(only, self.settings.explore_share), "exploring"
        if not self.trusted and not self._affordable(context):
            self.gated += 1
            shares, why = only, "gate closed"
        arm = int(rng_of(f"{key}/arm").choice(len(self.arms), p=shares))
        return Chosen(arm=arm, shares=tuple(shares.tolist()), why=why)

    def shares(self, context: Floats, key: str) -> Floats:
        """Return Thompson's probabilities in a context, none of them zero."""
        beliefs = [each.beliefs(context[None]) for each in self._posteriors]
        means, deviations = (np.column_stack(each) for each in zip(*beliefs, strict=True))
        best = best_shares_of_many(means, deviations, key, draws=DRAWS)
        return with_floor(best[0], self.settings.floor)

    def _affordable(self, context: Floats) -> bool:
        """Return whether the worst that exploring may bring here can be paid for."""
        baseline = max(self._posteriors[self.baseline].mean(context), 0.0)
        worst = min(self._low(arm, context) for arm in range(len(self.arms)))
        allowed = self.settings.allowance + self.settings.loss_share * self.earned
        share = self.settings.explore_share
        return self.spent + share * (baseline - worst) <= allowed

    def _low(self, arm: int, context: Floats) -> float:
        posterior = self._posteriors[arm]
        return max(-1.0, posterior.mean(context) - _BOUND * posterior.deviation(context))

    # -- learning ------------------------------------------------------------------------------

    def learn(self, context: Floats, chosen: Chosen, reward: float, t_s: float) -> None:
        """Take in what a choice earned: its share of what was at stake, from -1 to 1."""
        if chosen.why == "protected":
            return  # nothing was chosen: it would say nothing of another choice
        reward = min(1.0, max(-1.0, reward))
        baseline = self._posteriors[self.baseline].mean(context)
        if chosen.arm != self.baseline and chosen.why == "exploring":
            self.spent += max(0.0, baseline) - reward
        self.earned += max(0.0, reward if chosen.arm == self.baseline else baseline)
        error = self._posteriors[chosen.arm].add(context, reward)
        entry = _Logged(
            t_s=t_s,
            context=context.copy(),
            arm=chosen.arm,
            chance=chosen.shares[chosen.arm],
            reward=reward,
        )
        self._log.append(entry)
        self._watch(chosen.arm, error, t_s)
        self._since += 1
        due = max(self.settings.evaluate_every, len(self._log) // 10)
        if self._since >= due:
            self._since = 0
            self.evaluate()

    def _watch(self, arm: int, error: float, t_s: float) -> None:
        """Forget most of what is known when rewards are not what they were.

        Some contexts may have become better and others worse: so the size of errors counts, too.
        """
        row = np.full((2, len(self.arms)), np.nan)
        row[:, arm] = error, abs(error)
        change = self._drift.update(row.ravel())
        if change is None:
            return
        self.drifts_s = [*self.drifts_s[-19:], t_s]
        self.trusted, self.comparison = False, None
        for posterior in self._posteriors:
            posterior.forget(self.settings.kept_after_drift)
        newest = list(self._log)[-max(1, change.ago + 1) :]
        self._log = deque(newest, maxlen=self.settings.log)

    def evaluate(self) -> Comparison:
        """Compare what was learnt with the baseline on the logged choices; set the trust by it.

        A choice is judged by what was learnt from other blocks of time than its own.
        """
        log_ = self.log()
        only = np.tile(np.eye(len(self.arms))[self.baseline], (len(log_), 1))
        found = compare(log_, self._cross_fitted(log_), only)
        self.comparison = found
        if self.trusted:
            self.trusted = found.high > 0.0  # as long as it is not surely worse
        else:
            self.trusted = found.holds(self.settings.least_effective)
        return found

    def log(self) -> ChoiceLog:
        """Return the newest choices."""
        t_s = np.array([each.t_s for each in self._log])
        return ChoiceLog(
            contexts=np.array([each.context for each in self._log]).reshape(-1, self.size),
            arms=np.array([each.arm for each in self._log], np.int64),
            chance=np.array([each.chance for each in self._log]),
            rewards=np.array([each.reward for each in self._log]),
            block=(t_s // self.settings.block_s).astype(np.int64),
        )

    def _cross_fitted(self, log_: ChoiceLog) -> Floats:
        """Return what would be chosen in each context by what the other half of the blocks says."""
        halves = np.unique(log_.block, return_inverse=True)[1] % 2
        shares = np.zeros((len(log_), len(self.arms)))
        for half in (0, 1):
            own = log_.contexts[halves == half]
            beliefs = [self._fitted(log_, (halves != half) & (log_.arms == arm)).beliefs(own)
                       for arm in range(len(self.arms))]  # fmt: skip
            means, deviations = (np.column_stack(each) for each in zip(*beliefs, strict=True))
            best = best_shares_of_many(means, deviations, f"evaluation {half}")
            shares[halves == half] = with_floor(best, self.settings.floor)
        return shares

    def _fitted(self, log_: ChoiceLog, rows: NDArray[np.bool_]) -> ArmPosterior:
        posterior = ArmPosterior(size=self.size, fade=self.settings.fade)
        posterior.fit(log_.contexts[rows], log_.rewards[rows])
        return posterior

    # -- telling and keeping -------------------------------------------------------------------

    def arm_means(self) -> list[tuple[str, float, float, Floats]]:
        """Return each arm with its effective number of rewards, their mean, and coefficients."""
        return [
            (
                name,
                each.weight,
                each.rewards / each.weight if each.weight else 0.0,
                each.coefficients,
            )
            for name, each in zip(self.arms, self._posteriors, strict=True)
        ]

    def save_state(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {
            "arms": [*self.arms],
            "trusted": self.trusted,
            "drifts_s": [*self.drifts_s],
            "protected": self.protected,
            "gated": self.gated,
            "spent": self.spent,
            "earned": self.earned,
            "posteriors": [each.save_state() for each in self._posteriors],
            "log_t_s": [each.t_s for each in self._log],
            "log_contexts": [each.context.tolist() for each in self._log],
            "log_arms": [each.arm for each in self._log],
            "log_chances": [each.chance for each in self._log],
            "log_rewards": [each.reward for each in self._log],
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state. Raise on one that does not fit."""
        if list(state["arms"]) != list(self.arms):
            raise ValueError("it has other arms")
        posteriors = [ArmPosterior(size=self.size, fade=self.settings.fade) for _ in self.arms]
        for posterior, saved in zip(posteriors, state["posteriors"], strict=True):
            posterior.restore_state(saved)
        columns = [
            state[f"log_{name}"] for name in ("t_s", "contexts", "arms", "chances", "rewards")
        ]
        entries = [
            _Logged(
                t_s=float(t_s),
                context=np.asarray(context, np.float64),
                arm=int(arm),
                chance=float(chance),
                reward=float(reward),
            )
            for t_s, context, arm, chance, reward in zip(*columns, strict=True)
        ]
        self._posteriors = posteriors
        self._log = deque(entries, maxlen=self.settings.log)
        self.trusted = bool(state["trusted"])
        self.drifts_s = [float(each) for each in state["drifts_s"]]
        self.protected, self.gated = int(state["protected"]), int(state["gated"])
        self.spent, self.earned = float(state["spent"]), float(state["earned"])
