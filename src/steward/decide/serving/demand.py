"""How much work waiting requests are, and until when each has to be begun.

From an estimator's forecasts, or without one from the instance type's own step times and a usual
answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from steward.model.serving.instance_type import InstanceType
from steward.model.serving.view import DONE, OFF, ServingView

__all__ = ["Demand", "demand_of", "nominal_work_s", "serving_type"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

USUAL_OUTPUT_TOKENS = 256.0  # of an answer of which nothing is known
USUAL_OUTPUT_SPREAD = 1.0  # standard deviation of its length, as a share of it
USUAL_SPREAD = 0.5  # standard deviation of a request's work, as a share of it
# Standard deviations in a bound at most. The bound of forecasts is measured on waits, and widens
# with each request that overtakes another: whoever decides on the order knows of these already.
MOST_SDS = 1.3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Demand:
    """One entry per request, in the order of `rows`. Times are seconds from now."""

    rows: Ints
    work_s: Floats  # of an instance's time, on the type that serves its model
    variance: Floats  # of the work
    own_s: Floats  # from being begun until its deadline is met
    slack_s: Floats  # how long its beginning may wait; below zero it is expected to be late
    hopeless: NDArray[np.bool_]  # late even if it takes a quarter of what is expected
    share: float = 0.3  # bound of a wait: mean * (1 + share) + sds * sd
    sds: float = MOST_SDS

    def at(self, places: Ints) -> Demand:
        """Return what is expected of some of them."""
        return replace(
            self,
            rows=self.rows[places],
            work_s=self.work_s[places],
            variance=self.variance[places],
            own_s=self.own_s[places],
            slack_s=self.slack_s[places],
            hopeless=self.hopeless[places],
        )


_SURELY = 0.25


def serving_type(view: ServingView, model: int) -> int:
    """Return the type that serves a model: the first that is on, else the first that could."""
    instances = view.instances
    on = np.flatnonzero((instances.state != OFF) & (instances.model == model))
    kinds = [*instances.type[on].tolist(), *range(len(view.types))]
    wanted = view.models[model]
    return next((int(kind) for kind in kinds if view.types[kind].model == wanted), 0)


def demand_of(view: ServingView, rows: Ints, *, sds: float = 0.0) -> Demand:
    """Return what is expected of waiting requests.

    With `sds`, a request needs the time of an answer that is so many standard deviations longer.
    """
    models = view.requests.model[rows]
    kinds = np.array([serving_type(view, model) for model in range(len(view.models))])[models]
    work_s, variance, first_s, run_s = _expected(view, rows, kinds)
    longer_s = first_s + (run_s - first_s) * (1.0 + sds * _output_spread(view, rows))
    own_s, slack_s = _until_deadline(view, rows, (first_s, run_s, longer_s))
    bounds = {}
    if view.forecasts is not None:
        bounds = {
            "share": view.forecasts.bound_share,
            "sds": min(view.forecasts.bound_sds, MOST_SDS),
        }
    return Demand(
        rows=rows,
        work_s=work_s,
        variance=variance,
        own_s=own_s,
        slack_s=slack_s,
        hopeless=slack_s + (1 - _SURELY) * own_s < 0,
        **bounds,
    )


def _expected(view: ServingView, rows: Ints, kinds: Ints) -> tuple[Floats, Floats, Floats, Floats]:
    forecasts = view.forecasts
    if forecasts is not None:
        at = (kinds, rows)
        spread = forecasts.work_sd_s[at]
        return forecasts.work_s[at], spread**2, forecasts.first_token_s[at], forecasts.run_s[at]
    work_s, first_s, run_s = np.zeros((3, len(rows)))
    for kind in np.unique(kinds).tolist():
        mine = kinds == kind
        found = _nominal(view, view.types[kind], rows[mine])
        work_s[mine], first_s[mine], run_s[mine] = found
    return work_s, (USUAL_SPREAD * work_s) ** 2, first_s, run_s


def _output_spread(view: ServingView, rows: Ints) -> Floats:
    """Return the standard deviation of answers' lengths as a share of the length."""
    forecasts = view.forecasts
    if forecasts is None:
        return np.full(len(rows), USUAL_OUTPUT_SPREAD)
    spread: Floats = forecasts.output_sd[rows] / np.maximum(forecasts.output_tokens[rows], 1.0)
    return spread


