"""From labels to a deployed model: estimated, placed, trained, compared, and deployed if better."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from ecology.facts import Facts
from ecology.jobs import JobRun, Steward
from ecology.network import Model
from ecology.placement import Work, place
from ecology.results import Retraining
from ecology.scores import macro_f1
from ecology.time_model import TimeModel
from ecology.train import steps_for, train

__all__ = ["DirectTrainer", "Estimates", "JobTrainer", "Retrainer", "Trained", "Trainer", "Wish"]

Crops = NDArray[np.uint8]
Names = NDArray[np.str_]
SMALL_STEPS = (20, 100)  # of the downsized runs
PREEMPT_AT = 0.4  # of its steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """A model and what its training took."""

    model: Model
    core_s: float
    wall_s: float
    peak_bytes: float
    job: str = ""
    attempts: int = 1
    bit_equal: bool | None = None


class Trainer(Protocol):
    """Trains on crops and their names."""

    def train(
        self, crops: Crops, names: Names, *, seed: int, title: str, steps: int | None = None
    ) -> Trained: ...


@dataclass(slots=True)
class DirectTrainer:
    """Trains in this process."""

    def train(
        self, crops: Crops, names: Names, *, seed: int, title: str, steps: int | None = None
    ) -> Trained:
        del title
        began_s, core_s = time.perf_counter(), time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            network, classes, _ = train(
                crops, names, seed=seed, most_steps=steps, folder=Path(folder)
            )
        return Trained(
            model=Model(network.eval(), classes),
            core_s=time.process_time() - core_s,
            wall_s=time.perf_counter() - began_s,
            peak_bytes=0.0,
        )


@dataclass(slots=True)
class JobTrainer:
    """Trains as a job of steward; the first full training is pre-empted once and must not differ.

    All places are this machine here: where a plan sends a training is part of the job's name.
    """

    steward: Steward
    folder: Path
    say: Callable[[str], None]
    preempt_next: bool = True
    _count: int = 0

    def train(
        self, crops: Crops, names: Names, *, seed: int, title: str, steps: int | None = None
    ) -> Trained:
        self._count += 1
        data, model = (self.folder / f"{self._count}{end}" for end in (".npz", ".pt"))
        np.savez(data, crops=crops, labels=names)
        command = [sys.executable, "-m", "ecology.train", str(data), str(model)]
        command += ["--seed", str(seed), *(["--steps", str(steps)] if steps else [])]
        preempted = self.preempt_next and steps is None
        self.preempt_next = self.preempt_next and not preempted
        at = int(PREEMPT_AT * steps_for(len(crops))) if preempted else None
        run = self.steward.run(title, command, preempt_at=at, watch=self.say)
        made = Model.read(model)
        equal = None
        if preempted:
            twin = DirectTrainer().train(crops, names, seed=seed, title=title).model
            equal = same_weights(made, twin)
        return _trained(made, run, equal=equal)


def _trained(model: Model, run: JobRun, *, equal: bool | None) -> Trained:
    return Trained(
        model=model,
        core_s=run.cpu_s or run.report["cpu_s"],
        wall_s=run.wall_s,
        peak_bytes=max(run.peak_bytes, run.report["peak_bytes"]),
        job=run.id,
        attempts=run.attempts,
        bit_equal=equal,
    )


def same_weights(one: Model, other: Model) -> bool:
    """Return True if two models are equal in every bit."""
    first, second = one.network.state_dict(), other.network.state_dict()
    return one.classes == other.classes and all(
        torch.equal(first[name], second[name]) for name in first
    )


@dataclass(slots=True)
class Estimates:
    """What a training will take: seconds of a core, seconds on the clock, and memory."""

    core: TimeModel
    wall: TimeModel
    memory_bytes: float

    @classmethod
    def from_small_runs(cls, trainer: Trainer, crops: Crops, names: Names) -> Estimates:
        """Run two downsized trainings."""
        small = [
            (steps, trainer.train(crops, names, seed=0, title=f"small-run-{steps}", steps=steps))
            for steps in SMALL_STEPS
        ]
        return cls(
            core=TimeModel.fitted([(steps, each.core_s) for steps, each in small]),
            wall=TimeModel.fitted([(steps, each.wall_s) for steps, each in small]),
            memory_bytes=max(each.peak_bytes for _, each in small),
        )

    def learn(self, steps: int, done: Trained) -> None:
        """Set the levels by a training; another begin after a pre-emption is not its own."""
        again = done.attempts - 1
        self.core.learn(steps, done.core_s - again * self.core.begin_s)
        self.wall.learn(steps, done.wall_s - again * self.wall.begin_s)
        self.memory_bytes = max(self.memory_bytes, done.peak_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A retraining that somebody asks for."""

    why: str
    deadline_s: float


@dataclass(slots=True, kw_only=True)
class Retrainer:
    """Estimates, places, trains and compares; keeps what was."""

    facts: Facts
    trainer: Trainer
    estimates: Estimates
    seed: int
    done: list[Retraining] = field(default_factory=list)

    def retrain(
        self,
        deployed: Model,
        wish: Wish,
        *,
        day: int,
        taught: tuple[Crops, Names],
        held_out: tuple[Crops, Names],
        edge_joules_left: float,
    ) -> Model:
        """Return the better of the deployed and the new model on labels that neither has seen."""
        crops, names = taught
        steps = steps_for(len(crops))
        work = Work(
            seconds=self.estimates.core.predict(steps),
            memory_bytes=self.estimates.memory_bytes,
            deadline_s=wish.deadline_s,
            edge_joules_left=edge_joules_left,
        )
        wall_s, plan = self.estimates.wall.predict(steps), place(work, self.facts.places)
        if plan.chosen is None:
            return deployed  # nowhere to train in time
        new = self.trainer.train(
            crops,
            names,
            seed=self.seed + day,
            title=f"retrain-day-{day}-at-{plan.chosen.place.name}",
        )
        before, after = (_f1(each, held_out) for each in (deployed, new.model))
        again = new.attempts - 1
        self.done.append(
            Retraining(
                day=day, why=wish.why, crops=len(crops), steps=steps, plan=plan,
                predicted_s=work.seconds,
                actual_s=new.core_s - again * self.estimates.core.begin_s,
                predicted_wall_s=wall_s, wall_s=new.wall_s - again * self.estimates.wall.begin_s,
                predicted_bytes=work.memory_bytes, peak_bytes=new.peak_bytes,
                f1_before=before, f1_after=after, deployed=after > before,
                job=new.job, attempts=new.attempts, bit_equal=new.bit_equal,
            )
        )  # fmt: skip
        self.estimates.learn(steps, new)
        return new.model if after > before else deployed


def _f1(model: Model, held_out: tuple[Crops, Names]) -> float:
    crops, names = held_out
    return macro_f1(names, model.ask(crops).names)


def errors_after_first(done: Sequence[Retraining]) -> list[float]:
    """Return how far predictions were off, without the first training that set the level."""
    return [each.error_share for each in done[1:]]
