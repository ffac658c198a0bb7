"""What queues allow, with the nearest possible value of each limit that is broken."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.decide.planning.charges import Occupied
from steward.decide.planning.limits import Asked, Fit, age_notes, validate, validate_site
from steward.errors import StewardError
from steward.model.planning.catalog import (
    Accelerator,
    Catalog,
    CatalogSite,
    Engine,
    Queue,
    Source,
)

GB = 10**9
H = 3600.0
A100 = Accelerator(
    name="A100-SXM4-40GB",
    memory_bytes=40 * GB,
    memory_bytes_per_s=1555e9,
    watts=400.0,
    flops={"bf16": 312e12},
    aliases=("a100",),
)


def queue(**changes: Any) -> Queue:
    values: dict[str, Any] = {
        "name": "gpu",
        "cores_per_node": 64,
        "memory_bytes_per_node": 256 * GB,
        "gpus_per_node": 4,
        "gpu_model": "A100-SXM4-40GB",
        "max_nodes": 8,
        "max_s": 48 * H,
    }
    return Queue(**(values | changes))


def broken(found: Fit) -> dict[str, float | str]:
    return {each.limit: each.nearest for each in found.violations}


def test_a_request_that_fits_gets_as_few_nodes_as_hold_its_gpus() -> None:
    found = validate(Asked(gpus=6, cores=8, memory_bytes=64 * GB, run_s=H), queue(), A100)

    assert found.fits
    assert (found.nodes, found.links, found.link_s, found.notes) == (2, 1, H, ())
    assert found.occupied == Occupied(nodes=2, cores=16, gpus=6)


def test_every_broken_limit_is_reported_at_once_with_the_nearest_value() -> None:
    asked = Asked(
        gpus=40,
        gpu_model="H100",
        gpu_memory_bytes=80 * GB,
        cores=65,
        memory_bytes=300 * GB,
        run_s=50 * H,
    )

    found = validate(asked, queue(), A100)

    assert not found.fits
    assert broken(found) == {
        "gpu_model": "A100-SXM4-40GB",
        "gpu_memory": 40 * GB,
        "nodes": 8,
        "cores": 64,
        "memory": 256 * GB,
        "time": 48 * H,
    }


def test_sentences_name_what_is_there_and_what_is_asked() -> None:
    found = validate(Asked(gpus=4, memory_bytes=300 * GB), queue(), A100)

    (only,) = found.violations
    assert only.text == "a node of gpu has 256 GB of memory, and 300 GB are asked"


def test_a_gpu_is_known_by_its_aliases() -> None:
    assert validate(Asked(gpus=1, gpu_model="a100"), queue(), A100).fits
    assert validate(Asked(gpus=1, gpu_model="a100-sxm4-40gb"), queue(), None).fits
    assert not validate(Asked(gpus=1, gpu_model="a100"), queue(), None).fits


def test_a_queue_without_gpus_runs_no_gpu_job() -> None:
    found = validate(Asked(gpus=2), queue(gpus_per_node=0, gpu_model=""))

    assert broken(found) == {"gpus": 0}
    assert found.nodes == 1


@pytest.mark.parametrize(
    ("gpus", "nearest", "choice"), [(5, 4, "4 or 6"), (9, 9, ""), (11, 12, "9 or 12")]
)
def test_gpus_must_be_the_same_number_on_each_node(gpus: int, nearest: int, choice: str) -> None:
    found = validate(Asked(gpus=gpus), queue())

    assert broken(found) == ({"gpus": nearest} if choice else {})
    assert all(each.text.endswith(f"ask for {choice}") for each in found.violations)


def test_fewer_gpus_than_nodes_leave_nodes_without() -> None:
    found = validate(Asked(gpus=2, nodes=3), queue())

    assert broken(found) == {"gpus": 3}
    assert found.violations[0].text.endswith("ask for 3")


def test_more_gpus_than_the_nodes_asked_for_have() -> None:
    found = validate(Asked(gpus=8, nodes=1), queue())

    assert broken(found) == {"gpus": 4}
    assert found.violations[0].text.endswith("ask for 4 GPUs, or for 2 nodes")


def test_a_queue_for_many_nodes_takes_no_small_job() -> None:
    assert broken(validate(Asked(gpus=4), queue(min_nodes=3))) == {"nodes": 3}


def test_there_are_only_so_many_nodes() -> None:
    found = validate(Asked(gpus=12), queue(nodes=2, max_nodes=None))

    assert broken(found) == {"nodes": 2}
    assert found.violations[0].text == "there are 2 nodes in gpu, and 3 are needed"


def test_without_a_limit_on_nodes_any_number_is_taken() -> None:
    assert validate(Asked(gpus=400), queue(max_nodes=None)).fits


def test_a_job_that_saves_becomes_a_chain_past_the_limit() -> None:
    found = validate(Asked(gpus=4, run_s=100 * H, saves=True, save_s=600.0), queue(), A100)

    assert found.fits
    assert found.links == 3
    assert found.link_s == pytest.approx((100 * H + 2 * 600) / 3)


def test_a_job_without_checkpoints_cannot_pass_the_limit() -> None:
    found = validate(Asked(gpus=4, run_s=100 * H), queue(), A100)

    assert broken(found) == {"time": 48 * H}
    assert "saves no checkpoints" in found.violations[0].text


def test_a_save_that_takes_as_long_as_the_limit_gets_nowhere() -> None:
    asked = Asked(gpus=4, run_s=2000.0, saves=True, save_s=600.0)

    found = validate(asked, queue(max_s=600.0), A100)

    assert broken(found) == {"time": 600.0}
    assert "600 s" in found.violations[0].text
    assert found.links == 1


def test_a_queue_without_a_time_limit_needs_no_chain() -> None:
    found = validate(Asked(gpus=4, run_s=1e6, saves=True), queue(max_s=None), A100)

    assert found.fits
    assert found.links == 1


@given(
    run_s=st.floats(1.0, 1e7), save_s=st.floats(0.0, 3000.0), limit_s=st.floats(3600.0, 200_000.0)
)
def test_a_chain_does_all_the_work_and_no_link_is_too_long(
    run_s: float, save_s: float, limit_s: float
) -> None:
    found = validate(Asked(run_s=run_s, saves=True, save_s=save_s), queue(max_s=limit_s))

    work_s = found.links * found.link_s - (found.links - 1) * save_s
    assert found.link_s <= limit_s
    assert math.isclose(work_s, run_s, rel_tol=1e-6)
    if found.links > 1:  # one job fewer would not do
        assert (found.links - 1) * limit_s - (found.links - 2) * save_s < run_s * (1 + 1e-6)


def test_what_is_not_known_is_said_and_refuses_nothing() -> None:
    bare = queue(cores_per_node=0, memory_bytes_per_node=0, gpu_model="")
    asked = Asked(gpus=1, cores=8, memory_bytes=GB, gpu_memory_bytes=GB)

    found = validate(asked, bare)

    assert found.fits
    assert [note.split(" is not known")[0] for note in found.notes] == [
        "how many cores a node of gpu has",
        "how much memory a node of gpu has",
        "how much memory a GPU of gpu has",
    ]


def test_another_model_than_an_unknown_one_is_no_match() -> None:
    found = validate(Asked(gpus=1, gpu_model="H100"), queue(gpu_model=""))

    assert broken(found) == {"gpu_model": ""}


def test_all_queues_of_a_site_are_checked() -> None:
    site = CatalogSite(
        name="s", engine=Engine.SLURM, queues=(queue(), queue(name="small", max_nodes=1))
    )

    found = validate_site(Asked(gpus=8), site, Catalog(sites=(site,), accelerators=(A100,)))

    assert [(each.queue, each.fits) for each in found] == [("gpu", True), ("small", False)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"gpus": -1},
        {"cores": 0},
        {"memory_bytes": -1},
        {"run_s": math.inf},
        {"run_s": math.nan},
        {"nodes": 0},
    ],
)
def test_requests_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(StewardError) as caught:
        Asked(**wrong)

    assert caught.value.hint


NOW_S = 1_795_046_400.0  # 2026-11-19


@pytest.mark.parametrize(
    ("own", "of_site", "says"),
    [
        ("2026-01-01", "", ""),
        ("2024-11-19", "2026-01-01", "of 2024-11-19, 2.0 years ago (the page)"),
        ("", "2026-01-01", ""),
        ("", "2023-11-20", "of 2023-11-20, 3.0 years ago (the site's page)"),
        ("", "", "is not known (the site's page)"),
    ],
)
def test_facts_older_than_a_year_are_marked(own: str, of_site: str, says: str) -> None:
    place = queue(source=Source(text="the page", as_of=own))
    site = CatalogSite(
        name="s",
        engine=Engine.SLURM,
        queues=(place,),
        source=Source(text="the site's page", as_of=of_site),
    )

    notes = age_notes(site, place, NOW_S)

    assert bool(notes) == bool(says)
    assert all(note.endswith(says) for note in notes)


def test_undated_facts_without_a_source_are_marked_as_well() -> None:
    site = CatalogSite(name="s", engine=Engine.LOCAL, queues=(queue(),))

    assert age_notes(site, site.queues[0], NOW_S) == (
        "as of when limits and prices of s/gpu hold is not known",
    )
