"""Recorded Slurm output becomes jobs, a cluster, tenants, events and spans."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fake_slurm import FakeSlurm
from steward.clients.slurm import own_account
from steward.errors import StewardError
from steward.learn.estimators.similar_jobs import SimilarJobs
from steward.model.cluster import Health
from steward.model.event import Observation
from steward.model.frame import Frame
from steward.model.identity import GpuId, NodeId, TenantId
from steward.model.job import JobRequest, JobShape, JobState
from steward.model.moment import Moment
from steward.model.view import HEALTH_CODES
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


@pytest.mark.parametrize(
    ("reason", "comment", "held"),
    [
        ("Resources", "", False),
        ("JobHeldUser", "night", True),
        ("JobHeldUser", "night steward:hold", False),
        ("JobHeldUser", "steward:did=d-1@1~2+held", False),
        ("JobHeldAdmin", "steward:hold", True),
        ("Dependency", "steward:hold", True),
        ("JobArrayTaskLimit", "", True),
        ("ReqNodeNotAvail", "", True),
    ],
)
def test_what_a_person_or_a_job_keeps_waiting_is_held(
    tmp_path: Path, *, reason: str, comment: str, held: bool
) -> None:
    fake = FakeSlurm(tmp_path)
    with_job(fake, 10, state_reason=reason, comment=comment)

    seen = slurm(tmp_path).collect(T_S)

    assert next(job for job in seen.jobs if job.id == "10").held is held


LENT = "steward:inside=8G steward:lent=d-1@9~1794751700+n1/0"


def steps_are(fake: FakeSlurm, *pairs: tuple[str, str]) -> None:
    """Let squeue list steps of loans: borrower and owner, and one of somebody's own."""
    lines = "".join(
        f'printf \'%s%ssteward-lent-%s%s\\n\' {owner}.0 "$s" {to} "$s";' for to, owner in pairs
    )
    here = f"cat {fake.folder}/squeue.txt"
    form = "s=${4#--format=%i}; s=${s%%%j*}"
    fake.command(
        "squeue", f'case "$*" in *--steps*) set -- x "$@"; {form}; {lines} ;; *) {here};; esac'
    )


@pytest.mark.parametrize(
    ("changes", "steps", "seen"),
    [
        ({}, [("10", "9")], (JobState.RUNNING, "")),
        ({}, [], (JobState.RUNNING, "the step of job 10 is over")),
        ({}, [("10", "8"), ("11", "9")], (JobState.RUNNING, "the step of job 10 is over")),
        ({"job_state": "CANCELLED"}, [("10", "9")], (JobState.RUNNING, "job 10 was cancelled")),
        ({"job_state": "CANCELLED"}, [], (JobState.CANCELLED, None)),
        ({"state_reason": "Priority"}, [], (JobState.QUEUED, None)),
        ({"comment": LENT.replace("@9", "@99")}, [("10", "99")], (JobState.QUEUED, None)),
        ({"comment": LENT.replace("1794751700", "1794751790")}, [], (JobState.QUEUED, None)),
        ({"user_name": "eve"}, [("10", "9")], (JobState.QUEUED, None)),
    ],
    ids=["runs", "over", "of others", "cancelled", "gone", "released", "no owner", "begins", "eve"],
)
def test_a_job_that_slurm_holds_runs_where_it_was_lent_gpus(
    tmp_path: Path,
    changes: dict[str, Any],
    steps: list[tuple[str, str]],
    seen: tuple[JobState, str | None],
) -> None:
    fake = FakeSlurm(tmp_path)
    lent = {"job_state": "PENDING", "state_reason": "JobHeldUser", "comment": LENT}
    with_job(fake, 10, **{**lent, **changes})
    steps_are(fake, *steps)

    found = slurm(tmp_path).collect(T_S)

    job = next(job for job in found.jobs if job.id == "10")
    wanted = [loan.wanted for loan in found.loans]
    assert job.state is seen[0]
    assert wanted == ([] if seen[1] is None else [seen[1]])
    assert job.gpus == (("n1/gpu0",) if wanted else ())


