"""The shapes that a plug has. Read this first.

A plug is one file and one line in its room's table. Packages from outside register an entry point
in the group `steward.KIND` (see `registry.py`). `tests/contracts/` runs every check of a port
against every plug of its kind.

Ports are generic in the view of their domain: `Policy[ClusterView]` looks at a cluster. The loop
knows no domain by name; `DomainState` and `Verifier` are what a domain brings besides its plugs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from steward.model.actions import Action
from steward.model.by_hand import ByHand
from steward.model.decision import Decision, Receipt
from steward.model.event import Availability, LogLine, Observation
from steward.model.finding import Finding, Pattern, Recurrence
from steward.model.forecast import Forecast, ForecastColumn
from steward.model.identity import DecisionId, JobId
from steward.model.job import JobRequest
from steward.model.layout import Layout
from steward.model.outcome import Interval, Outcome, Story
from steward.model.serving.forecasts import ServingForecasts
from steward.model.serving.view import Dispatch, Scaling, ServingView

__all__ = [
    "Actuator",
    "Collector",
    "Detector",
    "Dispatcher",
    "DomainState",
    "Estimator",
    "Evicts",
    "KeepsFiles",
    "Learner",
    "Lister",
    "Meter",
    "Miner",
    "PlacesJobs",
    "Policy",
    "Recogniser",
    "Resumable",
    "Sampler",
    "Scaler",
    "ServingEstimator",
    "ShowsCommands",
    "Timed",
    "Verifier",
    "View",
]


class View(Protocol):
    """One moment of a domain, as far as every domain has it in common."""

    @property
    def t_s(self) -> float: ...

    @property
    def findings(self) -> tuple[Finding, ...]: ...

    @property
    def lasting(self) -> Mapping[DecisionId, JobId]:
        """Decisions whose effect lasts, each with whom it affects."""
        ...

    def unmet(self, action: Action) -> str:
        """Return why an action cannot be done in this moment, or an empty text."""
        ...

    def may_be_done(self, action: Action) -> bool:
        """Return whether this moment looks as if an action had been carried out already."""
        ...

    def is_lost(self, action: Action) -> bool:
        """Return whether something that an action names has failed: waiting does not help."""
        ...

    def claims_of(self, affected: JobId) -> frozenset[str]:
        """Return what is reserved while somebody is left alone."""
        ...

    def with_forecasts(self, columns: Iterable[ForecastColumn]) -> Self:
        """Return this moment with more forecasts."""
        ...

    def with_findings(self, findings: tuple[Finding, ...]) -> Self:
        """Return this moment with its findings."""
        ...


V = TypeVar("V", bound=View)
V_contra = TypeVar("V_contra", bound=View, contravariant=True)
V_co = TypeVar("V_co", bound=View, covariant=True)
A_co = TypeVar("A_co", bound=Action, covariant=True)


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


@runtime_checkable
class Lister(Protocol):
    """A collector that lists what an engine has, at its first answer or some time later."""

    def has_listed(self) -> bool:
        """Return whether what it brought so far holds all that the engine has."""
        ...


class Miner(Protocol[V_contra]):
    """Finds what keeps happening. May keep counts between calls, in bounded memory."""

    @property
    def name(self) -> str: ...

    def mine(self, view: V_contra) -> tuple[Pattern, ...]:
        """Take the moment into account and return what is now known to recur."""
        ...


class Estimator(Protocol[V_contra]):
    """Predicts what cannot be seen, and gets better at it."""

    @property
    def name(self) -> str: ...

    def learn(self, view: V_contra, outcomes: Sequence[Outcome]) -> None:
        """Take in one moment (with the jobs that ended before it) and new outcomes."""
        ...

    def predict(self, view: V_contra) -> tuple[ForecastColumn, ...]:
        """Return columns along the view's tables. Must work before anything was learned."""
        ...

    def estimate(self, request: JobRequest) -> tuple[Forecast, ...]:
        """Return what is predicted for a job before it runs; nothing where it cannot tell."""
        ...


