"""Recorded Slurm output becomes jobs, a cluster, tenants, events and spans."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fake_slurm import FakeSlurm
from steward.errors import StewardError
from steward.model.cluster import Health
from steward.model.event import Observation
from steward.model.job import JobState
from steward.model.moment import Moment
from steward.observe.collectors.slurm import Slurm

T_S = 1_794_751_800.0
LOOK_S = 60.0


def slurm(folder: Path, **options: Any) -> Slurm:
    return Slurm(folder=f"{folder}:/bin:/usr/bin", **options)


def queue_of(fake: FakeSlurm) -> dict[str, Any]:
    queue: dict[str, Any] = json.loads(fake.recorded("squeue.json").decode("utf-8", "replace"))
    return queue


def with_job(fake: FakeSlurm, id_: int, **changes: Any) -> None:
    """Change one job of squeue's output; None removes it."""
    queue = queue_of(fake)
    jobs = [{**job, **changes} if job["job_id"] == id_ else job for job in queue["jobs"]]
    queue["jobs"] = [job for job in jobs if job.get("job_id") is not None]
    fake.squeue_prints(json.dumps(queue).encode())


def spans_of(seen: Observation, job: str) -> dict[str, tuple[float, float | None]]:
    return {span.entity: (span.from_s, span.to_s) for span in seen.spans if span.name == job}


def kinds(seen: Observation) -> list[tuple[str, str]]:
    return [(event.kind, event.subject) for event in seen.events]


def test_running_jobs_hold_their_gpus(tmp_path: Path) -> None:
    FakeSlurm(tmp_path)

    seen = slurm(tmp_path).collect(T_S)

    train = next(job for job in seen.jobs if job.id == "1")
    assert (train.state, train.tenant, train.gpus) == (
        JobState.RUNNING,
        "bio",
        ("n1/gpu0", "n1/gpu1"),
    )
    assert (train.shape.gpus, train.shape.gpu_models) == (2, ("a100",))
    assert train.nodes == ("n1",)


@pytest.mark.parametrize(
    ("result", "limit_s"),
    [
        ({"number": 90, "set": True, "infinite": False}, 5400.0),
        (90, 5400.0),
        ({"number": 0, "set": False, "infinite": True}, None),
        (None, None),
    ],
)
def test_the_time_limit_of_a_job_is_slurms(
    tmp_path: Path, result: object, limit_s: float | None
) -> None:
    with_job(FakeSlurm(tmp_path), 1, time_limit=result)

    seen = slurm(tmp_path).collect(T_S)

    assert next(job for job in seen.jobs if job.id == "1").time_limit_s == limit_s


def test_what_a_job_holds_is_reported_as_spans(tmp_path: Path) -> None:
    FakeSlurm(tmp_path)

    seen = slurm(tmp_path).collect(T_S)

    began_s = 1794751581.0
    assert spans_of(seen, "1") == dict.fromkeys(["n1@1", "n1/gpu0", "n1/gpu1"], (began_s, None))
    assert spans_of(seen, "5") == dict.fromkeys(
        ["n2@5", "n3@5", "n2/*", "n3/*"], (began_s, 1794751704.0)
    )
    assert spans_of(seen, "7") == {}


def test_spans_report_whose_job_it_was(tmp_path: Path) -> None:
    FakeSlurm(tmp_path)

    seen = slurm(tmp_path).collect(T_S)

    about = next(span.about for span in seen.spans if span.name == "12")
    assert (about["user"], about["account"], about["array"]) == ("root", "vision", "6_0")


def test_the_cluster_has_every_node_with_its_gpus(tmp_path: Path) -> None:
    FakeSlurm(tmp_path)

    cluster = slurm(tmp_path, gpu_models={"a100": "NVIDIA A100"}).collect(T_S).cluster

    assert cluster is not None
    assert (cluster.id, len(cluster.nodes), len(cluster.gpus)) == ("bed", 4, 32)
    assert {gpu.model.name for gpu in cluster.gpus} == {"NVIDIA A100"}


def test_accounts_are_tenants_weighted_by_their_shares(tmp_path: Path) -> None:
    FakeSlurm(tmp_path)

    tenants = slurm(tmp_path).collect(T_S).tenants

    assert tenants is not None
    assert {tenant.id: tenant.weight for tenant in tenants} == {"bio": 30, "root": 1, "vision": 10}


