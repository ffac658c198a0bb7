from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import (
    call_back,
    cluster,
    decision,
    gpu_row,
    host_row,
    job,
    loan,
    moment,
    node,
    receipt,
    samples,
    start,
    tenants,
)
from steward.model.actions import Drain, Reboot, Reset, Undrain
from steward.model.cluster import GIB, Cluster, Health, Link, LinkKind, Switch
from steward.model.event import Observation
from steward.model.frame import job_entity, share_entity
from steward.model.identity import DecisionId, GpuId, JobId, NodeId
from steward.model.job import JobShape, JobState
from steward.model.moment import Moment
from steward.model.view import HEALTH_CODES, QUEUED, RUNNING

GPU = "n1/gpu0"


def say(made: Moment, t_s: float, busy: float | None) -> None:
    made.fold(Observation(frame=samples(t_s, {GPU: gpu_row(busy)})))


def test_an_empty_moment_has_an_empty_view() -> None:
    seen = Moment().view(5.0)

    assert seen.t_s == 5.0
    assert len(seen.gpus) == len(seen.jobs) == len(seen.nodes) == len(seen.tenants) == 0


def test_columns_cannot_be_written_to() -> None:
    seen = moment(jobs=[job(on=[GPU])]).view(0.0)

    assert not seen.gpus.busy_share.flags.writeable
    assert not seen.jobs.submit_s.flags.writeable


def test_a_running_job_holds_its_gpus_until_it_ends() -> None:
    made = moment(jobs=[job(on=[GPU])])
    held = made.view(0.0)

    made.fold(Observation(jobs=(job(on=[GPU]).changed(1.0, JobState.COMPLETED, "done"),)))
    freed = made.view(1.0)

    assert held.gpus.owner.tolist() == [0, -1]
    assert held.tenants.held.tolist() == [1, 0]
    assert freed.gpus.owner.tolist() == [-1, -1]
    assert [each.id for each in freed.ended] == ["j1"]
    assert made.view(2.0).ended == ()


def test_the_second_job_on_a_gpu_is_its_borrower_by_a_loan_and_shares_it_without_one() -> None:
    shared = moment(jobs=[job("j1", on=[GPU]), job("j2", on=[GPU], tenant="b")])
    without = shared.view(0.0)
    shared.lend(loan())  # known only after the borrower was seen to run
    lent = shared.view(1.0)

    assert (without.gpus.users[0], without.gpus.borrower[0]) == (2, -1)
    assert (lent.job_id(lent.gpus.owner[0]), lent.job_id(lent.gpus.borrower[0])) == ("j1", "j2")
    assert lent.tenants.borrowed.tolist() == [0, 1]


def test_three_jobs_on_one_gpu_are_three_allocations_with_their_shares() -> None:
    jobs = [
        job(f"j{i}", on=[GPU], gpu_shares=(share,)) for i, share in enumerate((0.5, 0.25, 0.25))
    ]
    made = moment(jobs=jobs)
    say(made, 0.0, 0.9)
    rows = {f"{GPU}@j{i}": {"share.busy_share": 0.1 * i} for i in range(3)}
    made.fold(Observation(frame=samples(1.0, {GPU: gpu_row(0.9), **rows})))

    table = made.view(1.0).allocations

    assert len(table) == 3
    assert table.share.tolist() == [0.5, 0.25, 0.25]
    assert table.busy_share.tolist() == pytest.approx([0.0, 0.1, 0.2])
    assert set(table.role.tolist()) == {0}
    made.fold(Observation(jobs=(jobs[0].changed(2.0, JobState.COMPLETED, ""),)))
    assert made.view(2.0).gpus.users.tolist()[0] == 2


def test_a_job_that_has_a_gpu_alone_uses_as_much_as_the_gpu_is_busy() -> None:
    made = moment(jobs=[job(on=[GPU])])
    say(made, 0.0, 0.7)

    assert made.view(0.0).allocations.busy_share.tolist() == [0.7]


