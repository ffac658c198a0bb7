"""Lets jobs save before their time limit ends them, and warns the owners of those that need more.

The engine ends a job at its limit, and what it did since its last save is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from steward.model.actions import Save, Tell
from steward.model.decision import Decision
from steward.model.forecast import RUN_LEFT_S, About, Forecast
from steward.model.frame import job_entity
from steward.model.identity import DecisionId, stable_id
from steward.model.job import Job
from steward.model.view import RUNNING, ClusterView

__all__ = ["SaveBeforeLimit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveBeforeLimit:
    """Asks a job that can save to do so before its time limit, and tells whose job needs longer.

    A job is asked once for each run and limit, when as much time is left as it needs to save and
    `margin_s`; never before half of its limit is over. Its owner is told once, as soon as jobs like
    it run for longer than the limit leaves, in nine of ten cases: early enough to extend it.
    """

    margin_s: float = 60.0
    check_after_s: float = 600.0
    name: str = "save-before-limit"

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        """Return the requests and the warnings of this moment, the same in every turn."""
        return tuple(self._decisions(view))

    def _decisions(self, view: ClusterView) -> Iterator[Decision]:
        left = view.forecast(About.JOBS, RUN_LEFT_S)
        for row in np.flatnonzero(view.jobs.state == RUNNING).tolist():
            job = view.details[view.job_id(row)]
            if job.time_limit_s is None or job.start_s is None:
                continue
            left_s = job.start_s + job.time_limit_s - view.t_s
            save_s = min(job.checkpointing.save_s + self.margin_s, job.time_limit_s / 2)
            if job.checkpointing.able and 0.0 < left_s <= save_s:
                yield self._save(view, job, left_s)
            if left is not None and 0.0 < left_s < left.low[row]:
                yield self._tell(view, job, left_s, left.row(row, job.id))

    def _save(self, view: ClusterView, job: Job, left_s: float) -> Decision:
        takes_s = job.checkpointing.save_s
        because = (
            f"the time limit of job {job.id} ends it in {left_s:.0f} s, and a save may take "
            f"{takes_s:.0f} s"
        )
        return self._decision(view, job, Save(job=job.id), because)

    def _tell(self, view: ClusterView, job: Job, left_s: float, belief: Forecast) -> Decision:
        run_on = f"{belief.low / 3600:.2g} to {belief.high / 3600:.2g} h"
        because = (
            f"the time limit of job {job.id} ends it in {left_s / 3600:.2g} h, and jobs like it "
            f"run for {run_on} more"
        )
        text = f"{because}: `steward jobs extend {job.id} --time +MINUTES` gives it longer"
        about = job_entity(job.id)
        action = Tell(to=job.user or job.tenant, about=about, text=text, job=job.id)
        return self._decision(view, job, action, because, forecasts=(belief,))

    def _decision(
        self,
        view: ClusterView,
        job: Job,
        action: Save | Tell,
        because: str,
        *,
        forecasts: tuple[Forecast, ...] = (),
    ) -> Decision:
        run = (job.id, job.start_s, job.time_limit_s)
        return Decision(
            id=DecisionId(stable_id("d", self.name, action.type, *run)),
            t_s=view.t_s,
            policy=self.name,
            action=action,
            because=because,
            forecasts=forecasts,
            check_after_s=self.check_after_s,
            tenant=job.tenant,
            subject=job_entity(job.id),
        )
