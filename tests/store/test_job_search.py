"""Pages of jobs: by state, user and words, own ones first."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from managed_jobs import spec
from steward.model.managed_job import LifeState
from steward.store.job_search import JobQuery
from steward.store.jobs import JobStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JobStore]:
    made = JobStore(tmp_path / "jobs.sqlite3")
    for user, uid, name in (("ann", 1, "train_a"), ("bob", 2, "100%"), ("ann", 1, "eval")):
        made.submit([spec(user=user, uid=uid, name=name)], 1.0)
    yield made
    made.close()


def found(store: JobStore, **query: object) -> list[str]:
    return [each.id for each in store.search(JobQuery(**query))[0]]  # type: ignore[arg-type]


def test_the_newest_come_first_after_ones_own(store: JobStore) -> None:
    assert found(store) == ["3", "2", "1"]
    assert found(store, first_uid=2) == ["2", "3", "1"]


def test_a_page_says_how_many_there_are_in_all(store: JobStore) -> None:
    page, total = store.search(JobQuery(limit=1, offset=1))

    assert ([each.id for each in page], total) == (["2"], 3)


def test_jobs_are_found_by_state_user_and_words(store: JobStore) -> None:
    store.put(store.job("1").moved(2.0, LifeState.CANCELLED, "enough"))

    assert found(store, states=(LifeState.CANCELLED,)) == ["1"]
    assert found(store, user="ann") == ["3", "1"]
    assert found(store, text="TRAIN ann") == ["1"]
    assert found(store, text="train bob") == []
    assert store.states() == {LifeState.CANCELLED: 1, LifeState.SUBMITTED: 2}
    assert store.users() == ["ann", "bob"]


@pytest.mark.parametrize(("text", "ids"), [("%", ["2"]), ("_", ["1"]), ("'", []), ("\\", [])])
def test_signs_that_mean_something_to_the_database_are_only_signs(
    store: JobStore, text: str, ids: list[str]
) -> None:
    assert found(store, text=text) == ids


def test_every_change_has_another_mark(store: JobStore) -> None:
    before = store.mark
    store.put(store.job("1").moved(2.0, LifeState.CANCELLED, "enough"))

    assert store.mark != before


def test_jobs_of_a_store_from_before_there_was_a_search_are_found(store: JobStore) -> None:
    with sqlite3.connect(store.file) as database:
        database.executescript("DROP TRIGGER job_added; DROP TABLE job_words;")
    database.close()

    again = JobStore(store.file)

    assert found(again, text="train_a") == ["1"]
    again.close()
