"""Trials: variants of a trace, what cannot run, results that are kept, processes that agree."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.batch import cores
from steward.errors import StewardError
from steward.model.machines import MachineChange, Machines, machines_of
from steward.model.replay import Replay
from steward.model.trace import Trace, trace_of
from steward.sim.lab.settings import LabSettings
from steward.sim.lab.trials import (
    Cache,
    Failed,
    Judged,
    StudyInput,
    Trial,
    run_trials,
    runnable,
)
from steward.sim.lab.trials.cache import base_digest, default_folder, digest_of
from steward.sim.lab.trials.codec import DamagedError, pack, unpack
from steward.sim.lab.trials.trial import busiest_day, run_trial
from steward.sim.lab.trials.variants import natural_gpus, resized, window, with_load
from tiny_replays import small_trace, tiny_run

BASE = StudyInput(trace=small_trace(40), machines=machines_of(8), run=tiny_run)
FIFO = Trial(policy="fifo", settings=LabSettings())


def judged(trial: Trial = FIFO) -> Judged:
    found = run_trial(BASE, trial)
    assert isinstance(found, Judged)
    return found


# -- variants ----------------------------------------------------------------------------------


def test_a_load_of_two_lets_the_same_jobs_come_twice_as_fast() -> None:
    twice = with_load(BASE.trace, 2.0)

    assert (twice.submit_s == BASE.trace.submit_s / 2).all()
    assert twice.duration_s is BASE.trace.duration_s
    assert with_load(BASE.trace, 1.0) is BASE.trace


@given(many=st.integers(1, 6))
def test_windows_hold_every_job_once(many: int) -> None:
    parts = [window(BASE.trace, which, many) for which in range(many)]

    ids = [job for part in parts for job in part.job_id]
    assert ids == list(BASE.trace.job_id)
    assert all(part.submit_s[0] == 0.0 for part in parts if len(part))


def test_the_natural_size_is_whole_nodes_that_are_filled_to_80_percent() -> None:
    trace = trace_of("t", submit_s=[0, 1000], duration_s=[800, 800], gpus=[10, 10])

    assert natural_gpus(trace, gpus_per_node=8) == 24  # 16 on average, 20 at 80 %
    assert natural_gpus(trace, gpus_per_node=1) == 20


def test_the_natural_size_has_room_for_the_largest_job() -> None:
    trace = trace_of("t", submit_s=[0, 1e6], duration_s=[1, 1], gpus=[1, 64])

    assert natural_gpus(trace, gpus_per_node=8) == 64


def test_a_cluster_of_another_size_keeps_its_kind() -> None:
    small = replace(machines_of(16, gpus_per_node=4), busy_watts=np.full(4, 700.0))

    large = resized(small, 40)

    assert (large.total_gpus, len(large), set(large.busy_watts)) == (40, 10, {700.0})
    with pytest.raises(StewardError, match="clusters of one type"):
        resized(replace(small, changes=(MachineChange(t_s=1.0, node=0, up=False),)), 8)


def test_jobs_that_no_machine_can_run_are_left_out_and_told() -> None:
    trace = trace_of(
        "t",
        submit_s=[0, 1, 2, 3],
        duration_s=[1, 1, 1, 1],
        gpus=[1, 99, 1, 8],
        gpu_type=["V100", "", "TPU", "V100|A100"],
    )
    machines = replace(machines_of(8), types=("V100",))

    kept, faults = runnable(trace, machines)

    assert list(kept.job_id) == ["0", "3"]
    assert [(each.rows, each.kept) for each in faults] == [(1, False), (1, False)]
    assert "GPU type not in the cluster (it has V100)" in faults[0].reason
    assert faults[0].examples == ("job 2 asks for 1 GPUs of type TPU",)
    assert faults[1].examples == ("job 1 asks for 99 GPUs",)


def test_a_cluster_without_types_takes_all_and_says_so() -> None:
    trace = trace_of("t", submit_s=[0], duration_s=[1], gpus=[1], gpu_type=["TPU"])

    kept, (fault,) = runnable(trace, machines_of(8))

    assert (len(kept), kept.gpu_types, fault.kept) == (1, (), True)


def test_machines_that_come_later_make_room_for_large_jobs() -> None:
    trace = trace_of("t", submit_s=[0], duration_s=[1], gpus=[16])
    late = replace(
        machines_of(16),
        up=np.array([True, False]),
        changes=(MachineChange(t_s=50.0, node=1, up=True),),
    )

    assert len(runnable(trace, late)[0]) == 1
    assert len(runnable(trace, replace(late, changes=()))[0]) == 0


# -- trials ------------------------------------------------------------------------------------


def test_a_policy_that_cannot_run_is_a_result_too() -> None:
    found = run_trial(BASE, replace(FIFO, policy="pollux"))

    assert found == Failed(
        policy="pollux", problem="pollux needs what this trace has not", hint="take another trace"
    )


def test_a_trial_changes_what_it_says() -> None:
    plain = judged()

    slower = judged(replace(FIFO, settings=LabSettings(checkpoint_s=50.0)))
    faster = judged(replace(FIFO, gpus=16))
    part = judged(replace(FIFO, window=(1, 2)))

    assert slower.measures.jct_mean_s > plain.measures.jct_mean_s
    assert (faster.gpus, faster.measures.wait_mean_s < plain.measures.wait_mean_s) == (16, True)
    assert part.measures.jobs < plain.measures.jobs


def test_the_picture_shows_the_same_day_for_every_policy() -> None:
    one, other = judged().picture.gantt, judged(replace(FIFO, policy="short-first")).picture.gantt

    assert (one.from_s, one.to_s) == (other.from_s, other.to_s)
    assert ((one.start_s >= one.from_s) & (one.stop_s <= one.to_s)).all()


# -- kept results ------------------------------------------------------------------------------


def test_a_result_survives_being_packed() -> None:
    found = judged()

    again = unpack(pack(found))

    assert isinstance(again, Judged)
    assert pack(again) == pack(found)
    assert again.measures.figures() == pytest.approx(found.measures.figures(), nan_ok=True)


@given(place=st.integers(0, 10_000), bit=st.integers(0, 7))
@settings(max_examples=50)
def test_no_flipped_bit_goes_unnoticed(place: int, bit: int) -> None:
    content = bytearray(pack(Failed(policy="a", problem="b", hint="c")))
    content[place % len(content)] ^= 1 << bit

    with pytest.raises(DamagedError):
        unpack(bytes(content))


@pytest.mark.parametrize(
    "content", [b"", b"x" * 20, pack(Failed(policy="", problem="", hint=""))[:-9]]
)
def test_what_is_no_result_is_damage(content: bytes) -> None:
    with pytest.raises(DamagedError):
        unpack(content)


class Counting:
    """A run that counts how often it is asked."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(
        self, trace: Trace, machines: Machines, policy: str, settings: LabSettings
    ) -> Replay:
        self.times += 1
        return tiny_run(trace, machines, policy, settings)


