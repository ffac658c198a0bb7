"""`steward estimate`: what was learned answers for a job that has not been submitted yet."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from factories import job, node, view
from steward.learn.estimators.similar_jobs import SimilarJobs
from steward.model.identity import TenantId
from steward.model.job import JobRequest, JobShape, JobState
from steward.store.learned import LearnedStates
from told import steward


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a store in which ten runs of one job, of an hour each, were learned from."""
    learner = SimilarJobs()
    for number in range(10):
        past = job("j", user="ada", state=JobState.COMPLETED, start_s=0.0, end_s=3600.0)
        ended = (replace(past, name=f"bert-{number}"),)
        learner.learn(replace(view(node("n1", 2)), ended=ended), outcomes=())
    LearnedStates(tmp_path / "learned").save(
        learner.name, learner.state_version, learner.save_state(), learnt_from={}
    )
    return tmp_path


def test_the_run_time_of_a_job_is_estimated_from_similar_ones(folder: Path) -> None:
    like = ("--gpus", 1, "--tenant", job("j").tenant, "--user", "ada", "--name", "bert-99")

    answer = steward("estimate", *like, "--data", folder, "--json")

    (found,) = answer.json
    assert found["quantity"] == "run.left_s"
    assert found["low"] <= found["mid"] <= found["high"]
    assert 1800 < found["mid"] < 7200
    assert "10 jobs of the same size, tenant, user and name" in found["basis"]


def test_an_estimate_is_a_table_for_people(folder: Path) -> None:
    answer = steward("estimate", "--gpus", 1, "--tenant", "another", "--data", folder)

    assert answer.code == 0
    assert "run time" in answer.out
    assert "10 jobs of the same size" in answer.out
    assert "four of five such jobs" in answer.err


def test_an_unknown_tenant_is_named_and_one_of_other_sizes_too(folder: Path) -> None:
    def basis(tenant: str, gpus: int = 1) -> str:
        like = ("--gpus", gpus, *(("--tenant", tenant) if tenant else ()))
        return str(steward("estimate", *like, "--data", folder, "--json").json[0]["basis"])

    assert "no job at all of tenant 'another' has ended" in basis("another")
    assert "tenant '" not in basis(job("j").tenant)
    assert "tenant '" not in basis("")


def test_an_estimate_from_few_jobs_has_their_number_and_how_wide_it_is() -> None:
    learner, seen = SimilarJobs(), view(node("n1", 2))
    for gpus, runs in ((1, (600.0, 36_000.0)), (2, (60.0,))):
        for end_s in runs:
            past = job("j", state=JobState.COMPLETED, start_s=0.0, end_s=end_s)
            past = replace(past, shape=JobShape(gpus=gpus), tenant=TenantId(f"t{gpus}"))
            learner.learn(replace(seen, ended=(past,)), outcomes=())

    (two,) = learner.estimate(JobRequest(shape=JobShape(gpus=1), tenant=TenantId("t1")))
    (other,) = learner.estimate(JobRequest(shape=JobShape(gpus=1), tenant=TenantId("t2")))

    assert "2 jobs of the same size, tenant, user and name; few: high is" in two.basis
    assert f"{two.high / two.low:,.1f} times low" in two.basis
    assert "; no such job of tenant 't2' has ended" in other.basis


def test_a_size_of_which_no_job_has_ended_is_not_guessed_from_others(folder: Path) -> None:
    answer = steward("estimate", "--gpus", 1000, "--data", folder)

    assert answer.code == 0
    assert "no job of 1000 GPUs has ended where steward saw it" in answer.err
    assert steward("estimate", "--gpus", 1000, "--data", folder, "--json").json == []


def test_where_no_estimator_can_tell_one_is_named(tmp_path: Path) -> None:
    answer = steward("estimate", "--gpus", 2, "--data", tmp_path)

    assert answer.code == 0
    assert "similar-jobs" in answer.err


def test_a_state_that_cannot_be_used_is_named_and_left_where_it_is(folder: Path) -> None:
    saved = folder / "learned" / "similar-jobs.learned"
    saved.write_bytes(b"broken")

    answer = steward("estimate", "--gpus", 2, "--data", folder)

    assert answer.code == 0
    assert "damaged" in answer.err
    assert saved.read_bytes() == b"broken"
    assert [each.name for each in folder.rglob("*") if each.is_file()] == [saved.name]


def test_a_folder_that_is_not_there_is_an_error_and_not_an_empty_answer(tmp_path: Path) -> None:
    answer = steward("estimate", "--gpus", 2, "--data", tmp_path / "elsewhere")

    assert answer.code == 2
    assert "elsewhere: there is no such folder" in answer.err


def test_a_first_job_of_a_size_is_estimated_by_itself_and_not_by_smaller_ones() -> None:
    learner = SimilarJobs()
    small = job("j", state=JobState.COMPLETED, start_s=0.0, end_s=1800.0)
    large = job(
        "k", state=JobState.COMPLETED, start_s=0.0, end_s=36_000.0, shape=JobShape(gpus=1000)
    )
    seen = view(node("n1", 2))
    learner.learn(replace(seen, ended=(small,) * 200), outcomes=())
    learner.learn(replace(seen, ended=(large,)), outcomes=())

    (found,) = learner.estimate(JobRequest(shape=large.shape, tenant=large.tenant))

    assert 18_000 < found.low <= found.mid <= found.high < 72_000
    assert "1 job of the same size" in found.basis


def test_a_model_on_an_unknown_gpu_is_refused_before_anything_is_traced() -> None:
    answer = steward("estimate", "model", "gpt2", "--batch", 1, "--gpu", "h2000")

    assert answer.code == 2
    assert "h200" in answer.err


def test_a_score_needs_the_columns_of_measured_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("model,batch\ngpt2,4\n")

    answer = steward("estimate", "score", path)

    assert answer.code == 2
    assert "nvml_used_bytes" in answer.err


def test_without_a_command_and_without_gpus_both_are_named() -> None:
    answer = steward("estimate")

    assert answer.code == 2
    assert "--gpus" in answer.err


def test_the_history_answers_under_its_own_command_too(folder: Path) -> None:
    like = ("--gpus", 1, "--tenant", job("j").tenant, "--user", "ada", "--name", "bert-99")

    short = steward("estimate", *like, "--data", folder, "--json")
    full = steward("estimate", "job", *like, "--data", folder, "--json")

    assert short.json == full.json
