"""Waits before a real server, as they were recorded, predicted moment by moment.

A recorded load says of each request when it arrived, was sent, got its first and its last token.
An estimator is shown what a gateway knew at each of these moments: nothing that came later, and
no length of an answer before its end. Of an answer that runs, tokens are taken to have come at an
even pace between the first and the last: the record does not hold each one.
"""

from __future__ import annotations

import csv
import math
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.model.serving.instance_type import InstanceType
from steward.model.serving.requests import INTERACTIVE
from steward.model.serving.view import (
    ARRIVING,
    DONE,
    QUEUED,
    RUNNING,
    SERVING,
    InstanceColumns,
    RequestColumns,
    ServingView,
)
from steward.ports import ServingEstimator
from steward.sim.serving.wait_scores import ScoredWaits, Watched

__all__ = ["RecordedLoad", "read_load", "score_recorded"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_BETWEEN_S = 60.0  # between two loads: the server was idle
_ARRIVES, _SENT, _FIRST, _LAST = range(4)
_COLUMNS = (
    *("arrival_s", "sent_s", "first_token_s", "finish_s"),
    *("input_tokens", "completion_tokens"),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordedLoad:
    """Requests in the order of arrival, all of which were answered."""

    name: str
    times_s: Floats  # [request, 4] arrival, sent, first and last token
    prompt_tokens: Ints
    output_tokens: Ints
    failed: int  # requests with an error, which are left out

    def __len__(self) -> int:
        return len(self.times_s)

    def head(self, count: int) -> RecordedLoad:
        """Return the first requests."""
        return replace(
            self,
            times_s=self.times_s[:count],
            prompt_tokens=self.prompt_tokens[:count],
            output_tokens=self.output_tokens[:count],
        )


def read_load(file: Path) -> RecordedLoad:
    """Read a recorded load; raise an error that names the first fault."""
    where = str(file)
    with file.open(encoding="utf-8", newline="") as stream:
        reader = csv.DictReader(stream)
        lacking = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
        rows = list(reader)
    if lacking:
        hint = f"a recorded load has the columns {', '.join(_COLUMNS)}"
        raise StewardError(f"lacks the columns {', '.join(lacking)}", where=where, hint=hint)
    answered = [row for row in rows if not row.get("error")]
    try:
        numbers = [[float(row[name]) for name in _COLUMNS] for row in answered]
    except ValueError as fault:
        raise StewardError(f"{fault}", where=where, hint="correct or remove the row") from None
    table = np.array(numbers, np.float64).reshape(-1, len(_COLUMNS))
    table = table[np.argsort(table[:, 0], kind="stable")]
    if not np.all(np.diff(table[:, :4], axis=1) >= 0):
        raise StewardError(
            "has requests whose times go back",
            where=where,
            hint="arrival_s <= sent_s <= first_token_s <= finish_s",
        )
    return RecordedLoad(
        name=file.stem.removeprefix("load_"),
        times_s=table[:, :4],
        prompt_tokens=table[:, 4].astype(np.int64),
        output_tokens=table[:, 5].astype(np.int64),
        failed=len(rows) - len(answered),
    )


def score_recorded(
    loads: tuple[RecordedLoad, ...],
    kind: InstanceType,
    estimator: ServingEstimator,
    *,
    tenants: bool = False,
) -> tuple[ScoredWaits, ...]:
    """Show one load after the other to an estimator; compare its predictions, load by load.

    What was learnt from one load is kept for the next. `tenants` makes each load one of its own,
    as API keys would tell.
    """
    began_s = time.process_time()
    times_s = np.concatenate(_one_after_another(loads))
    prompts = np.concatenate([each.prompt_tokens for each in loads])
    outputs = np.concatenate([each.output_tokens for each in loads])
    load = np.repeat(np.arange(len(loads)), [len(each) for each in loads])
    watched = Watched(inner=estimator, types=(kind,), predicted=np.full((len(load), 4), np.nan))
    names = tuple(each.name for each in loads) if tenants else ()
    tenant = load if tenants else np.full(len(load), -1)
    _show(watched, _view(kind, prompts, tenant, names), times_s, outputs)
    again = np.array(watched.again, np.float64).reshape(-1, 4)
    rows_again = again[:, 0].astype(np.int64)
    left_s = times_s[rows_again, _FIRST] - again[:, 1]
    cpu_s = (time.process_time() - began_s) / len(loads)
    found = []
    for place, each in enumerate(loads):
        rows = np.flatnonzero((load == place) & np.isfinite(watched.predicted[:, 0]))
        when_s, mean_s, sd_s, upper_s = watched.predicted[rows].T
        later = (load[rows_again] == place) & (left_s > 0)
        found.append(
            ScoredWaits(
                trace=each.name,
                model=kind.model,
                requests=len(each),
                refused=each.failed,
                instances=1,
                seed=0,
                predicted_s=when_s,
                mean_s=mean_s,
                sd_s=sd_s,
                upper_s=upper_s,
                wait_s=times_s[rows, _FIRST] - when_s,
                deadline_class=np.zeros(len(rows), np.int64),
                classes=(INTERACTIVE.name,),
                again_mean_s=again[later, 2],
                again_upper_s=again[later, 3],
                again_left_s=left_s[later],
                synthetic=False,
                cpu_s=cpu_s,
            )
        )
    return tuple(found)


def _one_after_another(loads: tuple[RecordedLoad, ...]) -> list[Floats]:
    found = []
    begin_s = 0.0
    for each in loads:
        found.append(each.times_s + begin_s)
        begin_s = float(found[-1].max()) + _BETWEEN_S
    return found


def _view(kind: InstanceType, prompts: Ints, tenant: Ints, names: tuple[str, ...]) -> ServingView:
    """Return the view before anything arrived."""
    count = len(prompts)
    zero, one = np.zeros(1, np.int64), np.ones(1, np.int64)
    never = [np.full(count, np.nan) for _ in range(4)]
    requests = RequestColumns(
        arrival_s=never[0],
        deadline_s=np.full(count, np.inf),
        prompt_tokens=prompts,
        deadline_class=np.zeros(count, np.int64),
        tenant=tenant.astype(np.int64),
        model=np.zeros(count, np.int64),
        state=np.full(count, ARRIVING, np.int64),
        generated_tokens=np.zeros(count, np.int64),
        instance=np.full(count, -1, np.int64),
        sent_s=never[1],
        first_token_s=never[2],
        finish_s=never[3],
    )
    instances = InstanceColumns(
        type=zero,
        model=zero,
        state=one * SERVING,
        running=zero.copy(),
        waiting=zero,
        limit=one * kind.max_sequences,
        room=one * kind.max_sequences,
        kv_tokens=zero.copy(),
        role=zero,
    )
    return ServingView(
        t_s=0.0,
        queue=np.zeros(0, np.int64),
        requests=requests,
        instances=instances,
        types=(kind,),
        models=(kind.model,),
        classes=(INTERACTIVE,),
        tenants=names,
    )


def _show(watched: Watched, view: ServingView, times_s: Floats, outputs: Ints) -> None:
    """Go through all moments in order; learn and predict at each."""
    requests = view.requests
    moments = sorted(
        (t_s, what, row)
        for row, mine in enumerate(times_s.tolist())
        for what, t_s in enumerate(mine)
    )
    running: dict[int, None] = {}
    queue: dict[int, None] = {}
    for t_s, what, row in moments:
        ended = np.zeros(0, np.int64)
        if what == _ARRIVES:
            requests.arrival_s[row], requests.state[row] = t_s, QUEUED
            queue[row] = None
        elif what == _SENT:
            requests.sent_s[row], requests.state[row] = t_s, RUNNING
            requests.instance[row] = 0
            del queue[row]
            running[row] = None
        elif what == _FIRST:
            requests.first_token_s[row], requests.generated_tokens[row] = t_s, 1
        else:
            requests.finish_s[row], requests.state[row] = t_s, DONE
            requests.generated_tokens[row] = outputs[row]
            del running[row]
            ended = np.array([row], np.int64)
        _advance(view, running, t_s, times_s, outputs)
        now = replace(view, t_s=t_s, queue=np.array(list(queue), np.int64))
        if len(ended):
            watched.learn(now, ended)
        watched.predict(now)


def _advance(
    view: ServingView, running: dict[int, None], t_s: float, times_s: Floats, outputs: Ints
) -> None:
    """Set the tokens that answers have by now, and what the instance holds."""
    requests, instances = view.requests, view.instances
    for row in running:
        first_s, last_s = times_s[row, _FIRST], times_s[row, _LAST]
        if t_s >= first_s:
            part = (t_s - first_s) / max(last_s - first_s, 1e-9)
            most = max(int(outputs[row]) - 1, 1)
            requests.generated_tokens[row] = min(1 + math.floor(part * (outputs[row] - 1)), most)
    rows = list(running)
    held = requests.prompt_tokens[rows] + requests.generated_tokens[rows]
    instances.running[0] = len(rows)
    instances.kv_tokens[0] = int(held.sum())
    instances.room[0] = max(int(instances.limit[0]) - len(rows), 0)
