"""The public traces of the data folder: every folder, with the counts its README states."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from steward.errors import StewardError
from steward.sim.traces import read_nodes, read_pods, read_trace, trace_names

DATA = Path(os.environ.get("STEWARD_DATA", Path(__file__).resolve().parents[4] / "shared" / "data"))
TRACES = DATA / "traces"

pytestmark = pytest.mark.data


@pytest.mark.parametrize(
    ("name", "jobs", "left_out"),
    [
        ("philly", 82_247, 0),
        ("alibaba_pai_100k", 99_998, 0),
        ("chronus", 30_746, 194),
        ("tiresias", 60, 0),
        ("alibaba_openb", 7_255, 897),
        ("pollux/1.0/6", 160, 0),
        ("sia/newtrace/1", 960, 0),
        ("gavel/minimize_makespan", 100, 0),
        ("gavel/msr/1", 15_264, 0),
        ("shockwave/220", 220, 0),
        ("muri/trace1", 1_494, 0),
    ],
)
def test_a_folder_reads_with_the_counts_of_its_readme(name: str, jobs: int, left_out: int) -> None:
    trace = read_trace(TRACES / name)

    assert len(trace) == jobs
    assert sum(fault.rows for fault in trace.faults if not fault.kept) == left_out
    assert trace.name == name
    assert (np.diff(trace.submit_s) >= 0).all()
    assert (trace.duration_s > 0).all()
    assert not trace.synthetic


@pytest.mark.parametrize(
    ("folder", "traces", "jobs"),
    [
        ("philly", 1, 82_247),
        ("pollux", 40, 7_680),
        ("sia", 18, 6_880),
        ("gavel", 7, 30_779),
        ("shockwave", 2, 340),
        ("muri", 2, 7_249),
    ],
)
def test_all_traces_of_a_folder_add_up(
    monkeypatch: pytest.MonkeyPatch, folder: str, traces: int, jobs: int
) -> None:
    monkeypatch.setenv("STEWARD_DATA", str(DATA))

    names = trace_names(folder)

    assert len(names) == traces
    assert sum(len(read_trace(name)) for name in names) == jobs


def test_every_openb_list_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEWARD_DATA", str(DATA))
    names = trace_names("alibaba_openb")

    lengths = [len(read_trace(name)) for name in names]
    pods, machines = read_pods("alibaba_openb"), read_nodes("alibaba_openb")

    assert len(names) == 23
    assert min(lengths) > 6_000
    assert (len(pods), int((pods.gpus == 0).sum())) == (8_152, 1_088)
    assert int(((pods.gpus > 0) & (pods.gpus < 1)).sum()) == 3_078
    assert (len(machines), machines.total_gpus) == (1_213, 6_212)


def test_one_virtual_cluster_is_read_as_the_anchors_were_run() -> None:
    trace = read_trace(TRACES / "philly" / "103959")

    assert len(trace) == 1_934
    assert trace.job_id[:3].tolist() == ["0", "1", "2"]
    assert trace.submit_s[:3].tolist() == [0.0, 219_316.0, 251_674.0]
    assert trace.duration_s[:2].tolist() == [976_570.0, 1_792_395.0]
    # the anchors' mean queueing plus mean run time is their mean completion time
    assert trace.duration_s.mean() == pytest.approx(353_357.5 - 327_614.2, abs=0.1)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("helios_earth_series", "GPUs in use per virtual cluster"),
        ("acme_summary", "summary statistics"),
        ("lingjun_topology", "switch topology"),
        ("anchors", "results of other simulators"),
        ("tiresias/yarn_gpu_time_samples.csv.gz", "samples of GPU time"),
        ("gavel/throughputs_solo.csv.gz", "measured speeds"),
        ("pollux/published_jcts.csv.gz", "published completion times"),
    ],
)
def test_what_holds_no_jobs_says_what_it_is(name: str, words: str) -> None:
    with pytest.raises(StewardError, match=words) as caught:
        read_trace(TRACES / name)

    assert caught.value.hint
