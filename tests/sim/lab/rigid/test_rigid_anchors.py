"""Agreement with the simulator of Tiresias' authors on Philly's virtual clusters, to the digit.

The peer's figures are in the data folder, `traces/anchors`; GPUs are only counted, as there.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from steward.model.machines import machines_of
from steward.model.replay import Replay
from steward.model.trace import Trace
from steward.sim.lab.run import replay
from steward.sim.lab.settings import LabSettings
from steward.sim.traces import read_trace

DATA = Path(os.environ.get("STEWARD_DATA", Path(__file__).resolve().parents[5] / "shared" / "data"))
TRACES = DATA / "traces"
OURS = {  # by the peer's names
    "fifo": "fifo",
    "fjf": "fit-first",
    "shortest": "srtf",
    "shortest-gpu": "srsf",
    "dlas": "las",
}
CLUSTERS = {"103959": 24, "0e4a51": 40, "ee9e8c": 128, "b436b2": 64, "6c71a0": 64}

pytestmark = pytest.mark.data


@cache
def trace_of_cluster(name: str) -> Trace:
    return read_trace(TRACES / "philly").of_tenant(name)


def replayed(name: str, gpus: int, policy: str) -> Replay:
    return replay(trace_of_cluster(name), machines_of(gpus), policy, LabSettings())


def mean_jct_s(made: Replay) -> float:
    return float(np.mean(made.end_s - made.trace.submit_s))


def peer() -> pl.DataFrame:
    runs = pl.read_csv(TRACES / "anchors" / "peer_summary.csv.gz")
    return runs.filter(
        (pl.col("simulator") == "tiresias-sim") & (pl.col("settings") == "placement=count")
    )


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_mean_completion_times_and_stops_are_those_of_the_peer(cluster: str) -> None:
    runs = peer().filter(
        (pl.col("trace") == f"philly/{cluster}") & pl.col("policy").is_in(list(OURS))
    )

    for row in runs.iter_rows(named=True):
        gpus = 8 * int(row["cluster"].split("x")[0])
        made = replayed(cluster, gpus, OURS[row["policy"]])
        said = f"{row['policy']} on {gpus} GPUs"
        assert len(made.trace) == row["jobs"], said
        assert mean_jct_s(made) == pytest.approx(row["avg_jct_s"], abs=0.1), said
        assert made.preemptions.sum() == row["preemptions"], said
    assert len(runs) >= 2


def test_every_job_of_two_clusters_ends_when_it_ends_there() -> None:
    jobs = pl.read_csv(
        TRACES / "anchors" / "tiresias_sim_jobs.csv.gz", schema_overrides={"vc": str}
    )
    compared = 0
    for keys, rows in jobs.filter(pl.col("policy").is_in(list(OURS))).group_by(
        ["vc", "gpus", "policy"], maintain_order=True
    ):
        cluster, gpus, policy = keys
        made = replayed(str(cluster), int(str(gpus)), OURS[str(policy)])
        theirs = rows.sort("job_id")
        assert differing(made, theirs) == [], keys
        compared += len(theirs)

    assert compared == 5 * (1934 + 1511)


def differing(made: Replay, theirs: pl.DataFrame) -> list[Any]:
    """Return the rows in which start, end or stops are not the same."""
    origin_s = float(theirs["start_s"].min() or 0) - float(np.nanmin(made.start_s))
    columns = (made.start_s + origin_s, made.end_s + origin_s, made.preemptions)
    told = (theirs[name].to_numpy() for name in ("start_s", "end_s", "preemptions"))
    same = np.all([abs(a - b) <= 0.5 for a, b in zip(columns, told, strict=True)], axis=0)
    return np.flatnonzero(~same).tolist()


@pytest.mark.parametrize(
    ("cluster", "mean_s"),
    [
        ("103959", 94_974.0),
        ("ee9e8c", 247_559.1),
        ("0e4a51", 543_710.3),
        ("b436b2", 29_739.2),
        ("6c71a0", 22_783.7),
    ],
)
def test_tiresias_with_a_timer_that_is_right_gives_what_it_should(
    cluster: str, mean_s: float
) -> None:
    made = replayed(cluster, CLUSTERS[cluster], "tiresias")

    assert mean_jct_s(made) == pytest.approx(mean_s, abs=0.5)


def test_tiresias_is_within_the_bound_of_the_peer_whose_timer_is_late() -> None:
    runs = peer().filter(pl.col("policy") == "dlas-gpu")

    for row in runs.iter_rows(named=True):
        cluster, gpus = row["trace"].split("/")[1], 8 * int(row["cluster"].split("x")[0])
        made = replayed(cluster, gpus, "tiresias")
        assert mean_jct_s(made) == pytest.approx(row["avg_jct_s"], rel=0.025), row["trace"]
    assert len(runs) == 5


def test_fifo_on_whole_nodes_is_between_two_peers() -> None:
    made = replay(
        trace_of_cluster("103959"), machines_of(24), "fifo", LabSettings(placement="packed")
    )

    assert 368_408 * 0.995 < mean_jct_s(made) < 368_784 * 1.005
