"""Estimator of whether lending an idle GPU pays: a choice for each idle spell, by past outcomes.

The arms are to do nothing, to lend at once, and to lend only if the spell lasts for longer. What a
spell earned is the GPU time that its loans gained, of the idle GPU time that there was. To lend at
once is what steward does without this, and the baseline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import cos, log, log2, pi, sin
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.learn.outcomes import Chosen, OutcomeBandit
from steward.model.forecast import (
    CHOICE_LEND,
    CHOICE_SHARES,
    REMAINING_S,
    UNEXPLAINED_S,
    About,
    Forecast,
    ForecastColumn,
)
from steward.model.identity import DecisionId, JobId
from steward.model.job import Job, JobRequest
from steward.model.outcome import Outcome
from steward.model.view import QUEUED, ClusterView

__all__ = ["ARMS", "FEATURES", "LendingChoice"]

Floats = NDArray[np.float64]
ARMS = ("nothing", "lend", "lend-later")
NOTHING, LEND, LATER = range(3)
FEATURES = (
    "always",
    "how long it was idle",
    "how long it is expected to stay so",
    "GPUs that jobs wait for",
    "hour (sine)",
    "hour (cosine)",
    "GPUs of the job",
    "how long its tenant's spells usually last",
)
DAY_S = 86400.0
_PATIENCE_S = 7200.0  # after a spell, for the outcomes of its loans
_MOST_OPEN = 1000  # ended spells whose outcomes are awaited
_MOST_TENANTS = 1000
_FADE = 0.95  # of a tenant's usual spell
_USUAL_S = 1800.0


@dataclass(slots=True, kw_only=True)
class _Spell:
    """One stretch in which a job leaves GPUs idle."""

    tenant: str
    since_s: float  # when the choice was made
    context: Floats
    chosen: Chosen
    idle_gpu_s: float = 0.0
    seen_s: float = 0.0
    gained_gpu_s: float = 0.0
    open: set[DecisionId] = field(default_factory=set)  # loans without their last outcome
    ended_s: float = float("inf")


class LendingChoice:
    """Choose an arm when a job has left a GPU idle for `after_s`, and keep it for the spell.

    Jobs that are held or have a deadline are protected: for them it stays with the baseline.
    """

    def __init__(
        self,
        *,
        after_s: float = 300.0,
        later_s: float = 900.0,
        bandit: OutcomeBandit | None = None,
    ) -> None:
        self.name = "lending-choice"
        self.after_s = after_s
        self.later_s = later_s
        self.bandit = bandit or OutcomeBandit(arms=ARMS, baseline=LEND, size=len(FEATURES))
        self.unmeasured = 0  # spells with a loan whose outcome did not come
        self._spells: dict[JobId, _Spell] = {}
        self._ended: list[_Spell] = []
        self._usual: dict[str, float] = {}  # tenant: logarithm of how long its spells last

    def learn(self, view: ClusterView, outcomes: Sequence[Outcome]) -> None:
        idle = self._idle(view)
        for job in [each for each in self._spells if each not in idle]:
            self._end(self._spells.pop(job), view.t_s)
        for job, rows in idle.items():
            spell = self._spells.get(job)
            if spell is not None:
                spell.idle_gpu_s += len(rows) * max(0.0, view.t_s - spell.seen_s)
                spell.seen_s = view.t_s
        for loan in view.loans:
            if loan.owner in self._spells:
                self._spells[loan.owner].open.add(loan.id)
        for outcome in outcomes:
            self._add(outcome)
        self._settle(view.t_s)

    def predict(self, view: ClusterView) -> tuple[ForecastColumn, ...]:
        idle = self._idle(view)
        lend = np.full(len(view.gpus), np.nan)
        shares = np.full((len(ARMS), len(view.gpus)), np.nan)
        for job, rows in idle.items():
            if job not in self._spells:
                self._spells[job] = self._begin(view, view.details[job], rows)
            spell = self._spells[job]
            waited_s = view.t_s - spell.since_s
            now = spell.chosen.arm == LEND or (
                spell.chosen.arm == LATER and waited_s >= self.later_s
            )
            lend[rows] = float(now)
            shares[:, rows] = np.array(spell.chosen.shares)[:, None]
        return tuple(
            ForecastColumn(
                about=About.GPUS,
                quantity=quantity,
                low=each,
                mid=each,
                high=each,
                basis=self._basis,
            )
            for quantity, each in zip((CHOICE_LEND, *CHOICE_SHARES), (lend, *shares), strict=True)
        )

    def estimate(self, _: JobRequest) -> tuple[Forecast, ...]:
        """Return nothing: this is about GPUs that a running job leaves idle."""
        return ()

    @property
    def state_version(self) -> int:
        return 1

    def save_state(self) -> dict[str, Any]:
        return {
            "bandit": self.bandit.save_state(),
            "usual": dict(self._usual),
            "unmeasured": self.unmeasured,
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        usual = {str(tenant): float(value) for tenant, value in state["usual"].items()}
        unmeasured = int(state["unmeasured"])
        self.bandit.restore_state(state["bandit"])
        self._usual, self.unmeasured = usual, unmeasured

    @property
    def _basis(self) -> str:
        state = "trusted" if self.bandit.trusted else "exploring"
        return f"{self.name}, {len(self.bandit.log())} spells, {state}"

    def _idle(self, view: ClusterView) -> dict[JobId, list[int]]:
        """Return the GPUs that each job has left idle for long enough."""
        column = view.forecast(About.GPUS, UNEXPLAINED_S)
        found: dict[JobId, list[int]] = {}
        if column is None:
            return found
        for row in np.flatnonzero((column.mid >= self.after_s) & (view.gpus.owner >= 0)).tolist():
            found.setdefault(view.job_id(int(view.gpus.owner[row])), []).append(row)
        return found

    def _begin(self, view: ClusterView, job: Job, rows: list[int]) -> _Spell:
        ages = view.forecasts[About.GPUS, UNEXPLAINED_S].mid[rows]
        context = self._context(view, job, rows, float(ages.max()))
        key = f"{self.name}/{job.id}/{view.t_s - float(ages.max()):.0f}"
        protected = job.held or job.deadline_s is not None
        return _Spell(
            tenant=job.tenant,
            since_s=view.t_s,
            seen_s=view.t_s,
            context=context,
            chosen=self.bandit.choose(context, key, protected=protected),
        )

    def _context(self, view: ClusterView, job: Job, rows: list[int], age_s: float) -> Floats:
        remaining = view.forecast(About.GPUS, REMAINING_S)
        left_s = float(np.max(remaining.mid[rows])) if remaining is not None else np.nan
        left_s = left_s if np.isfinite(left_s) else _USUAL_S
        waiting = float(view.jobs.gpus[view.jobs.state == QUEUED].sum())
        turn = 2.0 * pi * (view.t_s % DAY_S) / DAY_S
        usual = self._usual.get(job.tenant, log(_USUAL_S))
        return np.array(
            [
                1.0,
                min(log(max(age_s, 1.0) / self.after_s), 3.0),
                float(np.clip(log(max(left_s, 1.0) / _USUAL_S), -3.0, 3.0)),
                min(1.0, waiting / 16.0),
                sin(turn),
                cos(turn),
                log2(1.0 + len(rows)) / 4.0,
                float(np.clip(usual - log(_USUAL_S), -3.0, 3.0)),
            ]
        )

    def _end(self, spell: _Spell, t_s: float) -> None:
        spell.ended_s = t_s
        self._ended.append(spell)
        length = log(max(t_s - spell.since_s, 1.0) + self.after_s)
        usual = self._usual.pop(spell.tenant, log(_USUAL_S))
        self._usual[spell.tenant] = _FADE * usual + (1.0 - _FADE) * length
        while len(self._usual) > _MOST_TENANTS:
            del self._usual[next(iter(self._usual))]

    def _add(self, outcome: Outcome) -> None:
        for spell in (*self._spells.values(), *self._ended):
            if outcome.decision in spell.open:
                spell.gained_gpu_s += outcome.gained.mid
                if outcome.final:
                    spell.open.discard(outcome.decision)

    def _settle(self, t_s: float) -> None:
        """Learn from the ended spells whose loans have all been measured."""
        waiting = []
        for spell in self._ended:
            if not spell.open and spell.idle_gpu_s > 0:
                reward = spell.gained_gpu_s / spell.idle_gpu_s
                self.bandit.learn(spell.context, spell.chosen, reward, spell.since_s)
            elif spell.open and t_s < spell.ended_s + _PATIENCE_S:
                waiting.append(spell)
            else:
                self.unmeasured += 1
        self.unmeasured += max(0, len(waiting) - _MOST_OPEN)
        self._ended = waiting[-_MOST_OPEN:]