def test_a_job_may_borrow_from_its_own_user_alone_if_steward_runs_as_that(tmp_path: Path) -> None:
    fake = FakeSlurm(tmp_path)
    with_job(fake, 10, comment="steward:inside=8G steward:saves=20", user_name=own_account())
    mine = next(job for job in slurm(tmp_path).collect(T_S).jobs if job.id == "10")
    with_job(fake, 10, comment="steward:inside=8G steward:saves=20", user_name="eve")
    theirs = next(job for job in slurm(tmp_path).collect(T_S).jobs if job.id == "10")

    assert (mine.borrows, mine.yielding.endable, mine.yielding.promised_s) == ("own", True, 25.0)
    assert mine.shape.gpu_memory_bytes == 8 * 2**30
    assert (theirs.borrows, theirs.yielding.endable) == ("no", False)


def test_steps_of_own_trainings_are_read_from_their_folders_once_each(tmp_path: Path) -> None:
    fake, collector = FakeSlurm(tmp_path), slurm(tmp_path)
    user = own_account()
    ours = tmp_path / f".steward-{user}" / "t-1"
    ours.mkdir(parents=True)
    runs = {"job_state": "RUNNING", "current_working_directory": str(tmp_path)}
    with_job(fake, 10, comment="steward:job=t-1", user_name=user, **runs)
    seen = []
    for step in (5, 5, 7):
        written = {"step": step, "written_s": T_S + step}
        (ours / "progress.json").write_text(json.dumps(written))
        seen.append(collector.collect(T_S + 100.0 * (len(seen) + 1)).frame)
    with_job(fake, 10, comment="steward:job=t-1", user_name="eve", **runs)
    theirs = collector.collect(T_S + 900.0).frame

    found = [[] if each.is_empty() else each.rows() for each in seen]
    assert found == [[(T_S + 5, "job:10", 5.0)], [], [(T_S + 7, "job:10", 7.0)]]
    assert theirs.is_empty()


def test_a_job_may_be_suspended_for_jobs_of_its_user_if_it_says_so(tmp_path: Path) -> None:
    fake, found = FakeSlurm(tmp_path), []
    for user in (own_account(), "eve"):
        with_job(fake, 10, comment="steward:suspend", user_name=user)
        job = next(job for job in slurm(tmp_path).collect(T_S).jobs if job.id == "10")
        found.append((job.yielding.suspendable, job.yielding.suspend_s > 60.0, job.borrows))

    assert found == [(True, True, "no"), (False, False, "no")]


@pytest.mark.parametrize(("word", "range_"), [("1-4", (1, 4)), ("2-4", (1, 1)), ("4-1", (1, 1))])
def test_a_job_says_with_how_many_gpus_it_goes_on(
    tmp_path: Path, word: str, range_: tuple[int, int]
) -> None:
    with_job(FakeSlurm(tmp_path), 10, comment=f"steward:gpus={word}")

    job = next(job for job in slurm(tmp_path).collect(T_S).jobs if job.id == "10")

    assert job.shape.gpu_range == range_


def test_nothing_is_decided_about_a_job_that_was_submitted_for_a_reservation(
    tmp_path: Path,
) -> None:
    fake = FakeSlurm(tmp_path)
    with_job(fake, 10, resv_name="course", comment="steward:hold")

    seen = slurm(tmp_path).collect(T_S)

    assert next(job for job in seen.jobs if job.id == "10").held