def test_what_is_known_is_not_computed_again(tmp_path: Path) -> None:
    run, cache = Counting(), Cache(folder=tmp_path)
    base = replace(BASE, run=run)

    first = run_trials(base, [FIFO, replace(FIFO, policy="short-first")], cache=cache)
    again = run_trials(base, [FIFO], cache=cache)

    assert run.times == 2
    assert pack(again[0]) == pack(first[0])


def test_damaged_results_are_computed_anew(tmp_path: Path) -> None:
    run, cache = Counting(), Cache(folder=tmp_path)
    base = replace(BASE, run=run)
    run_trials(base, [FIFO], cache=cache)
    (file,) = tmp_path.rglob("*.trial")
    file.write_bytes(file.read_bytes()[:100])

    run_trials(base, [FIFO], cache=cache)

    assert run.times == 2
    assert isinstance(unpack(file.read_bytes()), Judged)


def test_failures_are_not_kept(tmp_path: Path) -> None:
    run_trials(BASE, [replace(FIFO, policy="pollux")], cache=Cache(folder=tmp_path))

    assert list(tmp_path.rglob("*.trial")) == []


def test_anything_that_changes_a_result_changes_its_name() -> None:
    other_trace = replace(BASE, trace=replace(BASE.trace, gpus=BASE.trace.gpus * 2))
    other_names = replace(BASE, trace=replace(BASE.trace, job_id=BASE.trace.job_id[::-1]))
    trials = [
        FIFO,
        replace(FIFO, policy="srtf"),
        replace(FIFO, load=1.1),
        replace(FIFO, window=(0, 2)),
        replace(FIFO, settings=LabSettings(policy_options={"a": 1})),
        replace(FIFO, settings=LabSettings(policy_options={"a": True})),
        replace(FIFO, settings=LabSettings(quota={"a": 1.0})),
    ]

    names = [base_digest(each) for each in (BASE, other_trace, other_names)]
    keys = [digest_of(each.plain()) for each in trials]

    assert len(set(names)) == len(names)
    assert len(set(keys)) == len(keys)
    assert digest_of(FIFO.plain()) == digest_of(replace(FIFO).plain())


def test_results_are_kept_where_the_user_keeps_such_things(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")

    assert default_folder() == Path("/somewhere/steward/lab")


# -- workers -----------------------------------------------------------------------------------


def test_processes_and_one_process_agree_and_tell_as_they_go() -> None:
    trials = [FIFO, replace(FIFO, policy="short-first"), replace(FIFO, policy="pollux")]
    told: list[int] = []

    alone = run_trials(BASE, trials)
    together = run_trials(BASE, trials, workers=2, done=lambda i, _trial: told.append(i))

    assert [pack(each) for each in alone] == [pack(each) for each in together]
    assert sorted(told) == [0, 1, 2]
    assert cores() >= 1


def test_without_dask_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask", None)

    with pytest.raises(StewardError, match="dask is not installed") as caught:
        run_trials(BASE, [FIFO], scheduler="tcp://nowhere:1")

    assert "steward[scale]" in caught.value.hint


def test_the_day_that_is_drawn_is_the_one_with_most_work_left_over() -> None:
    day = 86400.0
    trace = trace_of(
        "days",
        submit_s=[0, day, 2 * day, 3 * day],
        duration_s=[day / 2, 2 * day, 2 * day, day / 2],
        gpus=[1, 1, 1, 1],
    )

    assert busiest_day(trace, 1) == (2 * day, 3 * day)
    assert busiest_day(trace, 8) == (day, 2 * day)  # nothing is left over: most was submitted
    assert busiest_day(trace.rows(np.array([0])), 8) == (0.0, day / 2)
    assert busiest_day(trace.rows(np.array([], np.int64)), 8) == (0.0, 1.0)


def test_a_dask_cluster_and_one_process_agree() -> None:
    distributed = pytest.importorskip("distributed", reason="dask is an extra")

    with distributed.LocalCluster(n_workers=1, dashboard_address=None) as cluster:
        found = run_trials(BASE, [FIFO], scheduler=cluster.scheduler_address)

    assert pack(found[0]) == pack(judged())
