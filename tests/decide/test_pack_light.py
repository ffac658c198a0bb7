from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from factories import H200, column, job, loan, node, view
from steward.decide.scheduling.pack_light import PackLight
from steward.model.actions import Lend
from steward.model.cluster import GIB
from steward.model.forecast import BUSY_SHARE
from steward.model.identity import GpuId, JobId
from steward.model.job import Checkpointing, Job, JobShape
from steward.model.view import ClusterView

NODES = (node("n1"), node("n2"))
GPUS = [f"n{number}/gpu{index}" for number in (1, 2) for index in (0, 1)]
HOST = replace(job("j1", on=("n1/gpu0",)), max_slowdown_share=0.1)
TWIN = replace(job("j2", on=("n1/gpu1",)), user="ann", name="probe")
WAITS = replace(job("j3"), user="ann", name="probe", shape=TWIN.shape)


def seen(
    *jobs: Job,
    levels: dict[str, float] | None = None,
    steps: tuple[str, ...] = ("j1",),
    **gpus: Any,
) -> ClusterView:
    """Return a moment in which j1 and the twin of the waiting job are light."""
    loans = gpus.pop("loans", ())
    made = view(*NODES, jobs=jobs or (HOST, TWIN, WAITS), loans=loans)
    known = {"n1/gpu0": 0.3, "n1/gpu1": 0.2} if levels is None else levels
    counted = np.array([9.0 if each in steps else np.nan for each in made.jobs.ids])
    values = np.array([known.get(each, np.nan) for each in GPUS])
    made = replace(made, jobs=replace(made.jobs, step_count=counted))
    made = replace(made, gpus=replace(made.gpus, **gpus))
    return made.with_forecasts((column(BUSY_SHARE, values),))


def test_a_light_job_is_lent_the_gpus_of_another_light_one_to_share() -> None:
    (made,) = PackLight().decide(seen())

    assert made.action == Lend(
        gpus=(GpuId("n1/gpu0"),), owner=JobId("j1"), borrower=JobId("j3"), way="shared"
    )
    assert made.because == (
        "job j1 keeps its GPUs below 30% busy, jobs like j3 below 20%, and it may be 10% slower: "
        "j3 can work beside it"
    )
    assert (made.expects.low, made.expects.mid, made.expects.high) == (0.0, 60.0, 120.0)
    assert made.undo is not None
    assert PackLight().decide(seen()) == (made,)


def test_each_host_is_shared_with_one_and_the_lightest_comes_first() -> None:
    lighter = replace(HOST, id=JobId("j0"), gpus=(GpuId("n2/gpu0"),))
    again = replace(WAITS, id=JobId("j4"))
    at = seen(
        HOST, lighter, TWIN, WAITS, again, replace(again, id=JobId("j5")),
        levels={"n1/gpu0": 0.3, "n1/gpu1": 0.2, "n2/gpu0": 0.1}, steps=("j0", "j1"),
    )  # fmt: skip

    made = [each.action for each in PackLight().decide(at)]

    assert [(each.owner, each.borrower) for each in made if isinstance(each, Lend)] == [
        ("j0", "j3"),
        ("j1", "j4"),
    ]


OTHER = replace(H200, name="t4")


@pytest.mark.parametrize(
    "at",
    [
        view(*NODES, jobs=(HOST, TWIN, WAITS)),
        seen(HOST, TWIN),
        seen(HOST, TWIN, replace(WAITS, held=True)),
        seen(HOST, TWIN, replace(WAITS, name="other")),
        seen(HOST, TWIN, replace(WAITS, borrows="no")),
        seen(HOST, TWIN, replace(WAITS, checkpointing=Checkpointing())),
        seen(HOST, TWIN, replace(WAITS, shape=JobShape(gpus=1, gpu_memory_bytes=120 * GIB))),
        seen(HOST, replace(TWIN, shape=JobShape(gpus=1)), replace(WAITS, shape=JobShape(gpus=1))),
        seen(HOST, TWIN, replace(WAITS, shape=replace(WAITS.shape, gpu_models=("t4",)))),
        seen(replace(HOST, max_slowdown_share=0.0), TWIN, WAITS),
        seen(replace(HOST, held=True), TWIN, WAITS),
        seen(steps=()),
        seen(levels={"n1/gpu0": 0.6, "n1/gpu1": 0.2}),
        seen(levels={"n1/gpu1": 0.2}),
        seen(levels={"n1/gpu0": 0.3}),
        seen(users=np.array([2, 1, 0, 0])),
        seen(reserved=np.ones(4, bool)),
        seen(owner_busy_share=np.full(4, np.nan)),
        seen(
            HOST, TWIN, WAITS, job("j9", on=("n1/gpu0",)),
            loans=[loan(borrower="j9")], users=np.array([1, 1, 0, 0]),
        ),
        seen(
            replace(HOST, gpus=(GpuId("n1/gpu0"), GpuId("n2/gpu0")), shape=JobShape(gpus=2)),
            replace(TWIN, gpus=(GpuId("n1/gpu1"), GpuId("n2/gpu1")), shape=JobShape(gpus=2)),
            replace(WAITS, shape=JobShape(gpus=2, gpu_memory_bytes=GIB)),
            levels=dict.fromkeys(GPUS, 0.2),
        ),
    ],
    ids=[
        "nothing is known of levels",
        "nobody waits",
        "who waits is held",
        "who waits has no twin that runs",
        "who waits does not borrow",
        "who waits can neither save nor be ended",
        "it does not fit in memory",
        "nobody knows what memory it needs",
        "it needs other GPUs",
        "the owner allows no slowdown",
        "the owner is held",
        "the owner counts no steps",
        "they would be too busy together",
        "the owner's level is unknown",
        "the twin's level is unknown",
        "another shares it already",
        "something is open about its GPUs",
        "how busy it is now is unknown",
        "it has a part in a loan",
        "its GPUs are on two nodes",
    ],
)  # fmt: skip
def test_nothing_is_shared(at: ClusterView) -> None:
    assert PackLight().decide(at) == ()
