"""What pages read: by the rules of the API, and nothing for those who may not."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from pathlib import Path

import pytest

from managed_jobs import attempt, spec
from service.bed import OWNER, ServiceBed, build_bed
from steward.config.local_jobs import LocalJobRunner
from steward.errors import StewardError
from steward.model.managed_job import LifeState, ManagedJob
from steward.service.authentication import User
from steward.service.pages.jobs import JobReader
from steward.service.pages.jobs.form import submit_form
from steward.store.job_search import JobQuery
from steward.store.tokens import Role

SECRET = "s3cret"  # noqa: S105 - what must not be shown
OWN = User(name=OWNER, role=Role.ADMIN)
OPERATOR = User(name="olga", role=Role.OPERATOR)
VIEWER = User(name="eve", role=Role.VIEWER)


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[ServiceBed]:
    made = build_bed(tmp_path, run_s=20.0)
    yield made
    made.loop.close()


@pytest.fixture
def reader(bed: ServiceBed) -> Iterator[JobReader]:
    runner = LocalJobRunner.open(bed.live_state.settings, clock=bed.clock)
    assert runner is not None
    yield JobReader(runner=runner, live_state=bed.live_state)
    runner.store.close()


def add(reader: JobReader, *states: LifeState, **given: object) -> ManagedJob:
    hidden = {"argv": ("run", SECRET), "script": f"#!{SECRET}", "folder": f"/{SECRET}"}
    (job,) = reader.runner.store.submit([spec(**{**hidden, **given})], 1.0)
    for at, state in enumerate(states):
        job = job.moved(2.0 + at, state, "test", detail=SECRET)
    if LifeState.STARTING in states:
        job = job.with_attempt(attempt())
    return reader.runner.store.put(job)


RUNS = (LifeState.WAITING, LifeState.STARTING, LifeState.RUNNING)


def test_a_viewer_gets_nothing_of_what_a_job_runs(reader: JobReader) -> None:
    job = add(reader, *RUNS)
    (work := reader.runner.engine.work_folder(job.id)).mkdir(parents=True)
    (work / "output.log").write_text(SECRET)

    theirs = (reader.record(job.id, VIEWER), reader.page(JobQuery(), VIEWER))

    assert SECRET not in str(theirs)
    assert reader.log(job.id, VIEWER) is None
    assert SECRET in str(reader.record(job.id, OPERATOR))
    assert reader.log(job.id, OWN) == SECRET


def test_a_viewers_token_changes_nothing_whatever_account_it_has(reader: JobReader) -> None:
    job = add(reader, LifeState.WAITING)

    with pytest.raises(StewardError, match="viewer"):
        reader.change(job.id, "cancel", VIEWER)

    assert reader.runner.store.job(job.id).state is LifeState.WAITING
    reader.change(job.id, "cancel", OPERATOR)
    assert reader.runner.store.job(job.id).state is LifeState.CANCELLED


def test_who_cannot_submit_is_told_why(reader: JobReader) -> None:
    viewer, nobody = reader.refusal(VIEWER), reader.refusal(OPERATOR)

    assert viewer is not None
    assert "viewer" in viewer.problem
    assert nobody is not None
    assert "token_accounts" in nobody.hint
    assert reader.refusal(OWN) is None


def test_who_started_steward_has_its_account_unless_that_is_root(reader: JobReader) -> None:
    started = User(name="somebody", role=Role.ADMIN, started_service=True)

    account = reader.asker(started).account

    assert (account is None) == (os.geteuid() == 0)


def test_the_end_of_a_long_log_is_read(reader: JobReader) -> None:
    job = add(reader, *RUNS)
    (work := reader.runner.engine.work_folder(job.id)).mkdir(parents=True)
    (work / "output.log").write_text("begin\n" + "€\n" * 100_000 + "end\n")

    text = reader.log(job.id, OWN)

    assert text is not None
    lines = text.splitlines()
    assert lines[0] == f"[the end alone: `steward jobs logs {job.id}` prints all of it]"
    assert {*lines[1:-1]} == {"€"}
    assert lines[-1] == "end"
    assert (60 << 10) < len(text.encode()) < (65 << 10)


def test_output_at_a_place_of_the_users_choice_is_theirs_to_read(reader: JobReader) -> None:
    job = add(reader, output="/etc/passwd")

    assert reader.log(job.id, OWN) is None


def test_a_job_has_a_name_an_array_too_and_nothing_else_has(reader: JobReader) -> None:
    job = add(reader, name="train")
    reader.runner.store.submit([spec(name="sweep", index=each) for each in (0, 1)], 1.0)

    assert reader.name_of(job.id) == "1 train"
    assert reader.name_of("2") == "2 sweep (array)"
    assert [reader.name_of(each) for each in ("9", "../1", "x", "1_0")] == [None] * 4
    tasks = reader.record("2", VIEWER)["tasks"]
    assert [each["id"] for each in tasks] == ["2_0", "2_1"]


def test_a_job_that_waits_where_no_policy_starts_any_says_so(reader: JobReader) -> None:
    job = add(reader, LifeState.WAITING)

    found = reader.why(job)

    assert found["eta"] is None
    assert found["summary"]
    assert reader.page(JobQuery(), OWN).records[0]["eta"] is None


def test_what_a_person_asked_for_is_no_decision(reader: JobReader) -> None:
    assert not reader.decided("r-1234")


def test_without_loans_there_are_none(reader: JobReader) -> None:
    add(reader, *RUNS)

    assert reader.loans(OWN) == []


def test_the_form_offers_slots_where_there_are_no_gpus(reader: JobReader) -> None:
    me = pwd.getpwuid(os.getuid())

    form = submit_form(reader.runner.devices, me, opened=True)

    assert 'name="slots"' in form
    assert ('name="gpus"' in form) == bool(reader.runner.devices.uuids)
    assert "This machine has 2." in form
    assert " open" in form
    assert " open" not in submit_form(reader.runner.devices, me, opened=False)