def test_a_gpu_that_falls_silent_is_not_healthy_any_more() -> None:
    made = moment()
    say(made, 0.0, 0.0)
    made.fold(Observation(health={GpuId("n1/gpu1"): Health.BAD}))

    fresh, silent = made.view(60.0), made.view(200.0)

    assert fresh.gpus.health.tolist() == [HEALTH_CODES[Health.GOOD], HEALTH_CODES[Health.BAD]]
    assert silent.gpus.health.tolist() == [HEALTH_CODES[Health.UNKNOWN], HEALTH_CODES[Health.BAD]]
    assert silent.nodes.free.tolist() == [0]
    say(made, 210.0, 0.0)
    assert made.view(210.0).gpus.health[0] == HEALTH_CODES[Health.GOOD]


def test_a_report_of_health_counts_as_a_sign_of_life() -> None:
    made = moment()
    made.fold(Observation(health={GpuId(GPU): Health.GOOD}))

    assert made.view(1000.0).gpus.health[0] == HEALTH_CODES[Health.GOOD]
    assert made.view(1100.0).gpus.health[0] == HEALTH_CODES[Health.GOOD]
    assert made.view(1200.0).gpus.health[0] == HEALTH_CODES[Health.UNKNOWN]


def test_nodes_say_what_is_allocated_and_that_they_drain() -> None:
    big = replace(node("n1", 2), cpus=64, memory_bytes=512 * GIB)
    shape = JobShape(gpus=2, cpus=16, memory_bytes=128 * GIB)
    made = moment(big, node("n2", 2), jobs=[job(on=[GPU, "n2/gpu0"], shape=shape)])
    rows = {gpu: gpu_row(0.0) for gpu in (GPU, "n1/gpu1", "n2/gpu0", "n2/gpu1")}
    made.fold(Observation(frame=samples(0.0, rows), draining={NodeId("n2"): True}))

    nodes = made.view(0.0).nodes

    assert (nodes.cpus.tolist(), nodes.cpus_allocated.tolist()) == ([64, 0], [8.0, 8.0])
    assert nodes.memory_allocated_bytes.tolist() == [64 * GIB, 64 * GIB]
    assert nodes.draining.tolist() == [False, True]
    assert nodes.free.tolist() == [1, 0]
    assert np.isnan(nodes.drained_since_s).all()  # somebody else's doing


def test_a_node_that_steward_drained_is_told_from_one_that_somebody_else_did() -> None:
    made = moment(node("n1"), node("n2"))
    drained = decision(action=Drain(node=NodeId("n1"), gpus=()))
    made.fold(Observation(draining={NodeId("n1"): True, NodeId("n2"): True}))

    made.apply(drained, receipt(drained, t_s=7.0))
    first = made.view(8.0).nodes.drained_since_s.tolist()
    made.fold(Observation(draining={NodeId("n1"): False}))
    made.fold(Observation(draining={NodeId("n1"): True}))  # this time not by us

    assert first[0] == 7.0
    assert np.isnan(first[1])
    assert np.isnan(made.view(9.0).nodes.drained_since_s).all()


def test_a_node_that_steward_brought_back_is_not_counted_as_drained_by_it_any_more() -> None:
    made = moment(node("n1"))
    drained = decision("d-1", action=Drain(node=NodeId("n1"), gpus=()))
    back = decision("d-2", action=Undrain(node=NodeId("n1"), gpus=()))
    made.fold(Observation(draining={NodeId("n1"): True}))

    made.apply(drained, receipt(drained, t_s=7.0))
    made.apply(back, receipt(back, t_s=8.0))

    assert np.isnan(made.view(9.0).nodes.drained_since_s).all()


def test_what_has_only_begun_has_no_effect_yet() -> None:
    made = moment(jobs=[job("j1", on=[GPU]), job("j2")])
    lent = decision()

    made.apply(lent, receipt(lent, result="begun"))
    begun = made.view(1000.0).loans
    made.apply(lent, receipt(lent))

    assert begun == ()
    assert [each.id for each in made.view(1000.0).loans] == [lent.id]


def test_a_start_counts_when_it_is_observed_and_not_when_it_is_done() -> None:
    made = moment(jobs=[job("j2")])
    started = start(job="j2", gpus=(GPU,))

    made.apply(started, receipt(started))
    done = made.view(1000.0)
    made.fold(Observation(jobs=(job("j2", on=[GPU]),)))

    assert (done.gpus.users.tolist(), done.jobs.state.tolist()) == ([0, 0], [QUEUED])
    assert made.view(1010.0).gpus.users.tolist() == [1, 0]


