"""What jobs have in common: names, scripts, time limits."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.learn.job_contexts import SLOTS, JobFeatures, job_contexts, script_bands
from steward.model.job import JobShape

ONE = JobShape(gpus=1)


def named(slot: str, job: JobFeatures) -> object:
    return job_contexts(job, -1, -1)[SLOTS.index(slot)]


def test_runs_that_differ_in_a_number_are_the_same_work() -> None:
    first, second = (JobFeatures(shape=ONE, user="ada", name=f"bert-{i}") for i in (1, 2))

    assert named("user, stem and shape", first) == named("user, stem and shape", second)
    assert named("user and name", first) != named("user and name", second)


def test_what_is_not_known_is_no_context() -> None:
    contexts = job_contexts(JobFeatures(shape=ONE), -1, -1)
    known = {SLOTS[i] for i, each in enumerate(contexts) if each is not None}

    assert known == {"all", "all, quick", "size", "size, quick", "last of name"}


@given(st.text(max_size=40), st.text(max_size=40), st.integers(0, 64))
def test_contexts_of_different_slots_are_never_the_same(user: str, name: str, gpus: int) -> None:
    job = JobFeatures(
        shape=JobShape(gpus=gpus), tenant=name, user=user, name=name, script=user, time_limit_s=60.0
    )
    known = [each for each in job_contexts(job, 3, 4) if each is not None]

    assert len(known) == len(set(known))


@pytest.mark.parametrize(("kept", "least", "most"), [(0.97, 0.8, 1.0), (0.2, 0.0, 0.15)])
def test_scripts_share_a_band_the_more_often_the_more_alike_they_are(
    kept: float, least: float, most: float
) -> None:
    draws = random.Random(5)  # noqa: S311 - of words for a test
    words = [f"{a}{b}{c}" for a in "abcdef" for b in "aeiou" for c in "lmnrst"]
    shared = 0
    for _ in range(150):
        one = draws.sample(words, 60)
        other = [word if draws.random() < kept else draws.choice(words) for word in one]
        shared += bool(set(script_bands(" ".join(one))) & set(script_bands(" ".join(other))))

    assert least <= shared / 150 <= most
