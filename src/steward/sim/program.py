"""A job: what it asks for, the phases it would go through undisturbed, and where it is.

Phases are SYNTHETIC in length and order; what they look like is measured (`shapes`). Legitimate
quiet phases (loading data, compiling) sometimes last longer than five minutes, so that whoever
calls every quiet GPU idle is wrong now and then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, IntEnum
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.model.identity import JobId
from steward.model.job import Job, JobState
from steward.sim.cluster import BORROWER, NOBODY, OWNER
from steward.sim.shapes import Shapes

if TYPE_CHECKING:
    from steward.sim.loans import SimulatedLoan

__all__ = [
    "JobProgram",
    "Kind",
    "Order",
    "Phase",
    "SimulatedJob",
    "Use",
    "program_of",
    "restoring",
    "saving",
]

Ints = NDArray[np.int64]
_NOWHERE = np.empty(0, dtype=np.int64)

_SERVERS = ("decode_b1", "decode_b32", "prefill", "resnet50_b64", "bert_b1")
_SHORTEST_S = 0.1
_FOREVER_S = 30 * 24 * 3600.0  # longer than any time limit


class Kind(Enum):
    """What a job is for. SYNTHETIC."""

    TRAINING = "training"
    INPUT_BOUND = "input-bound"
    SIMULATION = "simulation"  # reinforcement learning: the processor works, the GPU hardly
    INFERENCE = "inference"
    NOTEBOOK = "notebook"
    HUNG = "hung"  # a training that stops working and holds its GPUs until its time limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One submission: what is asked for, and (known to the world only) what will come of it."""

    job: Job
    number: int
    kind: Kind
    duration_s: float
    limit_s: float
    fill_share: float  # of the memory asked for that is really used
    ends: JobState
    patience: float  # 0..1: who stays away from a long queue


class Use(IntEnum):
    """What a phase is good for. Only `IDLE` is waste."""

    WORK = 0
    SETUP = 1
    SAVE = 2
    RESTORE = 3
    IDLE = 4


class Phase(NamedTuple):
    """A stretch of a job's life: `shape` is a code of `Shapes`, `seconds` are at full speed."""

    shape: int
    seconds: float
    use: Use


class JobProgram:
    """All phases of a job. Progress is the seconds done, at full speed."""

    __slots__ = ("begins_s", "phases", "total_s")

    def __init__(self, phases: tuple[Phase, ...]) -> None:
        self.phases = phases
        ends = tuple(accumulate(phase.seconds for phase in phases))
        self.begins_s = (0.0, *ends[:-1])
        self.total_s = ends[-1] if ends else 0.0


class SimulatedJob:
    """A job that waits or runs. Time in its phases passes at `speed`: 1 when it is alone.

    `overlay` is a phase that is not part of the program: restoring, or saving when called back.
    """

    __slots__ = (
        "_under_s",
        "at",
        "epoch",
        "gpus",
        "job",
        "loan",
        "loans",
        "mask",
        "order",
        "overlay",
        "program",
        "saved_at",
        "saved_tau_s",
        "saved_work",
        "since_s",
        "slot",
        "speed",
        "split_loss",
        "stopping",
        "taken",
        "tau_s",
        "until_s",
    )

    def __init__(self, order: Order, mask: int) -> None:
        self.order = order
        self.job: Job = order.job
        self.mask = mask
        self.program = JobProgram(())  # written when it first starts
        self.at = 0  # position in the program
        self.overlay: Phase | None = None
        self.tau_s = 0.0  # seconds done of the current phase, at `since_s`
        self._under_s = 0.0  # seconds done of the program's phase below an overlay
        self.since_s = 0.0
        self.speed = 1.0
        self.epoch = 0  # planned events of an older epoch are void
        self.saved_at = 0
        self.saved_tau_s = 0.0
        self.saved_work = 0.0  # busy GPU-seconds of this run that are safe
        self.slot = NOBODY
        self.gpus: Ints = _NOWHERE
        self.loan: SimulatedLoan | None = None  # by which it runs
        self.loans: list[SimulatedLoan] = []  # of its own GPUs, to others
        self.split_loss = 0.0  # how much of its loss has been put down to its loans
        self.stopping = False  # it saves itself to be put back into the queue
        self.taken = 0  # when it took its GPUs, as a count
        self.until_s = math.inf  # when its time limit ends this run

    @property
    def id(self) -> JobId:
        return self.job.id

    @property
    def running(self) -> bool:
        return self.slot != NOBODY

    @property
    def seat(self) -> int:
        return OWNER if self.loan is None else BORROWER

    @property
    def phase(self) -> Phase:
        """Return what it does now."""
        return self.overlay or self.program.phases[self.at]

    @property
    def peak_bytes(self) -> float:
        """Return the memory that it uses on each GPU at most."""
        return self.order.fill_share * self.job.shape.gpu_memory_bytes

    def tau_at(self, t_s: float) -> float:
        """Return the seconds done of the current phase, never more than it has."""
        return min(self.tau_s + self.speed * (t_s - self.since_s), self.phase.seconds)

    def done_s(self, t_s: float) -> float:
        """Return the seconds done of the program; what an overlay does is not progress."""
        if not self.running or self.overlay is not None:
            return self.program.begins_s[self.at] + self._under_s
        return self.program.begins_s[self.at] + self.tau_at(t_s)

    @property
    def saved_s(self) -> float:
        """Return the progress that would survive a failure now."""
        return self.program.begins_s[self.saved_at] + self.saved_tau_s

    def cover(self, overlay: Phase, t_s: float) -> None:
        """Interrupt the program for another phase."""
        if self.overlay is None:
            self._under_s = self.tau_at(t_s)
        self.overlay, self.tau_s, self.since_s = overlay, 0.0, t_s

    def uncover(self, t_s: float) -> None:
        """Go on with the program where it was interrupted."""
        self.overlay, self.tau_s, self.since_s = None, self._under_s, t_s

    def following(self, t_s: float) -> bool:
        """Go on to the next phase of the program; False when there is none."""
        if self.at + 1 == len(self.program.phases):
            return False
        self.at, self.tau_s, self.since_s = self.at + 1, 0.0, t_s
        return True

    def save(self, work: float) -> None:
        """Make the progress so far safe; `work` is what it did in this run."""
        self.saved_at, self.saved_work = self.at, work
        self.saved_tau_s = self._under_s if self.overlay is not None else self.tau_s

    def stop(self) -> None:
        """Leave its GPUs; what it goes on from is what was saved."""
        self.at, self._under_s = self.saved_at, self.saved_tau_s
        self.overlay, self.speed, self.saved_work = None, 1.0, 0.0
        self.slot, self.gpus, self.loan = NOBODY, _NOWHERE, None
        self.split_loss = 0.0
        self.stopping = False
        self.epoch += 1