def _until_deadline(
    view: ServingView, rows: Ints, takes: tuple[Floats, Floats, Floats]
) -> tuple[Floats, Floats]:
    """Return what a request needs from its beginning to its tightest promise, and its slack.

    What it takes: until the first token, until the last one, and until that of a longer answer. A
    request that was interrupted after its first token still owes the mean time between tokens.
    """
    first_s, run_s, longer_s = takes
    requests = view.requests
    classes = requests.deadline_class[rows]
    waited_s = view.t_s - requests.arrival_s[rows]
    started = np.isfinite(requests.first_token_s[rows])
    so_far_s = requests.first_token_s[rows] - requests.arrival_s[rows]
    each_s = _limits(each.itl_s for each in view.classes)[classes]
    between_s = each_s * (_answer_tokens(view, rows) - 1.0)
    own_s, slack_s = np.zeros(len(rows)), np.full(len(rows), np.inf)
    for limit_s, needed_s in (
        (
            _limits(each.ttft_s for each in view.classes)[classes],
            np.where(started, -np.inf, first_s),
        ),
        (np.where(started, so_far_s + between_s, np.inf), run_s),
        (_limits(each.completion_s for each in view.classes)[classes], longer_s),
    ):
        left_s = limit_s - waited_s - needed_s
        tighter = left_s < slack_s
        own_s = np.where(tighter, needed_s, own_s)
        slack_s = np.where(tighter, left_s, slack_s)
    return own_s, slack_s


def _limits(promised: Iterable[float | None]) -> Floats:
    """Return the promises of all classes; infinite where none is given."""
    return np.array([np.inf if each is None else each for each in promised], np.float64)


def _answer_tokens(view: ServingView, rows: Ints) -> Floats:
    """Return how many tokens answers are expected to have, at least those that they have."""
    least = view.requests.generated_tokens[rows] + 1.0
    usual: Floats = np.maximum(USUAL_OUTPUT_TOKENS, least)
    if view.forecasts is None:
        return usual
    known = view.forecasts.output_tokens[rows]
    found: Floats = np.where(np.isfinite(known) & (known > 0), np.maximum(known, least), usual)
    return found


def nominal_work_s(view: ServingView, kind: int, rows: Ints) -> Floats:
    """Return the work of requests, ended ones with the tokens that they made."""
    return _nominal(view, view.types[kind], rows)[0]


def _nominal(view: ServingView, kind: InstanceType, rows: Ints) -> tuple[Floats, Floats, Floats]:
    """Return work, time to the first token and to the last one, by the type's step times."""
    requests = view.requests
    prompt = requests.prompt_tokens[rows].astype(np.float64)
    done = requests.state[rows] == DONE
    output = np.where(done, requests.generated_tokens[rows], _answer_tokens(view, rows))
    mean_tokens = float((prompt + output).mean()) if len(rows) else 1.0
    batch = max(1.0, min(float(kind.max_sequences), kind.kv_tokens / mean_tokens))
    times = kind.step_times
    prefill_s = prompt * (times.token_s + times.token_beyond_s) + times.attention_s * prompt**2 / 2
    cached_s = times.kv_token_s * (prompt + output / 2)
    beyond = max(0.0, batch - times.bend_tokens) / batch * times.token_beyond_s
    per_token_s = times.fixed_s / batch + times.sequence_s + times.token_s + beyond + cached_s
    work_s = prefill_s + output * per_token_s
    first_s = times.fixed_s + times.prefill_s + prefill_s
    return work_s, first_s, first_s + output * batch * work_s / np.maximum(output, 1.0)
