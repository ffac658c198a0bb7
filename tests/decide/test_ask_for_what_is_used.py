from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from factories import job, node, tenants, view
from steward.decide.scheduling.ask_for_what_is_used import AskForWhatIsUsed
from steward.model.actions import RightSize, Tell
from steward.model.identity import GpuId, JobId, TenantId
from steward.model.job import Job, JobShape, JobState
from steward.model.view import ClusterView

GPUS = tuple(GpuId(f"n1/gpu{index}") for index in range(4))


def mine(id_: str, **changes: Any) -> Job:
    return replace(job(id_, **changes), user="ada", name="train")


RUNS = mine("j1", on=GPUS)
WAITS = mine("j2", shape=RUNS.shape)


def seen(*jobs: Job, idle: int = 2, since_s: float = 100.0, **columns: Any) -> ClusterView:
    """Return a moment in which j1 has left its last GPUs alone since then."""
    made = view(node("n1", 4), jobs=jobs or (RUNS, WAITS), t_s=4000.0, of=tenants("a", "b"))
    quiet = np.where(np.arange(4) >= 4 - idle, since_s, np.nan)
    busy = np.where(np.arange(4) >= 4 - idle, 0.0, 0.9)
    found = {"quiet_since_s": quiet, "owner_busy_share": busy, **columns}
    return replace(made, gpus=replace(made.gpus, **found))


def test_a_waiting_job_asks_for_what_its_twin_uses() -> None:
    (made,) = AskForWhatIsUsed().decide(seen())

    assert made.action == RightSize(job=JobId("j2"), before=4, count=2)
    assert "job j1 (train) has used 2 of its 4 GPUs" in made.because
    assert AskForWhatIsUsed().decide(seen()) == (made,)


def test_its_owner_is_told_where_none_waits() -> None:
    (made,) = AskForWhatIsUsed().decide(seen(RUNS))

    assert isinstance(made.action, Tell)
    assert (made.action.to, made.action.job) == ("ada", "j1")
    assert "`steward jobs submit --gpus 2`" in made.action.text


def test_each_kind_of_job_is_judged_once() -> None:
    shape = JobShape(gpus=2)
    first, second = (
        replace(mine(name, on=gpus), shape=shape)
        for name, gpus in (("j1", GPUS[:2]), ("j3", GPUS[2:]))
    )
    waits = replace(WAITS, shape=shape)
    quiet = np.array([np.nan, 100.0, np.nan, 100.0])

    made = AskForWhatIsUsed().decide(seen(first, second, waits, quiet_since_s=quiet))

    assert [each.action for each in made] == [RightSize(job=JobId("j2"), before=2, count=1)]


@pytest.mark.parametrize(
    "twin",
    [
        replace(WAITS, user="bob"),
        replace(WAITS, name="eval"),
        replace(WAITS, tenant=TenantId("b")),
        replace(WAITS, shape=JobShape(gpus=3)),
        replace(WAITS, held=True),
        WAITS.changed(10.0, JobState.RUNNING, "").changed(20.0, JobState.QUEUED, ""),
    ],
    ids=["another user", "another job", "another account", "another size", "held", "it has run"],
)
def test_other_jobs_ask_for_what_they_asked_for(twin: Job) -> None:
    made = AskForWhatIsUsed().decide(seen(RUNS, twin))

    assert [each.action.type for each in made] == ["tell"]


@pytest.mark.parametrize(
    "moment",
    [
        seen(idle=0),
        seen(idle=4),
        seen(since_s=700.0),
        seen(replace(RUNS, start_s=3000.0), WAITS),
        seen(owner_busy_share=np.full(4, np.nan)),
        seen(borrower=np.array([-1, -1, -1, 1])),
        seen(replace(RUNS, user=""), WAITS),
        seen(replace(RUNS, name=""), WAITS),
        seen(replace(RUNS, shape=JobShape(gpus=3)), WAITS),
    ],
    ids=[
        "it uses all",
        "it uses none yet",
        "it has used them",
        "it began a while ago",
        "nobody sees what it uses",
        "one is lent",
        "its user is not known",
        "it has no name",
        "it holds more than it asks for",
    ],
)
def test_nothing_is_decided_where_that_is_not_shown(moment: ClusterView) -> None:
    assert AskForWhatIsUsed().decide(moment) == ()