def test_links_and_switches_of_the_cluster_are_columns_of_the_view() -> None:
    link = Link(a="n1", b="leaf", kind=LinkKind.INFINIBAND, bytes_per_s=50e9)
    whole = Cluster(
        id="c",
        nodes=(replace(node("n1"), switch="leaf"),),
        links=(link,),
        switches=(Switch(id="leaf", parent="spine"), Switch(id="spine", tier=1)),
    )
    made = moment()
    made.fold(Observation(cluster=whole))

    seen = made.view(0.0)

    assert (len(seen.links), seen.links.kind.tolist()) == (1, ["infiniband"])
    assert (len(seen.switches), seen.switches.parent.tolist()) == (2, [1, -1])
    assert seen.nodes.switch.tolist() == [0]


def test_a_borrower_that_outstays_the_owner_holds_the_gpu() -> None:
    made = moment(jobs=[job("j1", on=[GPU]), job("j2", on=[GPU])])
    made.view(0.0)

    made.fold(Observation(jobs=(job("j1", on=[GPU]).changed(1.0, JobState.COMPLETED, "done"),)))
    seen = made.view(1.0)

    assert seen.job_id(seen.gpus.owner[0]) == "j2"
    assert seen.gpus.borrower[0] == -1


def test_a_requeued_job_lets_go_of_its_gpus_and_waits() -> None:
    made = moment(jobs=[job("j1", on=[GPU])])

    made.fold(Observation(jobs=(job("j1"),)))
    seen = made.view(1.0)

    assert seen.gpus.owner[0] == -1
    assert seen.jobs.state.tolist() == [QUEUED]
    assert seen.tenants.waiting.tolist() == [1, 0]


def test_quiet_begins_with_the_first_quiet_sample_and_ends_with_use() -> None:
    made = moment(jobs=[job(on=[GPU])])
    say(made, 10.0, 0.9)
    assert np.isnan(made.view(10.0).gpus.quiet_since_s[0])

    say(made, 20.0, 0.01)
    say(made, 30.0, 0.0)
    assert made.view(30.0).gpus.quiet_since_s[0] == 20.0

    say(made, 40.0, 0.5)
    assert np.isnan(made.view(40.0).gpus.quiet_since_s[0])


def test_a_gpu_that_nobody_holds_is_not_quiet() -> None:
    made = moment()

    say(made, 10.0, 0.0)

    assert np.isnan(made.view(10.0).gpus.quiet_since_s[0])


def test_several_samples_in_one_frame_are_folded_in_their_order() -> None:
    made = moment(jobs=[job(on=[GPU])])
    early, late = samples(10.0, {GPU: gpu_row(0.9)}), samples(20.0, {GPU: gpu_row(0.0)})

    made.fold(Observation(frame=late.vstack(early)))

    assert made.view(20.0).gpus.quiet_since_s[0] == 20.0


def test_power_while_quiet_is_averaged_from_the_start_of_the_spell() -> None:
    made = moment(jobs=[job(on=[GPU])])
    for t_s, busy, watts in ((0.0, 0.9, 600.0), (10.0, 0.0, 100.0), (20.0, 0.0, 120.0)):
        made.fold(Observation(frame=samples(t_s, {GPU: gpu_row(busy, watts=watts)})))

    assert made.view(20.0).gpus.quiet_watts[0] == 110.0


def test_a_silent_sensor_becomes_unknown_and_never_idle() -> None:
    made = moment(jobs=[job(on=[GPU])])
    say(made, 0.0, 0.0)

    seen = made.view(121.0)

    assert np.isnan(seen.gpus.busy_share[0])
    assert np.isnan(seen.gpus.quiet_since_s[0])


def test_a_gpu_is_of_unknown_health_until_it_speaks_and_bad_when_said_so() -> None:
    made = moment()
    before = made.view(0.0).gpus.health[0]
    say(made, 0.0, 0.0)
    spoken = made.view(0.0).gpus.health[0]

    made.fold(Observation(health={GpuId(GPU): Health.BAD, GpuId("n9/gpu9"): Health.BAD}))
    told = made.view(0.0).gpus.health[0]

    assert before == HEALTH_CODES[Health.UNKNOWN]
    assert spoken == HEALTH_CODES[Health.GOOD]
    assert told == HEALTH_CODES[Health.BAD]


