"""One moment of the model servers and of the requests that wait for them.

What a dispatcher and a scaler look at; the simulator and the gateway fill the same columns. How
many tokens a request will make is not in it: that is for estimators to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from steward.model.serving.forecasts import ServingForecasts
from steward.model.serving.instance_type import InstanceType
from steward.model.serving.requests import DeadlineClass

__all__ = [
    "ANY_CLASS",
    "ARRIVING",
    "BATCH_ONLY",
    "DONE",
    "DRAINING",
    "INTERACTIVE_ONLY",
    "LEAVING",
    "OFF",
    "QUEUED",
    "REFUSED",
    "ROLES",
    "RUNNING",
    "SENT",
    "SERVING",
    "STARTING",
    "SWAPPING",
    "Dispatch",
    "InstanceColumns",
    "InstanceRates",
    "PrefixCaches",
    "RequestColumns",
    "Scaling",
    "ServingView",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Codes of InstanceColumns.state. A swapping or draining instance ends what it has, takes no more.
OFF, STARTING, SERVING, SWAPPING, DRAINING = range(5)
# Codes of RequestColumns.state: QUEUED in the gateway, SENT to an instance that has not begun it,
# LEAVING it because it was evicted, until the step that runs is over.
ARRIVING, QUEUED, SENT, RUNNING, DONE, REFUSED, LEAVING = range(7)
# Codes of InstanceColumns.role.
ANY_CLASS, INTERACTIVE_ONLY, BATCH_ONLY = range(3)
ROLES = ("any", "interactive", "batch")  # their names, by code


class PrefixCaches(Protocol):
    """What instances have cached of the prompts that wait, as far as it is known."""

    def cached_tokens(self, request: int, instance: int) -> int:
        """Return how many leading tokens of a request's prompt an instance need not compute."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RequestColumns:
    """One row per request that is known, waiting or not."""

    arrival_s: Floats
    deadline_s: Floats  # the first of its class's promises; infinite without one
    prompt_tokens: Ints
    deadline_class: Ints  # position in ServingView.classes
    tenant: Ints  # position in ServingView.tenants, -1 for none
    model: Ints  # position in ServingView.models
    state: Ints
    generated_tokens: Ints  # so far: not 0 for those that were evicted and wait again
    instance: Ints  # where it is; -1 while it waits in the gateway
    sent_s: Floats  # to an instance, the first time; NaN before
    first_token_s: Floats  # NaN before
    finish_s: Floats  # NaN before


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InstanceColumns:
    """One row per place for an instance; those that are OFF cost nothing."""

    type: Ints  # position in ServingView.types
    model: Ints  # position in ServingView.models
    state: Ints
    running: Ints
    waiting: Ints  # sent there, not yet begun
    limit: Ints  # of requests in flight
    room: Ints  # how many more may be sent now
    kv_tokens: Ints  # held in its cache by requests
    role: Ints  # which classes it is kept for; dispatchers that know no roles overlook it

    def __len__(self) -> int:
        return len(self.type)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InstanceRates:
    """What instances did since the scaler was last called: one row per instance.

    A window without a token has an ITL of NaN and a rate of 0.
    """

    window_s: float
    itl_s: Floats  # mean time between tokens, over all tokens
    tokens_per_s: Floats  # output tokens
    tokens_per_s_before: Floats  # in the window before this one


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServingView:
    """The moment. It is valid during the call: columns may be written anew afterwards."""

    t_s: float
    queue: Ints  # rows of `requests` that wait in the gateway, by arrival
    requests: RequestColumns
    instances: InstanceColumns
    types: tuple[InstanceType, ...]
    models: tuple[str, ...]
    classes: tuple[DeadlineClass, ...]
    tenants: tuple[str, ...]
    forecasts: ServingForecasts | None = None  # of an estimator, where one is asked
    prefixes: PrefixCaches | None = None  # where anything is known about shared prompts
    served_tokens: Floats | None = None  # [class, tenant] of `TokenCounters`, where kept
    rates: InstanceRates | None = None  # for scalers, from their second call on


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """What a dispatcher wants done now."""

    routes: tuple[tuple[int, int], ...] = ()  # row of a waiting request, row of an instance
    evict: tuple[int, ...] = ()  # rows of requests that go back to the gateway's queue
    swaps: tuple[tuple[int, int], ...] = ()  # row of an instance, position of its new type


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """What a scaler wants changed."""

    start: tuple[int, ...] = ()  # types of new instances, which take the first rows that are OFF
    drain: tuple[int, ...] = ()  # rows of instances that end what they have and go away
    limits: tuple[tuple[int, int], ...] = ()  # row of an instance, requests in flight
    roles: tuple[tuple[int, int], ...] = ()  # row of an instance (also a new one), code of a role
