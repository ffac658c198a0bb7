"""The gateway's moment as columns: the `ServingView` of real requests and real model servers.

Rows of requests are reused, so the columns are as long as the most that were known at once. Names
of types, models and tenants are only ever added: estimators keep numbers by their positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.model.serving.forecasts import ServingForecasts
from steward.model.serving.instance_type import InstanceType
from steward.model.serving.requests import DeadlineClass
from steward.model.serving.view import (
    ARRIVING,
    DONE,
    LEAVING,
    QUEUED,
    RUNNING,
    SENT,
    InstanceColumns,
    RequestColumns,
    ServingView,
)

__all__ = ["InstanceRow", "LiveView"]

Ints = NDArray[np.int64]
_FIRST_ROWS = 256
_MOST_NAMES = 4096  # tenants and models that are told apart
_FLOATS = ("arrival_s", "deadline_s", "sent_s", "first_token_s", "finish_s")
_INTS = (
    *("prompt_tokens", "deadline_class", "tenant", "model", "state", "generated_tokens"),
    "instance",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRow:
    """What does not follow from the requests: one upstream with one of its models."""

    type: int
    model: int
    state: int
    limit: int
    room: int
    role: int


class LiveView:
    """Requests and instances of this moment; written by the queue, read by dispatchers."""

    def __init__(self, classes: Sequence[DeadlineClass]) -> None:
        self.classes = tuple(classes)
        self.types: tuple[InstanceType, ...] = ()
        self.models: tuple[str, ...] = ()
        self.tenants: tuple[str, ...] = ()
        self._codes: dict[tuple[str, str], int] = {}
        self._columns: dict[str, NDArray[Any]] = {}
        self._free: list[int] = []
        self._ended: list[int] = []
        self._queue: Ints = np.zeros(0, np.int64)
        self._entered: list[int] = []  # since the queue was last put into an array
        self._left = False  # rows of the queue are no longer waiting
        self._grow(_FIRST_ROWS)

    def __len__(self) -> int:
        """Return how many rows there are, in use or not."""
        return len(self._columns["state"])

    # -- names ---------------------------------------------------------------------------------

    def set_classes(self, classes: Iterable[DeadlineClass]) -> None:
        """Take the classes of a new configuration; those it lacks stay, for who still has them."""
        new = {each.name: each for each in classes}
        kept = tuple(new.pop(each.name, each) for each in self.classes)
        self.classes = (*kept, *new.values())

    def class_code(self, name: str) -> int:
        """Return the position of a class, -1 if there is none of this name."""
        return next((at for at, each in enumerate(self.classes) if each.name == name), -1)

    def type_code(self, kind: InstanceType) -> int:
        """Return the position of a type; one with the same name takes the place of the older."""
        for at, each in enumerate(self.types):
            if each.name == kind.name:
                self.types = (*self.types[:at], kind, *self.types[at + 1 :])
                return at
        self.types = (*self.types, kind)
        return len(self.types) - 1

    def model_code(self, name: str) -> int:
        """Return the position of a model."""
        code = self._codes.get(("model", name))
        if code is None:
            code = self._codes["model", name] = len(self.models)
            self.models = (*self.models, name)
        return code

    def knows_model(self, name: str) -> bool:
        """Return whether a model has a position, or there is one left for it."""
        return ("model", name) in self._codes or len(self.models) < _MOST_NAMES

    def tenant_code(self, name: str) -> int:
        """Return the position of a tenant; -1 for nobody, and where there are too many."""
        code = self._codes.get(("tenant", name), -1)
        if code < 0 and name and len(self.tenants) < _MOST_NAMES:
            code = self._codes["tenant", name] = len(self.tenants)
            self.tenants = (*self.tenants, name)
        return code

    # -- requests ------------------------------------------------------------------------------

    def enter(self, **values: float) -> int:
        """Add a waiting request and return its row."""
        if not self._free:
            self._grow(2 * len(self))
        row = self._free.pop()
        columns = self._columns
        for name, value in values.items():
            columns[name][row] = value
        columns["state"][row] = QUEUED
        columns["instance"][row] = -1
        columns["generated_tokens"][row] = 0
        for name in ("sent_s", "first_token_s", "finish_s"):
            columns[name][row] = np.nan
        self._entered.append(row)
        return row

    def send(self, row: int, instance: int, t_s: float, *, begun: bool) -> None:
        """Mark a waiting request as sent; `begun` where nobody will see its first token."""
        columns = self._columns
        columns["state"][row] = RUNNING if begun else SENT
        columns["instance"][row] = instance
        if np.isnan(columns["sent_s"][row]):
            columns["sent_s"][row] = t_s
        self._left = True

    def begin(self, row: int, t_s: float) -> None:
        """Mark the first token of a request."""
        self._columns["state"][row] = RUNNING
        self._columns["first_token_s"][row] = t_s

    def begun_until(self, row: int, instance: int) -> int:
        """Return how many run where a request runs, and were sent no later than it was."""
        columns = self._columns
        here = (columns["instance"] == instance) & (columns["state"] == RUNNING)
        return int(np.count_nonzero(here & (columns["sent_s"] <= columns["sent_s"][row])))

    def evict(self, row: int) -> None:
        """Mark a request as leaving its instance, until it is given back."""
        self._columns["state"][row] = LEAVING

    def count_tokens(self, row: int, generated: int) -> None:
        """Set how many tokens a request has got so far."""
        self._columns["generated_tokens"][row] = generated

    def set_prompt(self, row: int, tokens: int) -> None:
        """Replace the estimated length of a prompt by what its upstream counted."""
        self._columns["prompt_tokens"][row] = tokens

    def give_back(self, row: int) -> None:
        """Put a request that was sent into the queue again, at the place of its arrival."""
        self._settle_queue()  # it has left the array, and comes back only once
        columns = self._columns
        columns["state"][row] = QUEUED
        columns["instance"][row] = -1
        columns["generated_tokens"][row] = 0
        columns["first_token_s"][row] = np.nan
        self._entered.append(row)

    def end(self, row: int, t_s: float) -> None:
        """Mark a request as finished; its row is kept until `forget` is called."""
        columns = self._columns
        columns["state"][row] = DONE
        columns["finish_s"][row] = t_s
        self._ended.append(row)

    def drop(self, row: int) -> None:
        """Remove a request that did not finish: nothing is learned from it."""
        self._columns["state"][row] = ARRIVING
        self._columns["instance"][row] = -1
        self._left = True
        # it may still be in the queue's array, whose rows must not come back as others
        self._settle_queue()
        self._free.append(row)

    @property
    def ended_count(self) -> int:
        """Return how many rows finished since `forget`."""
        return len(self._ended)

    @property
    def ended(self) -> Ints:
        """Return the rows that finished since `forget`, by time."""
        return np.array(self._ended, np.int64)

    def forget(self) -> None:
        """Reuse the rows of finished requests."""
        self._columns["state"][self._ended] = ARRIVING
        self._columns["instance"][self._ended] = -1
        self._free += self._ended
        self._ended = []

    def move(self, instances: dict[int, int]) -> None:
        """Renumber the instances of requests that are in flight."""
        column = self._columns["instance"]
        for row in np.flatnonzero(column >= 0).tolist():
            column[row] = instances.get(int(column[row]), -1)

    # -- the moment ----------------------------------------------------------------------------

    @property
    def queue(self) -> Ints:
        """Return the waiting rows by arrival; not to be written to."""
        self._settle_queue()
        return self._queue

    def queued_models(self) -> set[str]:
        """Return the models that requests wait for."""
        codes = np.unique(self._columns["model"][self.queue])
        return {self.models[code] for code in codes.tolist()}

    def moment(
        self,
        t_s: float,
        instances: Sequence[InstanceRow],
        forecasts: ServingForecasts | None = None,
    ) -> ServingView:
        """Return the view; its columns are valid until the next change."""
        return ServingView(
            t_s=t_s,
            queue=self.queue,
            requests=RequestColumns(**self._columns),
            instances=self._instances(instances),
            types=self.types,
            models=self.models,
            classes=self.classes,
            tenants=self.tenants,
            forecasts=forecasts,
        )

    def _instances(self, rows: Sequence[InstanceRow]) -> InstanceColumns:
        columns, count = self._columns, len(rows)
        state, where = columns["state"], columns["instance"]
        running = np.bincount(where[(state == RUNNING) & (where >= 0)], minlength=count)
        waiting = np.bincount(where[(state == SENT) & (where >= 0)], minlength=count)
        there = np.flatnonzero((where >= 0) & (state != DONE))
        held = columns["prompt_tokens"][there] + columns["generated_tokens"][there]
        tokens = np.bincount(where[there], weights=held, minlength=count)
        return InstanceColumns(
            type=_column(rows, "type"),
            model=_column(rows, "model"),
            state=_column(rows, "state"),
            running=running.astype(np.int64),
            waiting=waiting.astype(np.int64),
            limit=_column(rows, "limit"),
            room=_column(rows, "room"),
            kv_tokens=tokens.astype(np.int64),
            role=_column(rows, "role"),
        )

    def _settle_queue(self) -> None:
        """Bring the queue's array up to date: without those that left, those that came by time."""
        if self._left:
            self._queue = self._queue[self._columns["state"][self._queue] == QUEUED]
            self._left = False
        if not self._entered:
            return
        entered = [row for row in self._entered if self._columns["state"][row] == QUEUED]
        self._entered = []
        arrival = self._columns["arrival_s"]
        joined = np.concatenate([self._queue, np.array(entered, np.int64)])
        arrivals = arrival[joined]
        if np.any(arrivals[1:] < arrivals[:-1]):  # something came back
            joined = joined[np.argsort(arrivals, kind="stable")]
        self._queue = joined

    def _grow(self, rows: int) -> None:
        old = len(self._columns["state"]) if self._columns else 0
        for name in (*_FLOATS, *_INTS):
            kind: Any = np.float64 if name in _FLOATS else np.int64
            column = np.full(rows, np.nan if name in _FLOATS else 0, kind)
            column[:old] = self._columns.get(name, column[:0])
            self._columns[name] = column
        self._columns["state"][old:] = ARRIVING
        self._columns["instance"][old:] = -1
        self._free += range(rows - 1, old - 1, -1)


def _column(rows: Sequence[InstanceRow], name: str) -> Ints:
    return np.array([getattr(each, name) for each in rows], np.int64)