def test_free_gpus_are_those_that_are_healthy_and_not_held() -> None:
    made = moment(node("n1", 3), jobs=[job(on=[GPU])])
    made.fold(Observation(frame=samples(0.0, {f"n1/gpu{i}": gpu_row(0.0) for i in range(2)})))

    assert made.view(0.0).nodes.free.tolist() == [1]  # gpu1; gpu2 has never spoken


def test_on_a_shared_gpu_each_job_has_a_busy_share_of_its_own() -> None:
    made = moment(jobs=[job("j1", on=[GPU]), job("j2", on=[GPU])])
    made.lend(loan())
    rows = {
        GPU: gpu_row(0.8),
        share_entity(GpuId(GPU), JobId("j1")): {"share.busy_share": 0.0},
        share_entity(GpuId(GPU), JobId("j2")): {"share.busy_share": 0.8},
        share_entity(GpuId("n9/gpu0"), JobId("j2")): {"share.busy_share": 0.5},
    }

    made.fold(Observation(frame=samples(10.0, rows)))
    seen = made.view(10.0)

    assert seen.gpus.owner_busy_share[0] == 0.0
    assert seen.gpus.borrower_busy_share[0] == 0.8
    assert seen.gpus.quiet_since_s[0] == 10.0


def test_what_a_job_is_said_to_use_of_a_gpu_that_it_does_not_hold_counts_for_nobody() -> None:
    other = job("j3", on=["n1/gpu1"])
    made = moment(jobs=[job("j1", on=[GPU]), job("j2", on=[GPU], tenant="b"), other])
    rows = {f"{GPU}@{name}": {"share.busy_share": 0.5} for name in ("j1", "j2", "j3")}

    made.fold(Observation(frame=samples(1.0, {GPU: gpu_row(0.9), **rows})))
    table = made.view(1.0).allocations

    assert table.gpu.tolist() == [0, 0, 1]
    assert table.busy_share[:2].tolist() == [0.5, 0.5]
    assert np.isnan(table.busy_share[2])


def test_a_waiting_job_that_names_gpus_takes_nothing_from_those_that_run_there() -> None:
    waits = job("j3", gpus=(GpuId(GPU),))
    made = moment(jobs=[job("j1", on=[GPU]), job("j2", on=[GPU], tenant="b"), waits])
    made.lend(loan())
    rows = {f"{GPU}@j1": {"share.busy_share": 0.0}, f"{GPU}@j2": {"share.busy_share": 0.8}}
    made.fold(Observation(frame=samples(1.0, {GPU: gpu_row(0.8), **rows})))

    made.fold(Observation(jobs=(job("j3"),)))
    seen = made.view(1.0)

    assert seen.gpus.users.tolist() == [2, 0]
    assert seen.gpus.borrower_busy_share[0] == 0.8


def test_a_job_that_is_first_heard_of_when_it_is_over_is_news_but_not_a_job() -> None:
    made = moment()

    made.fold(Observation(jobs=(job("j9").changed(1.0, JobState.FAILED, "out of memory"),)))
    seen = made.view(1.0)

    assert len(seen.jobs) == 0
    assert [each.id for each in seen.ended] == ["j9"]


def test_a_shared_gpu_without_rows_of_its_jobs_tells_nothing_about_its_owner() -> None:
    made = moment(jobs=[job("j1", on=[GPU]), job("j2", on=[GPU])])
    made.lend(loan())

    say(made, 10.0, 0.0)

    assert np.isnan(made.view(10.0).gpus.owner_busy_share[0])


def test_a_loan_is_over_when_either_side_lets_go() -> None:
    made = moment(jobs=[job("j1", on=[GPU]), job("j2", on=[GPU])])
    made.lend(loan())
    assert [each.id for each in made.view(0.0).loans] == ["d-1"]

    made.fold(Observation(jobs=(job("j2"),)))

    assert made.view(1.0).loans == ()


