"""Moments of serving, made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from steward.model.serving.instance_type import InstanceType, StepTimes
from steward.model.serving.requests import BATCH, INTERACTIVE
from steward.model.serving.view import (
    QUEUED,
    SERVING,
    InstanceColumns,
    RequestColumns,
    ServingView,
)


def kind(model: str = "m", **given: Any) -> InstanceType:
    return InstanceType(name=model, model=model, step_times=StepTimes(fixed_s=0.01), **given)


def view(
    *,
    queue: list[int],
    room: list[int],
    deadlines: list[float] | None = None,
    ranks: list[int] | None = None,
    models: list[int] | None = None,
    **columns: Any,
) -> ServingView:
    """Return a moment with 10 requests and as many instances as `room` has."""
    types = columns.pop("types", (kind(),))
    count = len(room)
    zeros = [0] * count
    serving = [SERVING] * count
    return ServingView(
        t_s=100.0,
        queue=np.array(queue, np.int64),
        requests=RequestColumns(
            arrival_s=np.arange(10.0),
            deadline_s=np.array(deadlines or [50.0] * 10),
            prompt_tokens=np.full(10, 100),
            deadline_class=np.array(ranks or [0] * 10),
            tenant=np.full(10, -1),
            model=np.array(models or [0] * 10),
            state=np.full(10, QUEUED),
            generated_tokens=np.zeros(10, np.int64),
            instance=np.full(10, -1),
            sent_s=np.full(10, np.nan),
            first_token_s=np.full(10, np.nan),
            finish_s=np.full(10, np.nan),
        ),
        instances=InstanceColumns(
            room=np.array(room),
            limit=np.full(count, 256),
            type=np.array(columns.get("type", zeros)),
            model=np.array(columns.get("model", zeros)),
            state=np.array(columns.get("state", serving)),
            running=np.array(columns.get("running", zeros)),
            waiting=np.array(columns.get("waiting", zeros)),
            kv_tokens=np.array(columns.get("kv_tokens", zeros)),
            role=np.array(columns.get("role", zeros)),
        ),
        types=types,
        models=tuple(dict.fromkeys(each.model for each in types)),
        classes=(INTERACTIVE, BATCH),
        tenants=(),
    )