def test_nothing_is_started_on_nodes_that_are_reserved(tmp_path: Path) -> None:
    fake = FakeSlurm(tmp_path)
    text = f"ReservationName=course StartTime={T_S - 60:.0f} EndTime={T_S + 60:.0f} Nodes=n1 X=y"
    json_refused = "echo \"scontrol: unrecognized option '--json'\" >&2; exit 1"
    fake.command("scontrol", f"[ $3 = reservation ] && echo '{text}' && exit; {json_refused}")
    looker = slurm(tmp_path)

    during, after = looker.collect(T_S), looker.collect(T_S + 61)

    assert ("node.reserved", "n1") in kinds(during)
    assert ("node.unreserved", "n1") in kinds(after)
    assert (during.draining[NodeId("n1")], after.draining[NodeId("n1")]) == (True, False)


def test_a_job_that_says_so_can_save(tmp_path: Path) -> None:
    fake = FakeSlurm(tmp_path)
    with_job(fake, 1, comment="night steward:saves=90")

    saving = {job.id: job.checkpointing for job in slurm(tmp_path).collect(T_S).jobs}

    assert (saving["1"].able, saving["1"].save_s) == (True, 90.0)
    assert not saving["10"].able


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


def test_limits_of_accounts_are_guarantees_where_the_site_says_so(tmp_path: Path) -> None:
    fake = FakeSlurm(tmp_path)
    limited = ("bed|root||||1|||normal", "bed|bio|||root|1|gres/gpu=16||normal")
    fake.accounting(*limited)
    watched = slurm(tmp_path, guarantees_from_limits=True)
    first = watched.collect(T_S)
    fake.accounting(*limited, "bed|nlp|||root|1|gres/gpu=32||normal")

    cached, later = (watched.collect(T_S + after_s) for after_s in (LOOK_S, 601.0))

    assert first.tenants is not None
    assert {each.id: each.guaranteed_gpus for each in first.tenants if each.guaranteed_gpus} == {
        "bio": 16
    }
    assert cached.tenants is None
    assert later.tenants is not None
    assert not any(each.guaranteed_gpus for each in later.tenants)
    assert [each.kind for each in later.events] == ["tenants.overpromised"]


def test_accounts_stay_as_they_were_while_accounting_is_silent(tmp_path: Path) -> None:
    fake = FakeSlurm(tmp_path)
    watched = slurm(tmp_path)
    watched.collect(T_S)
    fake.command("sacctmgr", "exit 1")

    assert watched.collect(T_S + 601.0).tenants is None


def test_gpus_of_nodes_that_are_up_are_good_where_slurms_word_is_all_there_is(
    tmp_path: Path,
) -> None:
    FakeSlurm(tmp_path)
    watched = slurm(tmp_path, up_is_healthy=True)

    looks = [watched.collect(T_S + after_s) for after_s in (0.0, LOOK_S)]

    for seen in looks:  # each time, or it would become stale
        assert (seen.health["n1/gpu0"], seen.health["n3/gpu0"]) == (Health.GOOD, Health.BAD)


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


def nodes_are(fake: FakeSlurm, **state: object) -> None:
    """Let all nodes have one state."""
    nodes = json.loads(fake.recorded("sinfo.json"))
    for node in nodes["nodes"]:
        node.update({"state_flags": [], "reason": "", **state})
    fake.prints("sinfo", json.dumps(nodes).encode())


def test_gpus_of_nodes_that_are_up_are_healthy_at_each_look_where_the_site_says_so(
    tmp_path: Path,
) -> None:
    FakeSlurm(tmp_path)
    watched = slurm(tmp_path, up_is_healthy=True)

    looks = [watched.collect(T_S), watched.collect(T_S + LOOK_S)]

    for seen in looks:  # n3 is down, n4 is drained
        health = [seen.health[GpuId(f"n{number}/gpu0")] for number in (1, 3, 4)]
        assert health == [Health.GOOD, Health.BAD, Health.WORN]


def test_gpus_that_only_slurm_knows_are_unknown_when_it_is_silent(tmp_path: Path) -> None:
    fake = FakeSlurm(tmp_path)
    watched = slurm(tmp_path, up_is_healthy=True, stale_after_s=30.0)
    watched.collect(T_S)
    fake.command("squeue", "exit 1")

    seen = watched.collect(T_S + LOOK_S)

    assert {*seen.health.values()} == {Health.UNKNOWN}