def test_a_loan_whose_borrower_has_not_started_yet_is_remembered_and_spoken_for() -> None:
    made = moment(jobs=[job("j1", on=[GPU]), job("j2")])
    made.lend(loan())
    seen = made.view(1000.0)

    made.give_back(DecisionId("d-1"))

    assert [each.id for each in seen.loans] == ["d-1"]
    assert seen.gpus.reserved.tolist() == [True, False]
    assert seen.jobs.reserved.tolist() == [False, True]
    assert made.view(1010.0).loans == ()


def test_calling_back_a_loan_that_never_ran_ends_it() -> None:
    made = moment(jobs=[job("j1", on=[GPU]), job("j2")])
    lent = decision()
    made.apply(lent, receipt(lent))
    back = call_back(lent)

    made.apply(back, receipt(back))

    assert made.view(1000.0).loans == ()


def test_a_loan_that_runs_ends_when_its_borrower_lets_go_not_when_it_is_called_back() -> None:
    made = moment(jobs=[job("j1", on=[GPU]), job("j2", on=[GPU])])
    made.lend(loan())
    made.view(0.0)

    made.give_back(DecisionId("d-1"))  # the borrower still saves

    assert len(made.view(10.0).loans) == 1


def test_loans_of_an_earlier_run_wait_for_the_first_news_of_their_jobs() -> None:
    made = moment()
    made.lend(loan())
    early = made.view(1000.0)
    made.fold(Observation(jobs=(job("j2", on=[GPU]), job("j1", on=[GPU]))))
    heard = made.view(1010.0)

    assert len(early.loans) == len(heard.loans) == 1
    assert heard.job_id(heard.gpus.owner[0]) == "j1"  # though the borrower was heard of first
    assert heard.job_id(heard.gpus.borrower[0]) == "j2"


def test_an_owner_that_ends_before_its_borrower_is_heard_of_leaves_it_the_gpu() -> None:
    made = moment(jobs=[job("j1", on=[GPU]), job("j2")])
    made.lend(loan())
    done = job("j1", on=[GPU]).changed(5.0, JobState.COMPLETED, "")

    made.fold(Observation(jobs=(done, job("j2", on=[GPU]))))
    seen = made.view(10.0)

    assert seen.job_id(seen.gpus.owner[0]) == "j2"
    assert seen.gpus.borrower[0] == -1
    assert seen.loans == ()


def test_loans_that_nobody_ever_hears_of_again_are_forgotten() -> None:
    made = moment()
    made.lend(loan())
    made.view(1000.0)

    assert made.view(1121.0).loans == ()


def test_roles_survive_a_change_of_the_cluster_and_of_an_owners_gpus() -> None:
    made = moment(jobs=[job("j2"), job("j1", on=[GPU])])
    say(made, 5.0, 0.0)
    made.lend(loan())
    made.fold(Observation(jobs=(job("j2", on=[GPU]),)))
    made.view(5.0)

    made.fold(Observation(cluster=cluster(node("n0"), node("n1"))))
    made.fold(Observation(jobs=(job("j1", on=["n1/gpu1", GPU]),)))
    seen = made.view(6.0)

    row = seen.gpu_row[GpuId(GPU)]
    assert seen.job_id(seen.gpus.owner[row]) == "j1"
    assert seen.job_id(seen.gpus.borrower[row]) == "j2"
    assert seen.gpus.quiet_since_s[row] == 5.0
    assert len(seen.loans) == 1


def test_samples_of_one_node_do_not_silence_the_loans_of_another() -> None:
    made = moment(node("n1", 1), node("n2", 1), jobs=[job("j1", on=[GPU]), job("j2", on=[GPU])])
    made.lend(loan())
    rows = {
        GPU: gpu_row(0.8),
        share_entity(GpuId(GPU), JobId("j1")): {"share.busy_share": 0.0},
        share_entity(GpuId(GPU), JobId("j2")): {"share.busy_share": 0.8},
    }
    made.fold(Observation(frame=samples(10.0, rows)))

    made.fold(Observation(frame=samples(10.4, {"n2/gpu0": gpu_row(0.1), GPU: gpu_row(None)})))
    seen = made.view(10.4)

    assert seen.gpus.owner_busy_share[0] == 0.0
    assert seen.gpus.borrower_busy_share[0] == 0.8


