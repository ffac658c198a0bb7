"""Runs a campaign: plans, submits, measures, learns; whatever ends it, it goes on where it was."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import Protocol

import numpy as np

from steward.clock import Clock, WallClock
from steward.errors import StewardError
from steward.learn.estimators.applications.application import Application, restored_application
from steward.learn.estimators.applications.campaign_log import CampaignLog, CampaignRun
from steward.learn.estimators.applications.planning import RunPlanner, narrowed
from steward.model.campaign import Campaign, Configuration, MeasuredRun
from steward.store.learned import LearnedStates

__all__ = [
    "STATE",
    "CampaignRunner",
    "JobLook",
    "PlannedRun",
    "RunEngine",
    "learned_application",
    "planned_ahead",
    "recalibrating_campaign",
]

STATE = "application"  # name of the learned state in a campaign's folder
MOST_POLL_S = 5.0
ALL_FAILED = 5  # runs in a row from the first: the command is wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLook:
    """What an engine shows of the job of a run. `seconds` is None where it never began."""

    over: bool
    finished: bool = False
    seconds: float | None = None
    memory_bytes: float | None = None
    gpu_memory_bytes: float | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """A run that would come next. Its cost is relative until three runs have finished."""

    configuration: Configuration
    full: bool
    expected_cost: float
    because: str


class RunEngine(Protocol):
    """Where runs are submitted to. The same token is the same job, whoever submits it again."""

    def submit(
        self, argv: Sequence[str], options: Mapping[str, str], *, name: str, token: str
    ) -> str: ...

    def look(self, job: str) -> JobLook: ...

    @property
    def poll_s(self) -> float: ...


class CampaignRunner:
    """One campaign on one engine. Hold `log.locked()` around it."""

    def __init__(
        self,
        campaign: Campaign,
        log: CampaignLog,
        engine: RunEngine,
        *,
        clock: Clock | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._campaign, self._log, self._engine = campaign, log, engine
        self._clock = clock or WallClock()
        self._tell = tell
        self._planner = RunPlanner(campaign)
        self._states = LearnedStates(log.folder, clock=self._clock)
        self._learned_from = 0
        self.application: Application | None = None
        log.begin(campaign)

    def run(self, stop: threading.Event | None = None) -> str:
        """Run the campaign until it is over, and return why; open runs go on when it is stopped."""
        stop = stop or threading.Event()
        pause_s = 0.05
        while not stop.is_set():
            ended, why = self.step()
            if why:
                return why
            pause_s = 0.05 if ended else min(1.3 * pause_s, self._engine.poll_s, MOST_POLL_S)
            self._clock.wait(pause_s, stop)
        return "stopped; the same command goes on with it"

    def step(self) -> tuple[int, str]:
        """Look at open runs and submit what there is room for.

        Returns how many runs ended, and why the campaign is over, if it is.
        """
        ended = self._collect()
        self._check_all_failed()
        if ended:
            self._learn(least=max(4, self._learned_from // 5))
        why = self._reached()
        while not why and len(self._open()) < self._campaign.concurrency:
            why = self._submit_next()
        if not why or self._open():
            return ended, ""
        self._learn(least=1)
        return ended, why

    # -- runs ----------------------------------------------------------------------------------

    def _open(self) -> list[CampaignRun]:
        return [each for each in self._log.runs.values() if each.open]

    def _collect(self) -> int:
        """Record the runs that are over; submit those again of which no job is known."""
        count = 0
        for run in self._open():
            if not run.job:  # this or an earlier process was killed on the way
                self._submit(run)
                continue
            seen = self._engine.look(run.job)
            if not seen.over:
                continue
            measured = MeasuredRun(
                configuration=run.configuration,
                full=run.full,
                seconds=max(0.0, seen.seconds or 0.0),
                finished=seen.finished and bool(seen.seconds),
                memory_bytes=seen.memory_bytes,
                gpu_memory_bytes=seen.gpu_memory_bytes,
                why=seen.why,
            )
            self._log.ended(run.number, measured)
            self._tell(_line(run, measured))
            count += 1
        return count

    def _submit_next(self) -> str:
        """Plan and submit one run; return why there is none."""
        under_way = [(x.configuration, x.full) for x in self._open()]
        found = self._planner.next_run(self._log.measured(), under_way, noise=self._noise())
        if isinstance(found, str):
            return found
        configuration, chosen = found
        self._submit(
            self._log.plan(
                configuration,
                full=self._campaign.is_full(configuration),
                cost=chosen.cost,
                why=chosen.because,
            )
        )
        return ""

    def _submit(self, run: CampaignRun) -> None:
        campaign = self._campaign
        job = self._engine.submit(
            campaign.argv(run.configuration),
            campaign.options_of(run.configuration),
            name=f"{campaign.name}-{run.number}",
            token=run.token,
        )
        self._log.submitted(run.number, job)

    def _check_all_failed(self) -> None:
        ended = self._log.measured()
        if len(ended) < ALL_FAILED or any(each.finished for each in ended):
            return
        last = [each for each in self._log.runs.values() if not each.open][-1]
        problem = (
            f"all {len(ended)} runs failed; the last: {last.measured.why if last.measured else ''}"
        )
        hint = f"`steward jobs logs {last.job}` shows why; then begin anew under another name"
        raise StewardError(problem, where=f"campaign {self._campaign.name}", hint=hint)

    # -- learning ------------------------------------------------------------------------------

    def _learn(self, *, least: int) -> None:
        """Learn from all runs and save it, if so many more have ended."""
        runs = self._log.measured()
        finished = sum(each.finished for each in runs)
        if finished < 3 or len(runs) - self._learned_from < least:
            return
        self.application = _learned(self._campaign, runs)
        self._learned_from = len(runs)
        self._states.save(
            STATE,
            Application.state_version,
            self.application.save_state(),
            learnt_from={"runs": len(runs), "finished": finished},
        )

    def _noise(self) -> float:
        """Return by how much runs differ from what is expected of them, as far as is known."""
        if self.application is None:
            return 0.1
        scores = self.application.choices["seconds"].scores
        return float(np.clip(np.median(np.abs(scores)) / 0.6745, 0.02, 0.5)) if len(scores) else 0.1

    def _reached(self) -> str:
        """Return why the estimate is good enough, if it is."""
        known = self.application
        wants_full = self._campaign.most_full_runs > 0
        if known is None or (wants_full and known.full_runs == 0) or len(known.choices) == 0:
            return ""
        if known.runs < 3 + len(self._campaign.parameters):
            return ""
        found = known.predict(self._planner.targets)
        width = float(np.mean(np.log(found.high / found.low)) / 2.0)
        if width > log(1.0 + self._campaign.width):
            return ""
        return f"limits at full scale are within {np.expm1(width):.0%} of the estimate"


def planned_ahead(campaign: Campaign, log: CampaignLog, *, most: int) -> list[PlannedRun]:
    """Return the next runs, if none changed what is expected of the others."""
    planner = RunPlanner(campaign)
    under_way = [(x.configuration, x.full) for x in log.runs.values() if x.open]
    found = []
    for _ in range(most):
        chosen = planner.next_run(log.measured(), under_way)
        if isinstance(chosen, str):
            break
        configuration, run = chosen
        full = campaign.is_full(configuration)
        under_way.append((configuration, full))
        found.append(
            PlannedRun(
                configuration=configuration,
                full=full,
                expected_cost=run.cost,
                because=run.because,
            )
        )
    return found


def learned_application(folder: Path) -> Application:
    """Return what a campaign has learnt, or raise why there is nothing."""
    states = LearnedStates(folder, read_only=True)
    hint = "`steward estimate campaign FILE` runs one; after three runs it has learnt something"
    state, why = states.load(STATE, Application.state_version)
    if state is None:
        raise StewardError(why, where=str(folder), hint=hint)
    try:
        return restored_application(state.payload)
    except (KeyError, TypeError, ValueError, IndexError) as fault:
        problem = f"what was learnt does not fit ({type(fault).__name__}: {fault})"
        raise StewardError(problem, where=str(folder), hint=hint) from fault


def recalibrating_campaign(
    campaign: Campaign, application: Application, run: Configuration, *, seconds: float, over: bool
) -> Campaign | None:
    """Return a small campaign where a job was mis-estimated, or None where it was not.

    `seconds` is what the job at full scale took, or has taken so far unless it is `over`. The
    campaign is about its configuration and may cost a tenth of what the job took.
    """
    expected = application.predict([run])
    low, high = float(expected.low[0]), float(expected.high[0])
    if seconds <= high and (seconds >= low or not over):
        return None
    cost = campaign.cost(run, max(seconds, float(expected.mid[0])))
    return narrowed(campaign, run, budget_s=max(1.0, 0.1 * cost))


def _learned(campaign: Campaign, runs: Sequence[MeasuredRun]) -> Application:
    made = Application(campaign.name, campaign.parameters, campaign.work)
    made.learn(runs)
    return made


def _line(run: CampaignRun, measured: MeasuredRun) -> str:
    values = " ".join(f"{name}={value}" for name, value in run.configuration.items())
    scale = "full scale" if run.full else "downsized"
    if measured.finished:
        return f"run {run.number} ({scale}, {values}): {measured.seconds:.3g} s"
    took = f"{measured.seconds:.3g} s"
    return f"run {run.number} ({scale}, {values}) failed after {took}: {measured.why}"
