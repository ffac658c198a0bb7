"""A pid becomes its job."""

from __future__ import annotations

import polars as pl

from steward.model.identity import JobId
from steward.observe.process_owners import named

JOBS = {7: JobId("812"), 8: JobId("812"), 9: None}


def frame(*rows: tuple[str, float | None]) -> pl.DataFrame:
    return pl.DataFrame(
        [(1.0, entity, value) for entity, value in rows],
        schema={"t_s": pl.Float64, "entity": pl.String, "share.busy_share": pl.Float64},
        orient="row",
    )


def test_processes_of_one_job_on_one_gpu_add_up() -> None:
    seen = frame(("n1/gpu0", 0.9), ("n1/gpu0@pid:7", 0.25), ("n1/gpu0@pid:8", 0.5))

    joined = named(seen, JOBS.get)

    assert joined.rows() == [(1.0, "n1/gpu0", 0.9), (1.0, "n1/gpu0@812", 0.75)]


def test_a_process_without_a_job_keeps_its_pid_and_unknown_stays_unknown() -> None:
    seen = frame(("n1/gpu0@pid:7", None), ("n1/gpu0@pid:9", 0.5), ("n1/gpu1@pid:77", 0.1))

    joined = named(seen, JOBS.get)

    assert joined.rows() == [
        (1.0, "n1/gpu0@812", None),
        (1.0, "n1/gpu0@pid:9", 0.5),
        (1.0, "n1/gpu1@pid:77", 0.1),
    ]


def test_a_frame_without_pids_is_left_as_it_is() -> None:
    seen = frame(("n1/gpu0", 0.9))

    assert named(seen, JOBS.get) is seen