def test_a_loan_whose_borrower_ended_before_it_was_seen_to_run_is_over_at_once() -> None:
    made = moment(jobs=[job("j1", on=[GPU]), job("j2")])
    made.lend(loan())

    made.fold(Observation(jobs=(job("j2", on=[GPU]).changed(1.0, JobState.COMPLETED, ""),)))

    assert made.view(5.0).loans == ()


def test_open_decisions_mark_their_gpus_and_jobs() -> None:
    made = moment(jobs=[job("j1", on=[GPU]), job("j2")])

    made.reserve([f"gpu:{GPU}", "gpu:gone/gpu0", "job:j2", "node:n1"])
    seen = made.view(0.0)

    assert seen.gpus.reserved.tolist() == [True, False]
    assert seen.jobs.reserved.tolist() == [False, True]


def test_what_is_known_of_a_gpu_survives_a_change_of_the_cluster() -> None:
    made = moment(jobs=[job(on=[GPU])])
    say(made, 0.0, 0.4)

    made.fold(Observation(cluster=cluster(node("n0"), node("n1"))))
    seen = made.view(0.0)

    assert seen.gpu_id(2) == GPU
    assert seen.gpus.busy_share[2] == 0.4
    assert seen.job_id(seen.gpus.owner[2]) == "j1"


def test_a_job_lets_go_of_a_gpu_that_left_the_cluster() -> None:
    made = moment(node("n1"), node("n2"), jobs=[job(on=[GPU, "n2/gpu0"])])

    made.fold(Observation(cluster=cluster(node("n1"))))
    made.fold(Observation(jobs=(job(on=[GPU, "n2/gpu0"]).changed(1.0, JobState.FAILED, ""),)))

    assert made.view(1.0).gpus.owner.tolist() == [-1, -1]


def test_sensors_that_give_only_some_metrics_are_folded_too() -> None:
    made = moment(jobs=[job(on=[GPU])])

    made.fold(
        Observation(
            frame=samples(
                5.0,
                {
                    GPU: {"gpu.busy_share": 0.3},
                    job_entity(JobId("j1")): {"job.cpu.busy_cores": 1.0},
                },
            )
        )
    )
    seen = made.view(5.0)

    assert seen.gpus.busy_share[0] == 0.3
    assert np.isnan(seen.gpus.power_watts[0])
    assert seen.jobs.cpu_busy_cores[0] == 1.0
    assert np.isnan(seen.jobs.read_bytes_per_s[0])


def test_jobs_of_tenants_that_become_known_later_are_theirs() -> None:
    made = moment(jobs=[job(tenant="late")])
    assert made.view(0.0).jobs.tenant.tolist() == [-1]

    made.fold(Observation(tenants=tenants("early", "late")))

    assert made.view(0.0).jobs.tenant.tolist() == [1]


def test_the_host_side_of_a_job_is_in_its_row() -> None:
    made = moment(jobs=[job(on=[GPU])])

    made.fold(Observation(frame=samples(5.0, {job_entity(JobId("j1")): host_row(2.5, write=1e8)})))
    seen = made.view(5.0)

    assert seen.jobs.cpu_busy_cores[0] == 2.5
    assert seen.jobs.write_bytes_per_s[0] == 1e8
    assert seen.jobs.seen_s[0] == 5.0


