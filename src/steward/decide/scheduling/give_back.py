"""Calls lent GPUs back in time: whatever else is decided, or fails, loans must end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from steward.model.actions import CallBack
from steward.model.decision import Decision
from steward.model.forecast import REMAINING_S, About
from steward.model.identity import DecisionId, stable_id
from steward.model.view import ClusterView, Loan

__all__ = ["GiveBack"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveBack:
    """Ends a loan when its owner stirs: uses its GPUs, or works on its host, which comes before.

    An owner that shares its GPUs works on them anyway: what it loses is looked at by others.

    A loan also ends when its time is over or its engine wants it back, when nobody can see its
    owner, and when its borrower does not start within `start_within_s`. The loop always asks this
    policy, whatever the configuration names and however little autonomy is left.
    """

    check_after_s: float = 600.0
    unknown_grace_s: float = 60.0
    start_within_s: float = 600.0
    name: str = "give-back"

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        """Return a call-back for each loan that should end now, the same one in every turn."""
        return tuple(self._call_backs(view))

    def _call_backs(self, view: ClusterView) -> Iterator[Decision]:
        for loan in view.loans:
            rows = [view.gpu_row[gpu] for gpu in loan.gpus if gpu in view.gpu_row]
            if loan.owner not in view.details:
                continue
            reason = self._why_due(view, loan) or self._why_back(view, loan, rows)
            if reason:
                yield self._call_back(view, loan, reason)

    @staticmethod
    def _why_due(view: ClusterView, loan: Loan) -> str:
        if loan.wanted:
            return loan.wanted
        if loan.until_s is not None and view.t_s >= loan.until_s:
            return f"the {loan.until_s - loan.since_s:.0f} s that it was lent for are over"
        return ""

    def _why_back(self, view: ClusterView, loan: Loan, rows: list[int]) -> str:
        gpus = view.gpus
        age_s = view.t_s - loan.since_s
        if bool(np.isnan(gpus.owner_busy_share[rows]).any()):
            silent = age_s > self.unknown_grace_s
            return f"nobody can see whether {loan.owner} needs its GPUs" if silent else ""
        if not loan.shared and (reason := self._why_stirs(view, loan, rows)):
            return reason
        if bool((gpus.borrower[rows] < 0).any()) and age_s > self.start_within_s:
            return f"{loan.borrower} has not started within {self.start_within_s:.0f} s"
        return ""

    @staticmethod
    def _why_stirs(view: ClusterView, loan: Loan, rows: list[int]) -> str:
        gpus = view.gpus
        if bool(np.isnan(gpus.quiet_since_s[rows]).any()):
            share = float(np.max(gpus.owner_busy_share[rows]))
            return f"{loan.owner} uses its GPUs again ({share:.0%} busy)"
        idle = view.forecast(About.GPUS, REMAINING_S)
        if idle is not None and bool(np.isnan(idle.mid[rows]).any()):
            return f"{loan.owner} is at work on its host again"
        return ""

    def _call_back(self, view: ClusterView, loan: Loan, reason: str) -> Decision:
        return Decision(
            id=DecisionId(stable_id("d", self.name, loan.id)),
            t_s=view.t_s,
            policy=self.name,
            action=CallBack(loan=loan.id, gpus=loan.gpus, owner=loan.owner, borrower=loan.borrower),
            because=reason,
            check_after_s=self.check_after_s,
            tenant=view.details[loan.owner].tenant,
        )
