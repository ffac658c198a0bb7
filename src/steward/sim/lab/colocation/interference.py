"""How fast a job is alone on a type of GPU, and beside another job on the same GPUs.

Measured where the trace's models are in a table of pairs. Jobs of which nothing was measured get
a made-up share: the mean speed beside others is drawn evenly from one of three ranges, and the
ranges are equally likely (Lucid calls such jobs tiny, medium and jumbo). Beside one certain
partner a job loses more the more that partner loses itself, so that its mean stays as drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.model.machines import Machines
from steward.model.throughput import ThroughputTable
from steward.model.trace import Trace
from steward.sim.lab.settings import LabSettings
from steward.sim.lab.time_shares.job_rates import JobRates, job_rates_of

__all__ = ["Interference", "interference_of"]

Floats = NDArray[np.float64]

MADE_UP_SPEEDS = ((0.95, 1.0), (0.85, 0.95), (0.7, 0.85))  # tiny, medium, jumbo
_SLOWEST = 0.05
_STREAM = 0x50414952  # keeps these dice apart from others with the same seed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Interference:
    """Speeds of all jobs of a trace, as plain lists: they are read one at a time."""

    alone: Sequence[Sequence[float]]  # by job, by type: 1 is what the trace's duration holds for
    model: Sequence[int]  # by job: row of the measured pairs; -1: made up
    shared_speed: Sequence[float]  # by job: mean over partners, of its speed alone; NaN: unknown
    measured: Sequence[Sequence[Sequence[float]]]  # by type, model, partner's model
    loss: Sequence[float]  # by job: made-up mean loss
    mean_loss: float
    notes: tuple[str, ...]

    def beside(self, job: int, other: int, kind: int) -> float:
        """Return a job's speed beside another on GPUs of a type, of its speed alone there.

        0: GPU memory does not hold both.
        """
        model, other_model = self.model[job], self.model[other]
        if model >= 0 and other_model >= 0:
            return self.measured[kind][model][other_model]
        return max(_SLOWEST, 1.0 - self.loss[job] * self.loss[other] / self.mean_loss)

    def as_measured(self, job: int, other: int, kind: int) -> tuple[float, float]:
        """Return the speeds of both beside one another as `beside` does; made up ones are NaN."""
        one, two = self.model[job], self.model[other]
        if one < 0 or two < 0:
            return np.nan, np.nan
        table = self.measured[kind]
        return table[one][two], table[two][one]


def interference_of(
    trace: Trace, machines: Machines, settings: LabSettings, table: ThroughputTable | None
) -> Interference:
    """Look up what was measured and make up the rest."""
    work = job_rates_of(trace, machines, table)
    speed = np.array([settings.type_speed.get(name, 1.0) for name in machines.types])
    alone = work.rate / work.reference_rate[:, None]
    alone = np.where((work.kind < 0)[:, None], alone * speed, alone)
    mean = _made_up(trace, settings.seed)
    pairs = _measured(work)
    known = np.flatnonzero(work.kind >= 0)
    loss = 1.0 - mean
    mean[known] = _means(work, pairs)[work.kind[known]]
    return Interference(
        alone=alone.tolist(),
        model=work.kind.tolist(),
        shared_speed=mean.tolist(),
        measured=pairs.tolist(),
        loss=loss.tolist(),
        mean_loss=float(loss.mean()) if len(loss) else 1.0,
        notes=_notes(work, len(known)),
    )


def _made_up(trace: Trace, seed: int) -> Floats:
    """Draw each job's mean speed beside others; jobs of one model bear sharing alike."""
    dice = np.random.default_rng([seed, _STREAM])
    low, high = np.array(MADE_UP_SPEEDS).T
    many = len(trace) + len(trace.models)
    group = dice.integers(0, len(low), many)
    drawn = low[group] + (high - low)[group] * dice.random(many)
    mean = drawn[: len(trace)].copy()
    named = trace.model >= 0
    mean[named] = drawn[len(trace) + trace.model[named]]
    return np.asarray(mean)


def _measured(work: JobRates) -> Floats:
    """Return (type, model, partner's model): speed together over speed alone."""
    if work.table is None:
        return np.zeros((len(work.columns), 0, 0))
    reference = work.table.types.index(work.table.reference)
    columns = np.where(work.columns >= 0, work.columns, reference)
    together = work.table.pairs[columns]
    alone = work.table.solo.T[columns][:, :, None]
    share = np.divide(together, alone, out=np.zeros(together.shape), where=alone > 0.0)
    return np.asarray(np.clip(np.nan_to_num(share), 0.0, 1.0))


def _means(work: JobRates, pairs: Floats) -> Floats:
    """Return each model's mean speed beside those it fits beside, on the reference type."""
    share = pairs[work.reference_type]
    beside = (share > 0.0).sum(axis=1)
    mean = np.full(len(beside), np.nan)
    np.divide(share.sum(axis=1), beside, out=mean, where=beside > 0)
    return mean


def _notes(work: JobRates, known: int) -> tuple[str, ...]:
    made_up = len(work.kind) - known
    if made_up == 0:
        return ()
    words = f"how fast {made_up} jobs are beside others is made up: {_words()}, drawn by the seed"
    return (*work.notes, words)


def _words() -> str:
    ranges = ", ".join(f"{low:g} to {high:g}" for low, high in MADE_UP_SPEEDS)
    return f"a third each has a mean speed of {ranges}"
