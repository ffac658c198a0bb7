"""The shapes that a plug has. Read this first.

A plug is one file and one line in its room's table. Packages from outside register an entry point
in the group `steward.KIND` (see `registry.py`). `tests/contracts/` runs every check of a port
against every plug of its kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from steward.model.decision import Decision, Receipt
from steward.model.event import Availability, Observation
from steward.model.finding import Finding, Pattern, Recurrence
from steward.model.forecast import ForecastColumn
from steward.model.layout import Layout
from steward.model.outcome import Interval, Outcome
from steward.model.view import ClusterView

__all__ = [
    "Actuator",
    "Collector",
    "Detector",
    "Estimator",
    "Meter",
    "Miner",
    "Policy",
    "Recogniser",
    "Resumable",
    "Sampler",
]


class Collector(Protocol):
    """Looks at one source. Names of metrics are those of its `vocabulary`; `observe` translates."""

    @property
    def name(self) -> str: ...

    @property
    def vocabulary(self) -> str: ...

    def available(self) -> Availability:
        """Say whether this source can be read here, quickly and without side effects."""
        ...

    def collect(self, t_s: float) -> Observation:
        """Return what is new at `t_s`. May raise; a fault here never stops the others."""
        ...

    def close(self) -> None:
        """Release files, sockets, processes and threads. Called last; twice does no harm."""
        ...


@runtime_checkable
class Sampler(Collector, Protocol):
    """A collector with numbers that are read many times between two looks, at a steady pace.

    `collect` then returns everything but these numbers (what changed, events, slow tables).
    """

    def layout(self) -> Layout:
        """Return what a tick holds: the same object until a device comes or goes."""
        ...

    def sample(self, into: NDArray[np.float64]) -> None:
        """Read once, a value per place of the layout; NaN is unknown. May raise: a gap then."""
        ...


@runtime_checkable
class Resumable(Protocol):
    """A collector that reads a stream, such as the lines of a file, and can go on in it."""

    def positions(self) -> Mapping[str, Any]:
        """Return how far it has read, as JSON knows it."""
        ...

    def resume(self, positions: Mapping[str, Any]) -> None:
        """Go on from there: neither lose nor repeat. Before the first look."""
        ...


class Miner(Protocol):
    """Finds what keeps happening. May keep counts between calls, in bounded memory."""

    @property
    def name(self) -> str: ...

    def mine(self, view: ClusterView) -> tuple[Pattern, ...]:
        """Take the moment into account and return what is now known to recur."""
        ...


class Estimator(Protocol):
    """Believes something about what cannot be seen, and gets better at it."""

    @property
    def name(self) -> str: ...

    def learn(self, view: ClusterView, outcomes: Sequence[Outcome]) -> None:
        """Take in one moment (with the jobs that ended before it) and new outcomes."""
        ...

    def predict(self, view: ClusterView) -> tuple[ForecastColumn, ...]:
        """Return columns along the view's tables. Must work before anything was learned."""
        ...


class Detector(Protocol):
    """Notices. Pure: the same view, the same findings."""

    @property
    def name(self) -> str: ...

    def detect(self, view: ClusterView) -> tuple[Finding, ...]:
        """Return what is worth knowing in this moment, with the samples behind it."""
        ...


class Recogniser(Protocol):
    """Notices what takes several moments to see. Keeps state between them, in bounded memory."""

    @property
    def name(self) -> str: ...

    def weigh(self, weights: Mapping[str, float]) -> None:
        """Take note of how far each rule was right so far, from 0 to 1."""
        ...

    def recognise(self, seen: Observation, view: ClusterView) -> tuple[Finding, ...]:
        """Read what is new and return what holds in this moment, what matters most first."""
        ...

    def recurrences(self, t_s: float) -> tuple[Recurrence, ...]:
        """Return how often findings came again since that was last told, where it is due."""
        ...


class Policy(Protocol):
    """Decides. Pure: the same view, the same decisions; no clock, no dice, no disk, no network."""

    @property
    def name(self) -> str: ...

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        """Return what should be done, best first, each with its reason."""
        ...


class Actuator(Protocol):
    """Does. Idempotent by decision id: carrying a decision out twice changes nothing more."""

    @property
    def name(self) -> str: ...

    def available(self) -> Availability:
        """Say whether this engine can be acted on here."""
        ...

    def carry_out(self, decision: Decision, t_s: float) -> Receipt:
        """Do it. Raise `TemporaryError` to be tried again, `PermanentError` to give up."""
        ...


class Meter(Protocol):
    """Answers what expressions of rules were worth, from what was recorded."""

    def mean(
        self, expr: str, about: Sequence[str], *, from_s: float, to_s: float
    ) -> Interval | None:
        """Return the mean for the first of these entities in that time; None is unknown.

        The others are looked at where the expression says nothing about the first.
        """
        ...

    def holds(self, expr: str, about: Sequence[str], *, t_s: float) -> bool | None:
        """Say whether a condition holds for one of these entities; None is unknown."""
        ...
