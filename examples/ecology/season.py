"""The whole example: record a season, run the three strategies, and put them side by side."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch

from ecology.captures import Captures, record
from ecology.facts import Facts, read_facts
from ecology.jobs import Steward, steward_up
from ecology.network import Model
from ecology.page import SeasonReport
from ecology.results import SeasonResult
from ecology.retraining import DirectTrainer, Estimates, JobTrainer, Retrainer, Trainer
from ecology.strategies import (
    Always,
    Field,
    Never,
    Selective,
    Start,
    Strategy,
    run_season,
    start_of,
)
from ecology.stream import Season

__all__ = ["with_jobs", "without_jobs"]

Say = Callable[[str], None]


class Stage:
    """What all strategies share: the recorded season, the labels and the model of the start."""

    def __init__(self, season: Season, say: Say) -> None:
        torch.set_num_threads(1)
        self.began_s = time.monotonic()
        self.season, self.say = season, say
        self.facts: Facts = read_facts()
        say("recording the season at the cameras")
        self.captures: Captures = record(season)
        self.start: Start = start_of(self.captures, np.random.default_rng([season.seed, 1]))
        crops, names = self.labels()
        say(f"{len(self.captures):,} frames; training the first model on {len(crops)} labels")
        trained = DirectTrainer().train(crops, names, seed=season.seed, title="start")
        self.model: Model = trained.model

    def labels(self) -> tuple[np.ndarray, np.ndarray]:
        """Return what the first model is trained on."""
        rows = self.start.taught
        return self.captures.crops[rows], self.captures.truth[rows]

    def run(self, strategy: Strategy, trainer: Trainer, estimates: Estimates) -> SeasonResult:
        """Run the season under a strategy."""
        retrainer = Retrainer(
            facts=self.facts, trainer=trainer, estimates=estimates, seed=self.season.seed
        )
        self.say(f"a season of: {strategy.name}")
        random = np.random.default_rng([self.season.seed, 2])
        field = Field.begun(self.captures, self.start, self.model, random)
        return run_season(field, self.facts, strategy, retrainer, say=self.say)

    def rivals(self) -> tuple[SeasonResult, SeasonResult]:
        """Run both rivals, trained in this process: without the seconds that a job begins with."""
        trainer = DirectTrainer()
        estimates = Estimates.from_small_runs(trainer, *self.labels())
        always = self.run(Always(), trainer, estimates)
        return always, self.run(Never(), trainer, estimates)

    def report(self, *results: SeasonResult) -> SeasonReport:
        """Return what the page shows."""
        took_s = time.monotonic() - self.began_s
        return SeasonReport(seed=self.season.seed, results=results, facts=self.facts, took_s=took_s)


def without_jobs(season: Season, folder: Path, say: Say) -> SeasonReport:
    """Run everything in this process: for benchmarks, and where no steward may be started."""
    del folder
    stage = Stage(season, say)
    trainer = DirectTrainer()
    ours = stage.run(Selective(), trainer, Estimates.from_small_runs(trainer, *stage.labels()))
    return stage.report(ours, *stage.rivals())


def with_jobs(season: Season, folder: Path, say: Say) -> SeasonReport:
    """Run the season with trainings as jobs of a steward that is started for it.

    The rivals come first: the first job on a machine waits until steward's scheduler is compiled.
    """
    with ExitStack() as stack:
        # A steward's socket needs a short path.
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ecology-")))
        pool = stack.enter_context(ThreadPoolExecutor(1))
        started = pool.submit(_started, stack, place)
        stage = Stage(season, say)
        rivals = stage.rivals()
        if not started.done():
            say("steward compiles its scheduler, once on a machine: a minute or two")
        steward = started.result()
        folder.mkdir(parents=True, exist_ok=True)
        trainer = JobTrainer(steward, folder, say)
        say("two downsized runs")
        estimates = Estimates.from_small_runs(trainer, *stage.labels())
        ours = stage.run(Selective(), trainer, estimates)
        return stage.report(ours, *rivals)


def _started(stack: ExitStack, place: Path) -> Steward:
    """Start steward and run a job that does nothing."""
    steward = stack.enter_context(steward_up(place))
    steward.run("warm-up", ["true"])
    return steward
