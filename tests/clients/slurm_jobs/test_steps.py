"""What `--inside` takes becomes options of srun, or a refusal with its reason."""

from __future__ import annotations

import pytest

from steward.clients.slurm_jobs.steps import is_step, step_draft
from steward.errors import StewardError

TOKEN = {"token": "abcd"}


def test_options_of_a_step_are_those_of_srun() -> None:
    given = {**TOKEN, "gpus": "a100:2", "time": "90s", "cpus-per-task": "3", "chdir": "/data"}

    draft = step_draft("12", ("python", "train.py"), given)

    assert draft.gpus == 2
    assert draft.options == (
        "--gres=gpu:a100:2",
        "--time=0:90",
        "--cpus-per-task=3",
        "--chdir=/data",
    )


@pytest.mark.parametrize(
    ("allocation", "given", "words"),
    [
        ("12", {**TOKEN, "partition": "gpu", "hold": ""}, "--hold, --partition"),
        ("12", {**TOKEN, "gpus": "many"}, "no number of GPUs"),
        ("12", {"token": "../../etc"}, "no such job or token"),
        ("12; rm", TOKEN, "no such job or token"),
    ],
)
def test_what_cannot_be_is_refused(allocation: str, given: dict[str, str], words: str) -> None:
    with pytest.raises(StewardError, match=words):
        step_draft(allocation, ("true",), given)


def test_a_step_is_told_from_a_job_and_a_task() -> None:
    assert [is_step(each) for each in ("12.1", "12", "12_1", "12.batch")] == [
        True,
        False,
        False,
        False,
    ]