def test_a_new_job_does_not_inherit_the_row_of_an_old_one() -> None:
    made = moment(jobs=[job("old", on=[GPU])])
    made.fold(Observation(frame=samples(5.0, {job_entity(JobId("old")): host_row(2.5)})))
    made.fold(Observation(jobs=(job("old", on=[GPU]).changed(6.0, JobState.FAILED, "x"),)))

    made.fold(Observation(jobs=(job("new"),)))

    assert np.isnan(made.view(7.0).jobs.cpu_busy_cores[0])


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from(["queue", "run", "end"]), st.integers(0, 3)),
        max_size=60,
    )
)
def test_jobs_are_conserved_and_no_gpu_has_two_owners(
    steps: list[tuple[int, str, int]],
) -> None:
    made = moment(node("n1", 4))
    running: dict[str, str] = {}
    waiting: set[str] = set()
    for number, what, gpu in steps:
        name, place = f"j{number}", f"n1/gpu{gpu}"
        if what == "run" and place not in running.values():
            made.fold(Observation(jobs=(job(name, on=[place]),)))
            running[name] = place
            waiting.discard(name)
        elif what == "queue":
            made.fold(Observation(jobs=(job(name),)))
            running.pop(name, None)
            waiting.add(name)
        elif what == "end" and name in {*running, *waiting}:
            before = job(name, on=[running[name]]) if name in running else job(name)
            made.fold(Observation(jobs=(before.changed(0.0, JobState.COMPLETED, ""),)))
            running.pop(name, None)
            waiting.discard(name)

    seen = made.view(0.0)

    states = dict(zip(seen.jobs.ids, seen.jobs.state, strict=True))
    assert states == {**dict.fromkeys(running, RUNNING), **dict.fromkeys(waiting, QUEUED)}
    owners = {
        seen.gpu_id(row): seen.job_id(owner)
        for row, owner in enumerate(seen.gpus.owner)
        if owner >= 0
    }
    assert owners == {place: name for name, place in running.items()}


def test_samples_that_come_late_do_not_take_a_gpu_back_in_time() -> None:
    made = moment()
    made.fold(Observation(frame=samples(100.0, {GPU: gpu_row(0.9)})))

    made.fold(Observation(frame=samples(50.0, {GPU: gpu_row(0.1)})))

    view = made.view(100.0)
    assert view.gpus.busy_share[view.gpu_row[GpuId(GPU)]] == 0.9


def test_ticks_of_nodes_with_clocks_of_their_own_are_folded_in_order() -> None:
    made = moment(node("n1"), node("n2"), jobs=[job(on=[GPU]), job("j2", on=["n2/gpu0"])])
    mine = [
        samples(t_s, {GPU: gpu_row(busy)}) for t_s, busy in ((1.0, 0.9), (2.0, 0.0), (3.0, 0.0))
    ]
    other = samples(2.5, {"n2/gpu0": gpu_row(0.0)})

    made.fold(Observation(frame=other, frames=(mine[2], mine[0], mine[1])))

    view = made.view(3.0)
    assert view.gpus.quiet_since_s[view.gpu_row[GpuId(GPU)]] == 2.0
    assert view.gpus.quiet_since_s[view.gpu_row[GpuId("n2/gpu0")]] == 2.5


def test_a_shared_gpu_is_judged_once_per_look_by_what_each_job_has_of_it() -> None:
    made = moment(jobs=[job("j1", on=[GPU]), job("j2", on=[GPU])])
    made.lend(loan())
    ticks = [samples(t_s, {GPU: gpu_row(0.5)}) for t_s in (1.0, 2.0)]
    shares = samples(2.5, {share_entity(GpuId(GPU), JobId("j1")): {"share.busy_share": 0.0}})

    made.fold(Observation(frame=shares, frames=tuple(ticks)))
    made.fold(
        Observation(
            frame=samples(4.5, {share_entity(GpuId(GPU), JobId("j1")): {"share.busy_share": 0.0}}),
            frames=(samples(3.0, {GPU: gpu_row(0.5)}), samples(4.0, {GPU: gpu_row(0.5)})),
        )
    )

    view = made.view(5.0)
    assert view.gpus.quiet_since_s[view.gpu_row[GpuId(GPU)]] == 2.0


def test_samples_that_come_late_do_not_take_a_job_back_in_time() -> None:
    made = moment(jobs=[job(on=[GPU])])
    made.fold(Observation(frame=samples(100.0, {job_entity(JobId("j1")): host_row(2.5)})))

    made.fold(Observation(frame=samples(50.0, {job_entity(JobId("j1")): host_row(0.1)})))

    jobs = made.view(100.0).jobs
    assert (jobs.cpu_busy_cores[0], jobs.seen_s[0]) == (2.5, 100.0)


