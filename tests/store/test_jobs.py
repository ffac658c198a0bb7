from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from managed_jobs import attempt, spec
from steward.errors import StewardError
from steward.model.managed_job import LifeState
from steward.store.jobs import JobStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JobStore]:
    made = JobStore(tmp_path / "jobs.sqlite3")
    yield made
    made.close()


def test_a_job_is_the_same_after_a_restart(store: JobStore) -> None:
    job = store.submit((spec("echo", "hi", environment=(("A", "b"),)),), 1.0)[0]
    job = store.put(job.moved(2.0, LifeState.WAITING, "it may start").with_attempt(attempt()))

    again = JobStore(store.file)

    assert again.job(job.id) == job
    assert again.open() == (job,)
    again.close()


def test_the_tasks_of_an_array_share_an_id(store: JobStore) -> None:
    made = store.submit([replace(spec(), index=index) for index in (3, 5)], 1.0)

    assert [job.id for job in made] == ["1_3", "1_5"]
    assert store.array("1") == made
    assert store.array("1_5") == made[1:]
    assert store.submit((spec(),), 1.0)[0].id != "2_3"


def test_a_token_returns_the_whole_submission_again(store: JobStore) -> None:
    tasks = [replace(spec(), index=index, token="t") for index in range(3)]  # noqa: S106

    assert store.submit(tasks, 1.0) == store.submit(tasks, 2.0)
    assert len(store.open()) == 3


def test_an_unknown_job_is_named(store: JobStore) -> None:
    with pytest.raises(StewardError, match="there is no job '7'"):
        store.array("7")


def test_of_two_changes_on_the_same_state_one_is_refused(store: JobStore) -> None:
    job = store.submit((spec(),), 1.0)[0]
    store.put(job.moved(2.0, LifeState.HELD, "ann"))

    with pytest.raises(StewardError, match="have changed"):
        store.put(job.moved(2.0, LifeState.WAITING, "it may start"))
    assert store.job(job.id).state is LifeState.HELD


def test_changes_are_read_once(store: JobStore) -> None:
    job = store.submit((spec(),), 1.0)[0]
    changed, mark = store.changed_since(0)
    assert changed == (job,)

    assert store.changed_since(mark) == ((), mark)
    later = store.put(job.moved(2.0, LifeState.WAITING, "it may start"))
    assert store.changed_since(mark)[0] == (later,)
    store.trim()
    assert store.newest(5) == (later,)


def test_a_store_of_a_newer_steward_is_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "jobs.sqlite3"
    with sqlite3.connect(file) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()

    with pytest.raises(StewardError, match="newer steward"):
        JobStore(file)


def test_a_damaged_store_is_refused_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "jobs.sqlite3"
    file.write_bytes(b"no database" * 1000)

    with pytest.raises(StewardError, match="cannot be opened") as caught:
        JobStore(file)
    assert "backup" in caught.value.hint


def test_others_cannot_read_what_people_run(tmp_path: Path) -> None:
    file = tmp_path / "jobs.sqlite3"
    store = JobStore(file)
    store.submit([spec()], 1.0)

    kept = {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()}
    store.close()

    assert kept["jobs.sqlite3"] == 0o600
    assert {*kept.values()} == {0o600}


def test_the_same_token_of_two_accounts_is_two_jobs(tmp_path: Path) -> None:
    store = JobStore(tmp_path / "jobs.sqlite3")

    specs = [spec(uid=uid, token="t") for uid in (1, 2, 1)]  # noqa: S106
    made = [store.submit([each], 1.0)[0] for each in specs]

    assert [each.spec.uid for each in made] == [1, 2, 1]
    assert made[0].id == made[2].id != made[1].id
    store.close()