@runtime_checkable
class Learner(Protocol):
    """An estimator, miner or verifier whose state is kept over restarts (`store/learned.py`)."""

    @property
    def state_version(self) -> int:
        """Changes whenever a saved state can no longer be read."""
        ...

    def save_state(self) -> dict[str, Any]:
        """Return the state as JSON values and numpy arrays."""
        ...

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state. May raise on one that does not fit: it is discarded then."""
        ...


class Detector(Protocol[V_contra]):
    """Notices. Pure: the same view, the same findings."""

    @property
    def name(self) -> str: ...

    def detect(self, view: V_contra) -> tuple[Finding, ...]:
        """Return what is worth knowing in this moment, with the samples behind it."""
        ...


class Recogniser(Protocol[V_contra]):
    """Notices what takes several moments to see. Keeps state between them, in bounded memory."""

    @property
    def name(self) -> str: ...

    def weigh(self, weights: Mapping[str, float]) -> None:
        """Take note of how far each rule was right so far, from 0 to 1."""
        ...

    def resume(self, found: Sequence[tuple[Finding, float]], lines: Sequence[LogLine]) -> None:
        """Restore what lines of an earlier run had begun, before the first `recognise`.

        `found` are findings, oldest first, with the time that the journal last has them at; `lines`
        are recorded ones, by time.
        """
        ...

    def recognise(self, seen: Observation, view: V_contra) -> tuple[Finding, ...]:
        """Read what is new and return what holds in this moment, what matters most first."""
        ...

    def recurrences(self, t_s: float) -> tuple[Recurrence, ...]:
        """Return how often findings came again since that was last told, where it is due."""
        ...


class Policy(Protocol[V_contra]):
    """Decides. Pure: the same view, the same decisions; no clock, randomness, disk or network."""

    @property
    def name(self) -> str: ...

    def decide(self, view: V_contra) -> tuple[Decision, ...]:
        """Return what should be done, best first, each with its reason."""
        ...


class Dispatcher(Protocol):
    """Chooses which waiting requests go to which model server: called for single requests.

    Pure, as a policy is: a gateway and the simulator call the same object.
    """

    @property
    def name(self) -> str: ...

    def dispatch(self, view: ServingView) -> Dispatch:
        """Return what to send where. Called when requests wait and an instance has room."""
        ...


@runtime_checkable
class Evicts(Protocol):
    """A dispatcher that takes running work from instances: called without room, too."""

    @property
    def evicts(self) -> bool: ...


class Scaler(Protocol):
    """Chooses how many instances of which type there are, every `every_s`. Pure."""

    @property
    def name(self) -> str: ...

    @property
    def every_s(self) -> float: ...

    def scale(self, view: ServingView) -> Scaling:
        """Return which instances to start and to drain, and how much each may have in flight."""
        ...


class ServingEstimator(Protocol):
    """Predicts how much work waiting requests are, and gets better at it with each that ends.

    Called before a dispatcher or scaler is, by the simulator and the gateway alike.
    """

    @property
    def name(self) -> str: ...

    def learn(self, view: ServingView, ended: NDArray[np.int64]) -> None:
        """Take in the requests that ended since the last call: rows, by time."""
        ...

    def predict(self, view: ServingView) -> ServingForecasts:
        """Return columns along the view's tables. Must work before anything was learned."""
        ...


class Actuator(Protocol[A_co]):
    """Carries out. Idempotent by decision id: carrying one out twice changes nothing more."""

    @property
    def name(self) -> str: ...

    def available(self) -> Availability:
        """Return whether this engine can be acted on here."""
        ...

    def actions(self) -> tuple[type[A_co], ...]:
        """Return the actions that this engine can carry out here."""
        ...

    def carry_out(self, decision: Decision, t_s: float) -> Receipt:
        """Do it, or begin to. Raise `TemporaryError` for a retry, `PermanentError` to give up."""
        ...

    def progress(self, decision: Decision, t_s: float) -> Receipt:
        """Return how far a decision is that was begun, by this process or an earlier one."""
        ...


@runtime_checkable
class Timed(Protocol):
    """An actuator with work that is due at a time of its own, which no turn may be near."""

    def next_s(self) -> float | None:
        """Return when the next of it is due, None if nothing is."""
        ...


@runtime_checkable
class ShowsCommands(Protocol):
    """An actuator that knows what a person would type for the same."""

    def by_hand(self, decision: Decision, t_s: float) -> ByHand:
        """Return the commands for a decision as things are now. It changes nothing."""
        ...


@runtime_checkable
class KeepsFiles(Protocol):
    """An actuator that keeps something of its own over a restart."""

    def keep_in(self, folder: Path) -> None:
        """Keep it in this folder of the store, which may not be there yet."""
        ...


@runtime_checkable
class PlacesJobs(Protocol):
    """An actuator whose engine chooses the GPUs of a job itself."""

    def places(self, action: Action) -> bool:
        """Return whether the GPUs in an action are advice: the engine may take others."""
        ...


class DomainState(Protocol[V_co]):
    """What a domain knows: observations are folded in, views come out."""

    def fold(self, seen: Observation) -> None:
        """Take in one observation."""
        ...

    def apply(self, decision: Decision, receipt: Receipt) -> None:
        """Take in that a decision was carried out, where observations will not show it."""
        ...

    def reserve(self, claims: Iterable[str]) -> None:
        """Set about what nothing new should be decided."""
        ...

    def view(self, t_s: float) -> V_co:
        """Return the moment as it is at `t_s`."""
        ...


class Verifier(Protocol[V_contra]):
    """Measures what decisions were worth, each by its action's yardstick."""

    def begin(self, decision: Decision, receipt: Receipt, view: V_contra) -> None:
        """Start to follow a decision that was carried out or begun."""
        ...

    def resume(self, story: Story) -> None:
        """Go on with a decision of an earlier run."""
        ...

    def follow(self, view: V_contra) -> list[tuple[Decision, Outcome]]:
        """Take in one moment; return the outcomes that are due in it."""
        ...

    def forget(self, decision: DecisionId) -> None:
        """Stop following a decision that was begun and failed after all."""
        ...

    def so_far(self, view: V_contra) -> tuple[Outcome, ...]:
        """Return what open cases have brought since their last check; nothing is settled."""
        ...

    def settle(self, view: V_contra) -> list[Outcome]:
        """Close the accounts up to now: steward is about to stop."""
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