def test_a_sensor_without_a_busy_share_does_not_hide_that_of_a_shared_gpu() -> None:
    made = moment(jobs=[job("j1", on=[GPU]), job("j2", on=[GPU])])
    made.lend(loan())
    share = {share_entity(GpuId(GPU), JobId("j1")): {"share.busy_share": 0.3}}
    other = samples(2.5, {GPU: {"gpu.power_watts": 300.0}})

    made.fold(
        Observation(frame=samples(2.0, share), frames=(samples(2.0, {GPU: gpu_row(0.5)}), other))
    )

    gpus = made.view(3.0).gpus
    assert (gpus.seen_s[0], gpus.busy_share[0], gpus.owner_busy_share[0]) == (2.0, 0.5, 0.3)


def test_energy_is_added_up_while_power_is_known_and_a_gap_counts_as_no_time() -> None:
    made = moment(jobs=[job(on=[GPU])])
    for t_s, watts, mean in ((0.0, 100.0, None), (10.0, 300.0, None), (20.0, 300.0, 250.0)):
        row = {**gpu_row(0.9, watts=watts), "gpu.energy.mean_watts": mean}
        made.fold(Observation(frame=samples(t_s, {GPU: row})))
    for t_s, watts in ((30.0, float("nan")), (900.0, 300.0)):
        made.fold(Observation(frame=samples(t_s, {GPU: gpu_row(0.9, watts=watts)})))

    gpus = made.view(900.0).gpus

    assert (gpus.drawn_joules[0], gpus.drawn_s[0]) == (3000.0 + 2500.0, 20.0)


def test_a_power_limit_is_in_the_view_and_outlives_a_change_of_the_cluster() -> None:
    made = moment(node("n1", 2))
    for t_s in (0.0, 10.0):
        row = {**gpu_row(0.9, watts=100.0), "gpu.power.limit_watts": 650.0}
        made.fold(Observation(frame=samples(t_s, {GPU: row})))

    made.fold(Observation(cluster=cluster(node("n0", 1), node("n1", 2))))
    gpus = made.view(10.0).gpus

    assert gpus.power_limit_watts.tolist()[1] == 650.0
    assert gpus.drawn_joules.tolist() == [0.0, 1000.0, 0.0]


def test_steps_of_a_training_and_its_host_side_leave_each_other_alone() -> None:
    made, entity = moment(jobs=[job(on=[GPU])]), job_entity(JobId("j1"))
    both = (
        samples(5.0, {entity: host_row(1.5)}),
        samples(4.5, {entity: {"job.progress.step_count": 12.0}}),
    )
    made.fold(Observation(frames=both))

    jobs = made.view(5.0).jobs
    assert (jobs.cpu_busy_cores[0], jobs.seen_s[0]) == (1.5, 5.0)
    assert (jobs.step_count[0], jobs.step_s[0]) == (12.0, 4.5)

    late = samples(4.0, {entity: {"job.progress.step_count": 11.0}})
    made.fold(Observation(frame=late))
    assert made.view(5.0).jobs.step_count[0] == 12.0


def test_a_host_sensor_that_fails_is_unknown() -> None:
    made, entity = moment(jobs=[job(on=[GPU])]), job_entity(JobId("j1"))
    made.fold(Observation(frame=samples(5.0, {entity: host_row(1.5)})))

    silent = dict.fromkeys(host_row(), None)
    made.fold(Observation(frame=samples(6.0, {entity: silent})))

    assert np.isnan(made.view(6.0).jobs.cpu_busy_cores[0])


def test_what_steward_did_to_a_drained_node_is_known_until_it_is_back() -> None:
    made = moment()
    did = (
        Drain(node=NodeId("n1"), gpus=()),
        Reset(gpus=(GpuId(GPU), GpuId("gone/gpu0"))),
        Reboot(node=NodeId("n1"), gpus=()),
    )
    for place, action in enumerate(did):
        what = decision(f"d-{place}", action=action)
        made.apply(what, receipt(what, t_s=float(place)))
    nodes = made.view(9.0).nodes

    back = decision("d-9", action=Undrain(node=NodeId("n1"), gpus=()))
    made.apply(back, receipt(back, t_s=9.0))

    assert (nodes.reset_s.tolist(), nodes.rebooted_s.tolist()) == ([1.0], [2.0])
    assert np.isnan(made.view(10.0).nodes.rebooted_s).all()
