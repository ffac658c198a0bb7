"""Measures what moving blocks of a process was worth, by its major faults before and after."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import sqrt

from steward.model.decision import Decision, Receipt
from steward.model.identity import DecisionId
from steward.model.memory.moment import MemoryMoment
from steward.model.outcome import Interval, Outcome, Story
from steward.model.yardstick import STALL

__all__ = ["MemoryVerifier"]

REMEMBERED_S = 600.0
_Z = 1.96


@dataclass(slots=True, kw_only=True)
class _Case:
    decision: Decision
    done_s: float


class MemoryVerifier:
    """Major faults of as long before and after a move, each as long as the far tier takes.

    What the process does differs between the two times: the interval covers chance alone. A counter
    that fell belongs to another process: what was before is forgotten.
    """

    def __init__(self) -> None:
        self._cases: dict[DecisionId, _Case] = {}
        self._counts: deque[tuple[float, int]] = deque()
        self._process = ""
        self.gained_s = 0.0

    def begin(self, decision: Decision, receipt: Receipt, _: MemoryMoment) -> None:
        """Start to follow a decision that was carried out."""
        if decision.yardstick == STALL and receipt.result in ("done", "partly"):
            self._cases[decision.id] = _Case(decision=decision, done_s=receipt.t_s)

    def resume(self, _: Story) -> None:
        """Follow nothing of an earlier run: what was before is not known any more."""

    def follow(self, view: MemoryMoment) -> list[tuple[Decision, Outcome]]:
        """Take in one moment; return the outcomes that are due in it."""
        self._count(view)
        found = []
        for case in list(self._cases.values()):
            if view.t_s >= case.done_s + case.decision.check_after_s:
                del self._cases[case.decision.id]
                outcome = self._outcome(case, view)
                self.gained_s += outcome.gained.mid
                found.append((case.decision, outcome))
        return found

    def forget(self, decision: DecisionId) -> None:
        """Stop following a decision that failed after all."""
        self._cases.pop(decision, None)

    def so_far(self, _: MemoryMoment) -> tuple[Outcome, ...]:
        """Return nothing: these are known only at their check."""
        return ()

    def settle(self, _: MemoryMoment) -> list[Outcome]:
        """Return nothing: half a comparison is none."""
        return []

    def _count(self, view: MemoryMoment) -> None:
        if view.unknown:
            return
        now = view.snapshot.major_faults
        fell = bool(self._counts) and now < self._counts[-1][1]
        if view.snapshot.process != self._process or fell:
            self._counts.clear()
            self._process = view.snapshot.process
        self._counts.append((view.t_s, now))
        while self._counts[0][0] < view.t_s - REMEMBERED_S:
            self._counts.popleft()

    def _outcome(self, case: _Case, view: MemoryMoment) -> Outcome:
        length_s = view.t_s - case.done_s
        before = self._between(case.done_s - length_s, case.done_s)
        after = self._between(case.done_s, view.t_s)
        fault_s = view.view.system.access_s(len(view.view.system.tiers) - 1)
        mid = (before - after) * fault_s
        half = _Z * sqrt(before + after) * fault_s
        return Outcome(
            decision=case.decision.id,
            t_s=view.t_s,
            from_s=case.done_s,
            to_s=view.t_s,
            gained=Interval(low=mid - half, mid=mid, high=mid + half),
            expected=case.decision.expects.mid,
            due_s=view.t_s,
            final=True,
            text=f"{after} major faults in {length_s:.0f} s, {before} in as long before",
            yardstick=STALL,
        )

    def _between(self, from_s: float, to_s: float) -> int:
        inside = [count for t_s, count in self._counts if from_s <= t_s <= to_s]
        return inside[-1] - inside[0] if inside else 0