def test_drained_and_lost_nodes_are_reported_with_their_reason_and_their_gpus_are_no_good(
    tmp_path: Path,
) -> None:
    FakeSlurm(tmp_path)

    seen = slurm(tmp_path).collect(T_S)

    assert {event.subject: (event.kind, event.text, event.t_s) for event in seen.events} == {
        "n3": ("node.down", "power lost", 1794751730.0),
        "n4": ("node.drained", "bad ECC on gpu3", 1794751585.0),
    }
    assert (seen.health["n3/gpu0"], seen.health["n4/gpu7"]) == (Health.BAD, Health.WORN)
    assert "n1/gpu0" not in seen.health


def test_a_node_that_comes_back_is_reported_and_unknown_until_it_is_received(
    tmp_path: Path,
) -> None:
    fake = FakeSlurm(tmp_path)
    watched = slurm(tmp_path)
    watched.collect(T_S)
    nodes = json.loads(fake.recorded("sinfo.json"))
    for node in nodes["nodes"]:
        node.update(state="idle", state_flags=[], reason="")
    fake.prints("sinfo", json.dumps(nodes).encode())

    seen = watched.collect(T_S + LOOK_S)

    assert kinds(seen) == [("node.resumed", "n3"), ("node.resumed", "n4")]
    assert seen.health["n3/gpu0"] is Health.UNKNOWN


def test_an_unchanged_job_is_not_reported_again(tmp_path: Path) -> None:
    FakeSlurm(tmp_path)
    watched = slurm(tmp_path)
    watched.collect(T_S)

    seen = watched.collect(T_S + LOOK_S)

    assert (seen.jobs, seen.spans, seen.events, seen.cluster, seen.tenants) == (
        (),
        (),
        (),
        None,
        None,
    )


def test_slurm_is_not_polled_before_it_is_due(tmp_path: Path) -> None:
    fake = FakeSlurm(tmp_path)
    watched = slurm(tmp_path, every_s=30.0)
    watched.collect(T_S)
    fake.command("squeue", "exit 1")

    assert watched.collect(T_S + 5.0).jobs == ()
    with pytest.raises(StewardError):
        watched.collect(T_S + LOOK_S)


def test_a_job_that_fails_is_reported_with_its_exit_code_and_keeps_its_places(
    tmp_path: Path,
) -> None:
    fake = FakeSlurm(tmp_path)
    watched = slurm(tmp_path)
    watched.collect(T_S)
    with_job(
        fake,
        1,
        job_state="FAILED",
        exit_code=137 << 8,
        end_time=1794751850,
        gres_detail=[],
        state_reason="NonZeroExitCode",
    )

    seen = watched.collect(T_S + LOOK_S)

    (failed,) = seen.jobs
    assert (failed.state, failed.end_s, failed.past.ran_s) == (
        JobState.FAILED,
        1794751850.0,
        269.0,
    )
    (event,) = seen.events
    assert (event.kind, event.subject, event.t_s) == ("job.failed", "job:1", 1794751850.0)
    assert "exit code 137" in event.text
    assert set(spans_of(seen, "1").values()) == {(1794751581.0, 1794751850.0)}
    assert "n1/gpu1" in spans_of(seen, "1")


def test_a_requeued_job_has_two_stretches_and_each_has_its_spans(tmp_path: Path) -> None:
    fake = FakeSlurm(tmp_path)
    watched = slurm(tmp_path)
    watched.collect(T_S)
    waiting = {"job_state": "PENDING", "restart_cnt": 1, "nodes": "", "gres_detail": []}
    with_job(fake, 9, **waiting, state_reason="BeginTime")
    back = watched.collect(T_S + LOOK_S)
    again_s = T_S + 100.0
    elsewhere = {"nodes": "n1", "gres_detail": ["gpu:a100:1(IDX:3)"], "start_time": again_s}
    with_job(fake, 9, **{**waiting, **elsewhere, "job_state": "RUNNING"})

    seen = watched.collect(T_S + 2 * LOOK_S)

    assert ("job.requeued", "job:9") in kinds(back)
    assert set(spans_of(back, "9").values()) == {(1794751581.0, T_S + LOOK_S)}
    (job,) = seen.jobs
    assert (job.past.stops, job.past.began_s) == (1, again_s)
    assert spans_of(seen, "9") == dict.fromkeys(["n1@9", "n1/gpu3"], (again_s, None))


def test_a_job_that_left_between_two_looks_ends_as_in_accounting(tmp_path: Path) -> None:
    fake = FakeSlurm(tmp_path)
    watched = slurm(tmp_path)
    watched.collect(T_S)
    with_job(fake, 13, job_id=None)
    line = next(each for each in fake.recorded("sacct.txt").split(b"\n") if b"6_1" in each)
    ended = line.replace(b"RUNNING", b"TIMEOUT").replace(b"Unknown", b"1794751830")
    fake.prints("sacct", ended.replace(b"0:0", b"0:15"))

    seen = watched.collect(T_S + LOOK_S)

    (job,) = seen.jobs
    assert (job.id, job.state, job.end_s) == ("13", JobState.FAILED, 1794751830.0)
    assert kinds(seen) == [("job.failed", "job:13")]
    assert spans_of(seen, "13")["n4/gpu2"] == (1794751581.0, 1794751830.0)


