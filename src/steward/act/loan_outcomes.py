"""Measures what each loan was really worth, against what would have happened without it.

What would have happened: the GPUs stay idle and the borrower waits, until some node has had room
for it for a minute; from then on the loan gains nothing. What the owner loses while both work is
taken off, also from then on; so are work that has to be done again and the restore after a
call-back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from math import ceil, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.model.actions import Lend, Resume, Start
from steward.model.cluster import Health
from steward.model.decision import Decision, Receipt
from steward.model.forecast import REMAINING_S
from steward.model.identity import DecisionId, GpuId, JobId
from steward.model.job import Job, JobState
from steward.model.outcome import Interval, Outcome, Story
from steward.model.view import HEALTH_CODES, ClusterView

__all__ = ["LoanOutcomes"]

Floats = NDArray[np.float64]
ROOM_S = 60.0  # GPUs free for so long are room; a scheduler between two turns leaves some free too


@dataclass(slots=True, kw_only=True)
class _Sums:
    """What was seen of a loan since its last check. GPU-seconds, summed over its GPUs."""

    lent: float = 0.0
    gained: float = 0.0
    otherwise: float = 0.0  # worked, but would have been worked in any case
    unseen: float = 0.0
    looks: int = 0
    shares: float = 0.0  # sum over looks of the busy share, and of its square: the sampling error
    squares: float = 0.0
    step_s: float = 0.0  # the longest time between two looks


@dataclass(slots=True, kw_only=True)
class _Case:
    """One loan under observation."""

    decision: Decision
    action: Lend
    gpus: tuple[GpuId, ...]
    from_s: float
    seen_s: float
    check_s: float
    first: bool = True
    had_room: bool = False  # somewhere else, at some time since the loan began
    idle_watts: float = float("nan")
    shares: Floats = field(default_factory=lambda: np.empty(0))  # the borrower's, at the last look
    owner: Floats = field(default_factory=lambda: np.empty(0))  # the owner's, then; 0 if quiet
    alone: Floats = field(default_factory=lambda: np.empty(0))  # the borrower's beside a quiet one
    sums: _Sums = field(default_factory=_Sums)


class LoanOutcomes:
    """Follows every loan from view to view; an outcome at each check and at its end."""

    def __init__(self, *, quiet_share: float = 0.05, stale_after_s: float = 120.0) -> None:
        self.quiet_share = quiet_share
        self.stale_after_s = stale_after_s
        self._cases: dict[DecisionId, _Case] = {}
        self._rooms = _Rooms()
        self._sample_s = np.inf  # the shortest time between two samples

    def begin(self, decision: Decision, receipt: Receipt, view: ClusterView) -> None:
        """Start to follow a loan that was just carried out."""
        if isinstance(decision.action, Start | Resume):
            self._rooms.take(receipt.gpus, decision.action.job)
        if not isinstance(decision.action, Lend) or receipt.result == "begun":
            return
        rows = _rows(view, receipt.gpus)
        self._cases[decision.id] = case = _Case(
            decision=decision,
            action=decision.action,
            gpus=receipt.gpus,
            from_s=receipt.t_s,
            seen_s=min(receipt.t_s, _newest(view, rows) or receipt.t_s),
            check_s=receipt.t_s + decision.check_after_s,
        )
        watts = view.gpus.quiet_watts[rows]
        case.idle_watts = float(np.nanmean(watts)) if not np.isnan(watts).all() else 0.0

    def resume(self, story: Story) -> None:
        """Go on with a loan of an earlier run. What happened in between stays unknown."""
        action = story.decision.action
        done = [each for each in story.receipts if each.result in ("done", "partly")]
        if not isinstance(action, Lend) or not done:
            return
        outcomes = [each for each in story.outcomes if each.effect is None]
        if any(each.final for each in outcomes):
            return
        last_s = outcomes[-1].to_s if outcomes else done[-1].t_s
        self._cases[story.decision.id] = _Case(
            decision=story.decision,
            action=action,
            gpus=done[-1].gpus,
            from_s=last_s,
            seen_s=last_s,
            check_s=last_s + story.decision.check_after_s,
            first=not outcomes,
            idle_watts=outcomes[-1].idle_watts if outcomes else 0.0,
        )

    def follow(self, view: ClusterView) -> list[tuple[Decision, Outcome]]:
        """Take in one moment; return the outcomes that are due in it."""
        self._rooms.follow(view)
        if not self._cases:
            return []
        on_loan = {loan.id for loan in view.loans}
        gone = {job.id: job for job in view.ended}
        outcomes: list[tuple[Decision, Outcome]] = []
        for case in list(self._cases.values()):
            if case.decision.id in on_loan:
                self._look(case, view)
                if view.t_s >= case.check_s:
                    outcome = self._outcome(case, view, "checked", final=False)
                    outcomes.append((case.decision, outcome))
            elif case.from_s < view.t_s:  # a loan of this very turn is in the next view
                outcomes.append((case.decision, self._end(case, view, gone)))
        return outcomes

    def forget(self, decision: DecisionId) -> None:
        """Stop following a decision that failed after all."""
        self._cases.pop(decision, None)

    def so_far(self, view: ClusterView) -> tuple[Outcome, ...]:
        """Return what open loans have brought since their last check; nothing is settled by it."""
        return tuple(
            self._outcome(replace(case, first=False), view, "the loan goes on", final=False)
            for case in self._cases.values()
            if case.seen_s > case.from_s
        )

    def settle(self, view: ClusterView) -> list[Outcome]:
        """Close the accounts of open loans up to now: steward is about to stop."""
        settled = []
        for case in self._cases.values():
            if case.seen_s > case.from_s:
                case.first = False  # a part cut short by us is not held against its promise
                settled.append(self._outcome(case, view, "steward stopped meanwhile", final=False))
        return settled

    # -- over a crash --------------------------------------------------------------------------

    def save_state(self) -> dict[str, Any]:
        """Return what was measured since each loan's last check."""
        return {
            id_: {
                "from_s": case.from_s,
                "seen_s": case.seen_s,
                "check_s": case.check_s,
                "had_room": case.had_room,
                "idle_watts": case.idle_watts,
                "sums": asdict(case.sums),
            }
            for id_, case in self._cases.items()
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what was measured of the loans that are followed.

        A part that began elsewhere than where the journal ends was written there since.
        """
        restored: list[tuple[DecisionId, _Case]] = []
        for id_, case in self._cases.items():
            saved = state.get(id_)
            if saved is None or saved["from_s"] != case.from_s:
                continue
            measured = replace(
                case,
                seen_s=float(saved["seen_s"]),
                check_s=float(saved["check_s"]),
                had_room=bool(saved["had_room"]),
                idle_watts=float(saved["idle_watts"]),
                sums=_Sums(**saved["sums"]),
            )
            restored.append((id_, measured))
        self._cases.update(restored)

    # -- one look ------------------------------------------------------------------------------

    def _look(self, case: _Case, view: ClusterView) -> None:
        """Take in the newest sample.

        It speaks of the time since the sample before it, also where the loan began in between: a
        busy share is a mean over that time.
        """
        rows = _rows(view, case.gpus)
        until_s = _newest(view, rows) or case.seen_s
        if view.t_s - max(until_s, case.seen_s) > self.stale_after_s:
            until_s = view.t_s  # silence for so long is not a late sample, it is a gap
        elapsed_s = until_s - case.seen_s
        if elapsed_s <= 0:
            return
        busy, owner = view.gpus.borrower_busy_share[rows], view.gpus.owner_busy_share[rows]
        seen = ~np.isnan(busy) if elapsed_s <= self.stale_after_s else np.zeros(len(rows), bool)
        awake = owner >= self.quiet_share  # unknown is not awake: the policy ends such loans
        room_s = self._room_s(case, view, until_s)
        before_s = min(max(room_s - case.seen_s, 0.0), elapsed_s)
        owner = np.where(awake, owner, 0.0)
        self._add(case, elapsed_s, np.where(seen, busy, 0.0), owner=owner, before_s=before_s)
        case.had_room = case.had_room or room_s <= until_s
        lent_s = until_s - max(case.seen_s, case.from_s)
        case.sums.lent += lent_s * len(case.gpus)
        case.sums.unseen += lent_s * (len(case.gpus) - int(seen.sum()))
        case.seen_s = until_s

    def _room_s(self, case: _Case, view: ClusterView, until_s: float) -> float:
        """Return from which sample on the borrower could have run elsewhere; infinite if none."""
        if case.had_room:
            return case.seen_s
        self._sample_s = min(self._sample_s, until_s - case.seen_s)
        room_s = self._rooms.room_s(view, case.action.borrower)
        if room_s > until_s:
            return np.inf
        samples = max(0, ceil((room_s - case.seen_s) / self._sample_s - 1e-9))
        return min(case.seen_s + samples * self._sample_s, until_s)

    @staticmethod
    def _add(
        case: _Case, elapsed_s: float, busy: Floats, *, owner: Floats, before_s: float
    ) -> None:
        """Add one stretch: what the borrower did, less what its owner lost by it.

        Two that ask for more than a GPU get parts of it. An owner that asks for all of it beside a
        borrower that asks for `alone` has `1 / (1 + alone)`, so for each second of its own work it
        lost `alone`. That holds wherever in the stretch it woke, and never is more than what the
        borrower did. Nothing is gained after `before_s`: there was room elsewhere.
        """
        sums, size = case.sums, len(busy)
        before = case.alone if len(case.alone) == size else np.ones(size)
        case.alone = np.where(owner > 0, before, busy)
        lost = float(np.sum(np.minimum(busy, owner * before)))
        worked = float(np.sum(busy))
        sums.gained += worked * before_s - lost * elapsed_s
        sums.otherwise += worked * (elapsed_s - before_s) + lost * before_s
        sums.looks += 1
        sums.shares += worked - lost
        sums.squares += (worked - lost) ** 2
        sums.step_s = max(sums.step_s, elapsed_s)
        case.owner, case.shares = owner, busy

    # -- ends ----------------------------------------------------------------------------------

    def _end(self, case: _Case, view: ClusterView, gone: dict[JobId, Job]) -> Outcome:
        """Account for the last stretch of a loan that is over, for lost work and the restore."""
        borrower = gone.get(case.action.borrower) or view.details.get(case.action.borrower)
        ended_s, why, lost_s, called_back = _how_it_ended(case, borrower, gone, view.t_s)
        stretch_s = min(max(0.0, ended_s - case.seen_s), max(0.0, view.t_s - case.seen_s))
        if stretch_s > 0:
            saving_s = _saving_s(borrower) if called_back and not lost_s else 0.0
            worked_s = max(0.0, stretch_s - saving_s)
            before_s = 0.0 if case.had_room else worked_s
            self._add(case, worked_s, case.shares, owner=case.owner, before_s=before_s)
            case.sums.lent += stretch_s * len(case.gpus)
            case.sums.unseen += stretch_s * (len(case.gpus) - len(case.shares))
            case.seen_s += stretch_s
        cost = lost_s * float(np.sum(case.shares))
        if called_back and borrower is not None:
            cost += borrower.checkpointing.restore_s * len(case.gpus)
        del self._cases[case.decision.id]
        return self._outcome(case, view, why, final=True, cost=cost)

    def _outcome(
        self, case: _Case, view: ClusterView, why: str, *, final: bool, cost: float = 0.0
    ) -> Outcome:
        sums, decision = case.sums, case.decision
        seen = max(sums.lent - sums.unseen, 1e-9)
        imputed = sums.gained / seen * sums.unseen if sums.lent > sums.unseen else 0.0
        mid = sums.gained + imputed - cost
        half = _sampling_error(case)
        # A decision promises for its first check, in full also where the loan ends before it.
        promises = 1.0 if case.first else 0.0
        outcome = Outcome(
            decision=decision.id,
            t_s=view.t_s,
            from_s=case.from_s,
            to_s=case.seen_s,
            gained=Interval(
                low=mid - half - imputed, mid=mid, high=mid + half + (sums.unseen - imputed)
            ),
            lent=sums.lent,
            counted_on=promises * _counted_on(decision),
            expected=promises * decision.expects.mid,
            due_s=max(view.t_s, case.check_s) if case.first else view.t_s,
            counterfactual=sums.otherwise,
            idle_watts=case.idle_watts,
            final=final,
            text=_say(why, mid, sums, had_room=case.had_room),
        )
        case.from_s, case.first, case.sums = case.seen_s, False, _Sums()
        case.check_s = case.seen_s + decision.check_after_s
        return outcome


def _counted_on(decision: Decision) -> float:
    """Return the idle GPU-seconds by the first check that the decision's forecasts spoke of."""
    return sum(
        min(each.mid, decision.check_after_s)
        for each in decision.forecasts
        if each.quantity == REMAINING_S
    )


def _sampling_error(case: _Case) -> float:
    """Return half the 95 % range: few looks at a changing share, and ends between looks."""
    sums = case.sums
    if not sums.looks:
        return 0.0
    mean = sums.shares / sums.looks
    variance = max(0.0, sums.squares / sums.looks - mean * mean)
    seconds = sums.lent / max(1, len(case.gpus))
    edge = float(np.sum(case.shares)) * sums.step_s / sqrt(6)  # two ends, each uniform in a step
    return 1.96 * sqrt(seconds * seconds * variance / sums.looks + edge * edge)


def _rows(view: ClusterView, gpus: tuple[GpuId, ...]) -> list[int]:
    return [view.gpu_row[gpu] for gpu in gpus if gpu in view.gpu_row]


def _newest(view: ClusterView, rows: list[int]) -> float | None:
    """Return the time of the newest sample of any of these GPUs, if there was one."""
    times = view.gpus.seen_s[rows]
    return None if np.isnan(times).all() else float(np.nanmax(times))


class _Rooms:
    """Which GPUs have been free for so long that nobody seems to be about to use them."""

    def __init__(self) -> None:
        self._ids: NDArray[np.object_] | None = None
        self._since_s: Floats = np.empty(0)
        self._holder: NDArray[np.object_] = np.empty(0, object)  # the last job on each GPU
        self._begun: list[tuple[tuple[GpuId, ...], JobId]] = []  # since the view at hand
        self._begun_before: list[tuple[tuple[GpuId, ...], JobId]] = []
        self._room_s: dict[tuple[tuple[str, ...], int], float] = {}  # of the view at hand

    def follow(self, view: ClusterView) -> None:
        """Note since when each GPU is free: since its last job left it, where that is known."""
        gpus = view.gpus
        self._room_s.clear()
        if self._ids is not gpus.ids:
            self._ids, self._since_s = gpus.ids, np.full(len(gpus), np.inf)
            self._holder = np.full(len(gpus), None, object)
        for begun, id_ in self._begun_before:
            rows = _rows(view, begun)
            self._since_s[rows], self._holder[rows] = np.inf, id_
        self._begun_before, self._begun = self._begun, []
        good = gpus.health == HEALTH_CODES[Health.GOOD]
        free = (gpus.users == 0) & good & ~view.nodes.draining[gpus.node]
        self._since_s[~free] = np.inf
        gone = {job.id: job for job in view.ended}
        for row in np.flatnonzero(free & np.isinf(self._since_s)).tolist():
            holder = self._holder[row]
            job = gone.get(holder) or view.details.get(holder)
            self._since_s[row] = _left_s(job, view.t_s)
        self._holder[:] = None
        held = np.flatnonzero(gpus.owner >= 0)
        self._holder[held] = view.jobs.ids[gpus.owner[held]]

    def take(self, gpus: tuple[GpuId, ...], job: JobId) -> None:
        """Note that a job begins on GPUs that the view at hand shows as free.

        It may have ended when the next view is made.
        """
        self._begun.append((gpus, job))

    def room_s(self, view: ClusterView, borrower: JobId) -> float:
        """Return since when the borrower could run somewhere without the loan; infinite if not."""
        job = view.details.get(borrower)
        if job is None:
            return np.inf
        shape = job.shape.gpu_models, job.shape.gpus
        if shape not in self._room_s:  # many borrowers ask for the same
            self._room_s[shape] = self._room_for(view, *shape)
        return self._room_s[shape]

    def _room_for(self, view: ClusterView, wanted: tuple[str, ...], need: int) -> float:
        gpus = view.gpus
        suits = np.array([not wanted or model in wanted for model in view.models], dtype=bool)
        free = np.flatnonzero(np.isfinite(self._since_s) & suits[gpus.model])
        free = free[np.lexsort((self._since_s[free], gpus.node[free]))]
        last = free[need - 1 :]  # the last of so many GPUs to become free, if they are of one node
        same = gpus.node[last] == gpus.node[free[: len(last)]]
        return float(np.min(self._since_s[last[same]], initial=np.inf)) + ROOM_S


def _left_s(job: Job | None, now_s: float) -> float:
    """Return when a job left its GPUs, as far as that is known."""
    if job is None:
        return now_s
    if job.end_s is not None:
        return min(job.end_s, now_s)
    stopped = job.state is JobState.QUEUED and bool(job.history)
    return min(job.history[-1].t_s, now_s) if stopped else now_s


def _how_it_ended(
    case: _Case, borrower: Job | None, gone: dict[JobId, Job], now_s: float
) -> tuple[float, str, float, bool]:
    """Return when and why a loan ended, the work lost, and whether the borrower was sent back."""
    owner = gone.get(case.action.owner)
    if borrower is None:
        return case.seen_s, "it is unknown what became of the borrower", 0.0, False
    lines = [line for line in borrower.history if line.t_s >= case.from_s]
    lost_s = sum(line.lost_s for line in lines)
    if borrower.state.ended:
        ended_s = borrower.end_s if borrower.end_s is not None else now_s
        return ended_s, f"the borrower {borrower.state.value}", lost_s, False
    if borrower.state is JobState.QUEUED:
        ended_s = lines[-1].t_s if lines else now_s
        return ended_s, "the GPUs were called back", lost_s, True
    if owner is not None and owner.end_s is not None:
        return owner.end_s, "the owner ended; the borrower holds the GPUs now", 0.0, False
    return now_s, "the owner let go of the GPUs", 0.0, False


def _saving_s(borrower: Job | None) -> float:
    """Return how long a borrower that was called back saved itself: a GPU does little meanwhile."""
    return 0.0 if borrower is None else borrower.checkpointing.save_s


def _say(why: str, mid: float, sums: _Sums, *, had_room: bool) -> str:
    text = f"{why}: {mid / 3600:.2f} GPU-hours gained of {sums.lent / 3600:.2f} lent"
    if sums.unseen > 0:
        text += f", {sums.unseen / 3600:.2f} of them unseen"
    return text + ("; from some time on there was room elsewhere" if had_room else "")
