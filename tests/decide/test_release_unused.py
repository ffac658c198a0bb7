from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from factories import job, node, view
from live_views import with_beliefs
from steward.decide.scheduling.release_unused import ReleaseUnused
from steward.model.actions import Resize
from steward.model.identity import GpuId, JobId
from steward.model.job import Checkpointing, Job, JobShape
from steward.model.view import ClusterView

GPUS = tuple(GpuId(f"n1/gpu{index}") for index in range(4))
RUNS = replace(job("j1", on=GPUS), shape=JobShape(gpus=4, min_gpus=1))
WAITS = job("j2", shape=JobShape(gpus=1))


def seen(
    *jobs: Job,
    idle: int = 2,
    since_s: float = 100.0,
    left_s: float | None = 36_000.0,
    **columns: Any,
) -> ClusterView:
    """Return a moment in which j1 has left its last GPUs alone since then."""
    made = view(node("n1", 4), jobs=jobs or (RUNS, WAITS), t_s=4000.0)
    quiet = np.where(np.arange(4) >= 4 - idle, since_s, np.nan)
    busy = np.where(np.arange(4) >= 4 - idle, 0.0, 0.9)
    found = {"quiet_since_s": quiet, "owner_busy_share": busy, **columns}
    return with_beliefs(replace(made, gpus=replace(made.gpus, **found)), left_s=left_s)


def test_a_job_goes_on_with_the_gpus_that_it_uses_where_another_waits_for_the_rest() -> None:
    (made,) = ReleaseUnused().decide(seen())

    assert made.action == Resize(job=JobId("j1"), now=GPUS, then=GPUS[:2])
    assert "has left 2 of its 4 GPUs alone since it began, may run on 1, and job j2" in made.because
    assert 0.0 < made.expects.low < made.expects.mid == 3600.0
    assert made.undo == Resize(job=JobId("j1"), now=GPUS[:2], then=GPUS)
    assert ReleaseUnused().decide(seen()) == (made,)


def test_it_keeps_as_many_as_it_has_to_have() -> None:
    (made,) = ReleaseUnused().decide(seen(replace(RUNS, shape=JobShape(gpus=4, min_gpus=3)), WAITS))

    assert isinstance(made.action, Resize)
    assert len(made.action.then) == 3


@pytest.mark.parametrize(
    "at",
    [
        seen(RUNS),
        seen(RUNS, replace(WAITS, held=True)),
        seen(RUNS, replace(WAITS, shape=JobShape(gpus=3))),
        seen(RUNS, replace(WAITS, shape=JobShape(gpus=1, gpu_models=("other",)))),
        seen(replace(RUNS, shape=JobShape(gpus=4)), WAITS),
        seen(replace(RUNS, checkpointing=Checkpointing()), WAITS),
        seen(replace(RUNS, start_s=3000.0), WAITS),
        seen(idle=0),
        seen(idle=4),
        seen(since_s=601.0),
        seen(left_s=None),
        seen(left_s=200.0),
        seen(owner_busy_share=np.array([0.9, np.nan, 0.0, 0.0])),
        seen(users=np.array([1, 2, 1, 1])),
    ],
    ids=[
        "nobody waits",
        "who waits is held",
        "who waits needs more",
        "who waits needs other GPUs",
        "it has to have them all",
        "it cannot save",
        "it has just begun",
        "it uses all",
        "it uses none",
        "it used them at first",
        "how long it runs for is unknown",
        "it is nearly done",
        "its use is unknown",
        "it shares one",
    ],
)
def test_a_job_keeps_what_it_has(at: ClusterView) -> None:
    assert ReleaseUnused().decide(at) == ()