@pytest.mark.parametrize(
    ("reason", "health"), [("steward d-1: Xid 79", Health.GOOD), ("bad ECC", Health.WORN)]
)
def test_a_drain_by_steward_says_nothing_about_the_gpus(
    tmp_path: Path, reason: str, health: Health
) -> None:
    fake = FakeSlurm(tmp_path)
    nodes_are(fake, state="idle")
    watched = slurm(tmp_path)
    moment = Moment()
    moment.fold(watched.collect(T_S))
    sampled = Frame({"t_s": [T_S], "entity": ["n1/gpu0"], "gpu.busy_share": [0.5]})
    moment.fold(Observation(frame=sampled))

    nodes_are(fake, state="idle", state_flags=["DRAIN"], reason=reason)
    moment.fold(watched.collect(T_S + LOOK_S))

    view = moment.view(T_S + LOOK_S)
    assert view.gpus.health[view.gpu_row[GpuId("n1/gpu0")]] == HEALTH_CODES[health]
    assert view.nodes.draining.all()


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


def test_estimators_learn_once_from_jobs_that_ended_before_steward_came(tmp_path: Path) -> None:
    fake = FakeSlurm(tmp_path)
    fake.squeue_prints(b'{"jobs": []}')
    fake.prints("sacct", fake.recorded("sacct-every-run.txt"))
    now_s = 1794980500.0  # after the last line that was recorded
    first, again = slurm(tmp_path), slurm(tmp_path)
    estimator, at = SimilarJobs(), Moment()

    for watched, t_s in ((first, now_s), (first, now_s + LOOK_S), (again, now_s + 2 * LOOK_S)):
        if watched is again:  # after a restart
            again.resume(first.positions())
        at.fold(watched.collect(t_s))
        estimator.learn(at.view(t_s), outcomes=())

    request = JobRequest(shape=JobShape(gpus=8), tenant=TenantId("vision"), name="borrow.sh")
    (forecast,) = estimator.estimate(replace(request, user="root"))
    assert forecast.basis.startswith("similar-jobs, 4 jobs of the same size, tenant, user and name")
    assert 400 < forecast.mid < 700  # 594, 583, 572 and 532 s of all their runs


def test_jobs_that_the_queue_still_lists_are_not_learned_from_again(tmp_path: Path) -> None:
    fake = FakeSlurm(tmp_path)
    with_job(fake, 2, end_time=int(T_S) - 100)
    first, again = slurm(tmp_path), slurm(tmp_path)
    learned = [job.id for job in first.collect(T_S).jobs if job.state.ended]
    again.resume(first.positions())

    later = [job.id for job in again.collect(T_S + LOOK_S).jobs if job.state.ended]

    assert "2" in learned
    assert later == []


def test_what_people_do_after_a_decision_is_reported_once(tmp_path: Path) -> None:
    fake = FakeSlurm(tmp_path)
    mark = "steward:did=d-1@1794751580~1794751600"
    with_job(fake, 10, comment=mark, state_reason="Resources")
    watched = slurm(tmp_path)
    watched.collect(T_S)

    with_job(fake, 10, comment=mark, state_reason="JobHeldUser")
    held, again = (watched.collect(T_S + LOOK_S * n) for n in (1, 2))
    with_job(fake, 10, comment=mark, job_state="CANCELLED", end_time=int(T_S) + 150)
    cancelled = watched.collect(T_S + LOOK_S * 3)

    assert [(each.kind, each.subject, each.text) for each in held.events] == [
        ("job.held", "job:10", "held by a person (JobHeldUser) after d-1: steward leaves it")
    ]
    assert again.events == ()
    assert kinds(cancelled) == [("job.cancelled", "job:10")]


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
