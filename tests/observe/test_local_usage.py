"""Idle and busy jobs on CPU slots, with real processes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from job_bed import JobControllerBed
from managed_jobs import python
from patience import until
from steward.clients.local_jobs.devices import SLOT_MODEL, JobDevices
from steward.model.actions import Lend
from steward.model.cluster import Gpu
from steward.model.frame import ENTITY
from steward.model.identity import DecisionId, GpuId, NodeId
from steward.model.managed_job import LifeState
from steward.model.moment import Moment
from steward.model.view import ClusterView
from steward.observe.collectors.local_jobs import LocalJobs
from steward.observe.normalise import Normaliser

NODE = NodeId("n1")
SLOT = GpuId("n1/cpu0")
IDLE = "import time; print('ready', flush=True); time.sleep(1000)"
BUSY = "while True: pass"


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[JobControllerBed]:
    made = JobControllerBed(tmp_path)
    yield made
    for job in made.controller.store.open():
        made.controller.cancel(job.id, t_s=made.t_s, why="the test is over")
    until(lambda: (made.advance(), not made.controller.store.open())[1])
    made.controller.store.close()


def collector(bed: JobControllerBed) -> LocalJobs:
    slots = tuple(
        Gpu(id=GpuId(f"n1/cpu{i}"), node=NODE, index=1000 + i, model=SLOT_MODEL) for i in range(2)
    )
    devices = JobDevices(node=NODE, slots=slots)
    return LocalJobs(
        store=bed.controller.store, devices=devices, folder=bed.controller.engine.folder
    )


def values(looks: LocalJobs, t_s: float, metric: str) -> dict[str, float]:
    (frame,) = looks.collect(t_s).frames
    return {
        name: value
        for name, value in zip(frame[ENTITY], frame[metric], strict=True)
        if value is not None
    }


def test_a_slot_is_as_busy_as_its_jobs_processes_and_a_free_one_is_idle(
    bed: JobControllerBed,
) -> None:
    looks, id_ = collector(bed), bed.submit(python(BUSY))
    bed.start(id_)
    bed.reaches(id_, LifeState.RUNNING)

    assert values(looks, 1.0, "gpu.busy_share") == {"n1/cpu1": 0.0}  # not known yet
    until(lambda: values(looks, 1.0, "job.cpu_seconds").get("job:1", 0.0) > 0.0)
    times = iter(range(2, 10**6))
    until(lambda: values(looks, float(next(times)) * 1e-3 + 1, "gpu.busy_share")["n1/cpu0"] == 1.0)


def test_both_sides_of_a_loan_are_seen_with_what_each_uses_and_in_their_roles(
    bed: JobControllerBed,
) -> None:
    looks, owner = collector(bed), bed.submit(python(IDLE))
    moment, normaliser = Moment(), Normaliser(source="local-jobs", vocabulary="canonical")

    def look(t_s: float) -> None:
        seen = looks.collect(t_s)
        frame, _ = normaliser.normalise(seen.frames[0])
        moment.fold(replace(seen, frames=(frame,)))

    bed.start(owner)
    bed.reaches(owner, LifeState.RUNNING)
    until(lambda: "ready" in bed.log(owner), why="the end of its start, which is work")
    look(10.0)
    look(20.0)
    idle = moment.view(20.0)
    assert idle.gpus.quiet_since_s[idle.gpu_row[SLOT]] == 20.0
    borrower = bed.submit(python(BUSY, requeue=True))
    lend = Lend(gpus=(SLOT,), owner=owner, borrower=borrower)
    bed.controller.lending.lend(lend, decision=DecisionId("d-1"), t_s=bed.t_s)
    bed.reaches(borrower, LifeState.RUNNING)
    bed.advance()

    times = count(1030)

    def borrower_works() -> ClusterView | None:
        look(float(t_s := next(times)))
        seen = moment.view(float(t_s))
        return seen if seen.gpus.borrower_busy_share[seen.gpu_row[SLOT]] > 0.0 else None

    seen = until(borrower_works)

    assert seen is not None
    row = seen.gpu_row[SLOT]
    assert [each.id for each in seen.loans] == ["d-1"]
    assert seen.job_id(int(seen.gpus.owner[row])) == owner
    assert seen.job_id(int(seen.gpus.borrower[row])) == borrower
    assert seen.gpus.owner_busy_share[row] < 0.05
    assert seen.details[borrower].yielding.promised_s is not None
    kinds = [each.kind for each in looks.collect(float(next(times))).events]
    assert "job.loan" not in kinds  # told once
