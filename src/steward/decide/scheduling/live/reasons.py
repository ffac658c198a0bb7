"""Why a job starts or makes room, in reasons."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.scheduling.live.ranks import Ranks, believed_quantity, urgent
from steward.decide.scheduling.ranking import Law, Ranking, Sharing
from steward.model.forecast import (
    RUN_RANK_ALL_GPU_S,
    RUN_RANK_GPU_S,
    RUN_USES_GPU_S,
    SIMILAR_JOBS,
    About,
    Forecast,
)
from steward.model.view import ClusterView

__all__ = ["Reasons"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reasons:
    """Speaks about the jobs of one view, as one policy ranks them."""

    ranking: Ranking
    view: ClusterView
    ranks: Ranks

    def start(self, row: int, after: tuple[str, ...]) -> str:
        """Say why a waiting job goes first."""
        view = self.view
        job = view.details[view.job_id(row)]
        waited_min = (view.t_s - view.jobs.queued_s[row]) / 60
        parts = [
            f"{job.tenant or 'nobody'}'s job {job.id} goes first: {self._rank(row)}",
            *self._urgency(row),
            *self._share(row),
            f"it has waited {waited_min:.0f} min for {_gpus(job.shape.gpus)}",
            *self._turn(job.shape.gpus, waited_min),
        ]
        room = f"; {', '.join(after)} make{'s' if len(after) == 1 else ''} room" if after else ""
        return ", ".join(parts) + room

    def _turn(self, gpus: int, waited_min: float) -> tuple[str, ...]:
        """Say that a gang goes first because it has waited too long."""
        turn_min = self.ranking.gang_wait_s / 60
        if gpus < 2 or waited_min < turn_min:
            return ()
        return (f"and after {turn_min:.0f} min a job of several GPUs goes before better ranks",)

    def stop(self, row: int, taker: str) -> str:
        """Say why a running job makes room."""
        view = self.view
        job = view.details[view.job_id(row)]
        cost_s = view.jobs.save_s[row] + view.jobs.restore_s[row]
        parts = [
            f"{job.tenant or 'nobody'}'s job {job.id} makes room for {taker}: {self._rank(row)}",
            *self._share(row),
            f"saving and restoring costs it {cost_s:.0f} s",
        ]
        return ", ".join(parts)

    def forecasts(self, row: int) -> tuple[Forecast, ...]:
        """Return the beliefs that a job's rank rests on."""
        quantity = believed_quantity(self.ranking)
        column = self.view.forecast(About.JOBS, quantity) if quantity else None
        return () if column is None else (column.row(row, self.view.job_id(row)),)

    def _rank(self, row: int) -> str:
        ran = self._ran(row)
        if self.ranking.law is Law.ARRIVAL:
            return "in order of arrival" if self.ranking.sharing is Sharing.ONE_QUEUE else ran
        if self.ranking.law is Law.LEVEL:
            level, last = int(self.ranks.key[row]), len(self.ranking.thresholds)
            return f"{ran}, level {level} of {last}"
        beliefs = self.forecasts(row)
        if not beliefs:
            return f"{ran}, and nothing is known of jobs like it"
        return self._belief(row, beliefs[0])

    def _urgency(self, row: int) -> tuple[str, ...]:
        """Say what moves a job forward beside its rank."""
        view, jobs = self.view, self.view.jobs
        told: list[str] = []
        if not self.forecasts(row):
            return ()  # then it does not count
        if urgent(self.ranking, view)[row]:
            due_min = (jobs.deadline_s[row] - view.t_s) / 60
            told.append(f"it is due in {due_min:.0f} min and may not wait longer")
        if self.ranking.class_weight != 1.0 and jobs.priority[row] != jobs.priority.min():
            told.append(f"it is of priority class {jobs.priority[row]}")
        return tuple(told)

    def _belief(self, row: int, belief: Forecast) -> str:
        similar = self.view.forecast(About.JOBS, SIMILAR_JOBS)
        of = "" if similar is None else f" ({similar.mid[row]:.0f} similar jobs)"
        if belief.quantity in (RUN_RANK_GPU_S, RUN_RANK_ALL_GPU_S):
            return f"rank {belief.mid / 3600:.2g} h of GPU time per finished job{of}"
        if belief.quantity == RUN_USES_GPU_S:
            expected = f"about {belief.mid / 3600:.2g} h of GPU time expected when it came"
            return f"{expected}{of}: durations are not known"
        return (
            f"about {belief.mid / 3600:.2g} h ({belief.low / 3600:.2g} to "
            f"{belief.high / 3600:.2g}) to its end as jobs like it went{of}: durations "
            f"are not known"
        )

    def _ran(self, row: int) -> str:
        ran_h = self.ranks.attained_s[row] / 3600
        gpus = int(self.view.jobs.gpus[row])
        return f"{ran_h * gpus:.2g} h of GPU time used so far" if ran_h else "it has not run yet"

    def _share(self, row: int) -> tuple[str, ...]:
        tenant = int(self.view.jobs.tenant[row])
        if self.ranking.sharing is Sharing.ONE_QUEUE:
            return ()
        if tenant < 0:
            return ("it belongs to no tenant that is known",)
        held, guaranteed = self.view.tenants.held[tenant], self.view.tenants.guaranteed[tenant]
        return (f"its tenant holds {held} of {guaranteed} guaranteed GPUs",)


def _gpus(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"