def test_without_accounting_such_a_job_is_lost_and_that_is_reported(tmp_path: Path) -> None:
    fake = FakeSlurm(tmp_path)
    fake.command("sacct", "exit 1")
    watched = slurm(tmp_path)
    watched.collect(T_S)
    with_job(fake, 13, job_id=None)

    at_once = watched.collect(T_S + LOOK_S)
    seen = watched.collect(T_S + 2 * LOOK_S)

    assert at_once.jobs == ()  # accounting may still have it
    (job,) = seen.jobs
    assert (job.end_s, job.history[-1].why) == (
        T_S + 2 * LOOK_S,
        "slurm no longer lists it: how it ended is unknown",
    )
    assert kinds(seen) == [("job.lost", "job:13")]


def test_jobs_that_ended_before_steward_came_are_no_news_but_label_old_samples(
    tmp_path: Path,
) -> None:
    fake = FakeSlurm(tmp_path)
    queue = queue_of(fake)
    queue["jobs"] = [job for job in queue["jobs"] if job["job_id"] != 2]
    fake.squeue_prints(json.dumps(queue).encode())

    seen = slurm(tmp_path).collect(T_S)

    assert next(job.state for job in seen.jobs if job.id == "2") is JobState.FAILED
    assert spans_of(seen, "2") == {"n1@2": (1794751581.0, 1794751581.0)}
    assert not any(kind == "job.failed" for kind, _ in kinds(seen))


def test_while_slurm_is_silent_jobs_stay_as_they_were_and_then_are_unknown(tmp_path: Path) -> None:
    fake = FakeSlurm(tmp_path)
    watched = slurm(tmp_path, stale_after_s=100.0)
    watched.collect(T_S)
    fake.squeue_prints(fake.recorded("controller-down.json"))

    with pytest.raises(StewardError, match="Failed while looking"):
        watched.collect(T_S + LOOK_S)
    stale = watched.collect(T_S + 2 * LOOK_S)
    with pytest.raises(StewardError):
        watched.collect(T_S + 3 * LOOK_S)
    fake.squeue_prints(fake.recorded("squeue.json"))
    back = watched.collect(T_S + 4 * LOOK_S)

    assert kinds(stale) == [("jobs.unknown", "slurm")]
    assert "8 jobs" in stale.events[0].text
    assert set(stale.health.values()) == {Health.UNKNOWN}
    assert kinds(back) == [("telemetry.gap", "slurm")]
    assert back.jobs == ()
    assert back.health["n3/gpu0"] is Health.BAD


def test_a_job_that_completes_still_holds_its_gpus(tmp_path: Path) -> None:
    FakeSlurm(tmp_path, version="23.11")

    seen = slurm(tmp_path).collect(T_S)

    job = next(job for job in seen.jobs if job.id == "817")
    assert (job.state, job.gpus) == (JobState.RUNNING, ("gpu01/gpu5",))


def test_the_moment_applies_slurms_observations(tmp_path: Path) -> None:
    FakeSlurm(tmp_path, version="23.11")
    moment = Moment()

    moment.fold(slurm(tmp_path).collect(T_S))

    view = moment.view(T_S)
    owners = [view.jobs.ids[owner] for owner in view.gpus.owner if owner >= 0]
    assert sorted(owners) == ["812"] * 4 + ["813"] * 16 + ["817"]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'Slurmctld(primary) at n0 is UP'", "slurm 22.05"),
        ("echo 'Slurmctld(primary) at n0 is DOWN'", "does not answer"),
    ],
)
def test_doctor_is_reported_whether_the_controller_answers(
    tmp_path: Path, script: str, reason: str
) -> None:
    FakeSlurm(tmp_path).command("scontrol", script)

    state = slurm(tmp_path).available()

    assert reason in state.reason
    assert (state.status == "ok") == ("UP" in script)


def test_a_slice_of_a_gpu_is_not_taken_for_the_gpu_of_that_number(tmp_path: Path) -> None:
    fake = FakeSlurm(tmp_path)
    with_job(fake, 1, gres_detail=["gpu:a100_1g.5gb:2(IDX:0-1)"])

    seen = slurm(tmp_path).collect(T_S)

    assert set(spans_of(seen, "1")) == {"n1@1"}