def saving(shapes: Shapes, seconds: float) -> Phase:
    """Return the phase of a job that is told to save itself."""
    return Phase(shapes.code("checkpoint"), max(seconds, _SHORTEST_S), Use.SAVE)


def restoring(shapes: Shapes, seconds: float) -> Phase:
    """Return the phase of a job that goes on where it was stopped."""
    return Phase(shapes.code("dataset_load"), max(seconds, _SHORTEST_S), Use.RESTORE)


def program_of(order: Order, shapes: Shapes, random: np.random.Generator) -> JobProgram:
    """Write the life of a job, from its order and dice of its own."""
    writer = _Writer(order, shapes, random)
    return JobProgram(tuple(_fitted(writer.lines(), order)))


def _fitted(lines: Iterator[Phase], order: Order) -> Iterator[Phase]:
    """Cut the phases off where the job's run time ends; a hung job only ends by its limit."""
    left_s = math.inf if order.kind is Kind.HUNG else max(order.duration_s, _SHORTEST_S)
    for phase in lines:
        if phase.seconds >= left_s:
            yield phase._replace(seconds=left_s)
            return
        if phase.seconds > 0:
            yield phase
            left_s -= phase.seconds


class _Writer:
    """Writes the phases of each kind of work; most of them never end by themselves."""

    def __init__(self, order: Order, shapes: Shapes, random: np.random.Generator) -> None:
        self._order = order
        self._random = random
        self._code = shapes.code
        self._train = int(random.choice(shapes.codes("train.")))
        self._infer = int(random.choice([shapes.code(f"infer.{name}") for name in _SERVERS]))

    def lines(self) -> Iterator[Phase]:
        lines: dict[Kind, Callable[[], Iterator[Phase]]] = {
            Kind.TRAINING: lambda: self._training(self._train),
            Kind.INPUT_BOUND: lambda: self._training(self._code("input_bound")),
            Kind.SIMULATION: lambda: self._training(self._code("rl_cpu_bound")),
            Kind.INFERENCE: self._inference,
            Kind.NOTEBOOK: self._notebook,
            Kind.HUNG: self._hung,
        }
        return lines[self._order.kind]()

    def _spell_s(self, low_s: float, high_s: float) -> float:
        return float(self._random.uniform(low_s, high_s))

    def _setup(self) -> Iterator[Phase]:
        """Load data and perhaps compile; short jobs have little of either."""
        most_s = 0.3 * self._order.duration_s
        large, compiles = (self._random.random(2) < (0.12, 0.3)).tolist()
        load_s = self._spell_s(360, 900) if large else self._spell_s(60, 300)
        yield Phase(self._code("dataset_load"), min(load_s, most_s), Use.SETUP)
        if compiles:
            yield Phase(self._code("compile"), min(self._spell_s(60, 480), most_s), Use.SETUP)

    def _training(self, shape: int) -> Iterator[Phase]:
        yield from self._setup()
        yield from self._rounds(shape)

    def _rounds(self, shape: int) -> Iterator[Phase]:
        how = self._order.job.checkpointing
        while how.able:
            yield Phase(shape, how.every_s, Use.WORK)
            yield Phase(self._code("checkpoint"), how.save_s, Use.SAVE)
        yield Phase(shape, _FOREVER_S, Use.WORK)

    def _hung(self) -> Iterator[Phase]:
        yield from self._setup()
        left_s = self._order.duration_s * self._spell_s(0.1, 0.6)
        for phase in self._rounds(self._train):
            if phase.seconds >= left_s:
                yield phase._replace(seconds=left_s, use=Use.WORK, shape=self._train)
                break
            yield phase
            left_s -= phase.seconds
        yield Phase(self._code("idle_allocated"), _FOREVER_S, Use.IDLE)

    def _inference(self) -> Iterator[Phase]:
        """Answer requests; between waves of them a sparse trickle, which is use all the same."""
        yield Phase(self._code("dataset_load"), self._spell_s(30, 120), Use.SETUP)
        while True:
            yield Phase(self._infer, self._spell_s(600, 3600), Use.WORK)
            yield Phase(self._code("infer.resnet50_sparse"), self._spell_s(300, 1500), Use.WORK)

    def _notebook(self) -> Iterator[Phase]:
        """Work in bursts, with a human being thinking, talking, eating or sleeping in between."""
        while True:
            yield Phase(self._train, self._spell_s(60, 600), Use.WORK)
            yield Phase(self._code("idle_allocated"), self._away_s(), Use.IDLE)

    def _away_s(self) -> float:
        if self._random.random() < 0.06:
            return self._spell_s(2700, 5400)
        return float(self._random.lognormal(math.log(1200), 0.9))
