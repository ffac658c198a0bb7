from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from managed_jobs import attempt, spec
from steward.clients.local_jobs.devices import SLOT_MODEL, JobDevices
from steward.clients.local_jobs.progress import read_progress
from steward.decide.scheduling import POLICIES
from steward.model.actions import Start
from steward.model.cluster import Gpu, Health
from steward.model.event import Event
from steward.model.identity import GpuId, NodeId
from steward.model.job import JobState
from steward.model.managed_job import LifeState
from steward.model.moment import Moment
from steward.observe.collectors.local_jobs import LocalJobs
from steward.store.jobs import JobStore

NODE = NodeId("n1")
SLOTS = tuple(
    Gpu(id=GpuId(f"n1/cpu{i}"), node=NODE, index=1000 + i, model=SLOT_MODEL) for i in range(2)
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JobStore]:
    made = JobStore(tmp_path / "jobs.sqlite3")
    yield made
    made.close()


def collector(store: JobStore, tmp_path: Path) -> LocalJobs:
    devices = JobDevices(node=NODE, slots=SLOTS)
    return LocalJobs(store=store, devices=devices, folder=tmp_path)


def test_slots_are_a_cluster_and_jobs_come_when_they_change(
    store: JobStore, tmp_path: Path
) -> None:
    looks = collector(store, tmp_path)
    job = store.submit((spec(),), 1.0)[0]

    first = looks.collect(2.0)
    assert first.cluster is not None
    assert [gpu.id for gpu in first.cluster.gpus] == ["n1/cpu0", "n1/cpu1"]
    assert set(first.health.values()) == {Health.GOOD}
    assert [(each.id, each.held) for each in first.jobs] == [("1", True)]

    assert looks.collect(3.0).jobs == ()
    job = store.put(job.moved(4.0, LifeState.WAITING, "it may start"))
    later = looks.collect(4.0)
    assert [each.held for each in later.jobs] == [False]
    assert [event.kind for event in later.events] == ["job.waiting"]
    running = job.with_attempt(attempt()).moved(5.0, LifeState.STARTING, "on cpu0")
    store.put(running)
    assert looks.collect(5.0).jobs[0].state is JobState.RUNNING


def test_a_look_that_fails_loses_nothing(
    store: JobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = collector(store, tmp_path)
    job = store.submit((spec(),), 1.0)[0]

    def fail(*_: object) -> None:
        raise SystemError

    for t_s, first in ((2.0, True), (4.0, False)):
        with monkeypatch.context() as broken:
            broken.setattr(JobDevices, "foreign", fail)
            with pytest.raises(SystemError):
                looks.collect(t_s)
        assert looks.has_listed() is not first
        seen = looks.collect(t_s + 1.0)

        assert [each.id for each in seen.jobs] == ["1"]
        assert (seen.cluster is not None, seen.tenants is not None) == (first, first)
        assert [each.kind for each in seen.events] == ([] if first else ["job.waiting"])
        assert looks.has_listed()
        if first:
            store.put(job.moved(3.5, LifeState.WAITING, "it may start"))


def test_the_scheduler_starts_what_waits_and_nothing_that_is_held(
    store: JobStore, tmp_path: Path
) -> None:
    looks = collector(store, tmp_path)
    waits, _ = store.submit((spec(),), 1.0)[0], store.submit((spec(),), 1.0)
    store.put(waits.moved(2.0, LifeState.WAITING, "it may start"))
    moment = Moment()
    moment.fold(looks.collect(3.0))

    decisions = POLICIES["fifo"]().decide(moment.view(3.0))

    assert [(type(each.action), each.action.acts_on) for each in decisions] == [(Start, "1")]


def test_it_says_that_no_jobs_are_run() -> None:
    assert LocalJobs().available().status == "missing"
    assert LocalJobs().collect(1.0).jobs == ()


def test_what_is_a_jobs_own_business_is_not_in_the_journal(store: JobStore, tmp_path: Path) -> None:
    looks = collector(store, tmp_path)
    looks.collect(1.0)
    job = store.submit((spec("run", "s3cret", folder="/s3cret"),), 1.0)[0]
    job = job.moved(2.0, LifeState.WAITING, "it may start").with_attempt(attempt())
    job = job.moved(3.0, LifeState.STARTING, "on n1/cpu0")
    store.put(job.moved(4.0, LifeState.FAILED, "it could not be started", detail="/s3cret: no"))

    seen = looks.collect(5.0)

    assert seen.events[-1].text == "it could not be started"
    assert "s3cret" not in repr(seen)


def progress(folder: Path, **record: object) -> None:
    work = folder / "1" / "work"
    work.mkdir(parents=True, exist_ok=True)
    (work / "progress.json").write_text(json.dumps(record))


def test_steps_of_running_jobs_are_reported_when_they_are_new(
    store: JobStore, tmp_path: Path
) -> None:
    looks = collector(store, tmp_path)
    job = store.submit((spec(max_slowdown_share=0.05),), 1.0)[0]
    progress(tmp_path, step=5, written_s=101.5)
    waiting = looks.collect(102.0)
    job = job.moved(4.0, LifeState.WAITING, "").with_attempt(attempt())
    job = store.put(job.moved(5.0, LifeState.STARTING, "").moved(6.0, LifeState.RUNNING, ""))

    first, again = looks.collect(102.0), looks.collect(103.0)
    progress(tmp_path, step=9, written_s=9e12)  # a clock that cannot be
    later = looks.collect(110.0)
    store.put(job.moved(111.0, LifeState.FINISHED, ""))

    assert waiting.frame.is_empty()
    assert first.frame.rows() == [(101.5, "job:1", 5.0)]
    assert first.jobs[0].max_slowdown_share == 0.05
    assert again.frame.is_empty()
    assert later.frame.rows() == [(110.0, "job:1", 9.0)]
    assert looks.collect(112.0).frame.is_empty()


@pytest.mark.parametrize("text", ["", "[1]", '{"epoch": 1}', "{"])
def test_a_progress_file_without_steps_is_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "progress.json").write_text(text)

    assert read_progress(tmp_path, 100.0) is None


def test_what_happened_to_power_limits_is_among_the_events(store: JobStore, tmp_path: Path) -> None:
    event = Event(t_s=1.0, kind="power.restored", subject="n1/gpu0", text="", source="power-caps")
    devices = JobDevices(node=NODE, slots=SLOTS)

    looks = LocalJobs(store=store, devices=devices, folder=tmp_path, news=lambda: [event])

    assert looks.collect(2.0).events == (event,)
