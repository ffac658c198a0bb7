"""Nodes that are reserved, or will be before a job could end there."""

from __future__ import annotations

import pytest

from steward.clients.slurm.jobs import SlurmJob, job_from_json
from steward.clients.slurm.reservations import SlurmReservation, reservation_from_line
from steward.observe.slurm_reservations import AHEAD_S, ReservedNodes, reserved_nodes

T_S = 1_794_995_200.0
HOUR_S = 3600.0
NODES = {"n1": 8, "n2": 8}
# As Slurm 22.05 prints it with SLURM_TIME_FORMAT=%s.
LINE = (
    "ReservationName=maint StartTime=1794998728 EndTime=1795005928 Duration=02:00:00 Nodes=n[1-2] "
    "NodeCnt=2 CoreCnt=32 Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES{cores} "
    "TRES=cpu=32 Users=root Groups=(null) Accounts=(null) State=INACTIVE MaxStartDelay=(null)"
)


def reserved(*nodes: str, in_s: float, lasts_s: float = HOUR_S) -> SlurmReservation:
    return SlurmReservation(
        name="maint",
        start_s=T_S + in_s,
        end_s=T_S + in_s + lasts_s,
        nodes=nodes,
        maintenance=True,
    )


def waiting(id_: int, minutes: int | None, **more: object) -> SlurmJob:
    limit = {"set": minutes is not None, "infinite": minutes is None, "number": minutes}
    made = job_from_json({"job_id": id_, "job_state": "PENDING", "time_limit": limit, **more})
    assert made is not None
    return made


def closed(found: ReservedNodes) -> tuple[set[str], set[str]]:
    return {*found.nodes}, {*found.jobs}


def test_a_line_of_slurms_is_a_reservation() -> None:
    found = reservation_from_line(LINE.format(cores=""))

    assert found is not None
    assert (found.name, found.nodes, found.maintenance) == ("maint", ("n1", "n2"), True)
    assert found.end_s - found.start_s == 2 * HOUR_S


@pytest.mark.parametrize(
    "line",
    [
        "No reservations in the system",
        LINE.format(cores="").replace("Nodes=n[1-2]", "Nodes=(null)"),  # of licenses
        LINE.format(cores="   NodeName=n1 CoreIDs=0-3"),  # others may use the rest
        LINE.format(cores="").replace("1794998728", "Unknown"),
    ],
)
def test_what_closes_no_node_is_left_out(line: str) -> None:
    assert reservation_from_line(line) is None


@pytest.mark.parametrize(
    ("in_s", "limits", "nodes", "jobs"),
    [
        (-60.0, [], {"n1"}, set()),  # reserved now
        (HOUR_S, [], set(), set()),  # nobody waits who could overlap
        (HOUR_S, [30], set(), set()),  # whoever waits ends before
        (HOUR_S, [30, 90], {"n1"}, set()),
        (HOUR_S, [None], {"n1"}, set()),  # no limit: it never ends
        (2 * AHEAD_S, [None], set(), set()),  # too far away to think of
        (-2 * HOUR_S, [None], set(), set()),  # over
    ],
)
def test_a_node_is_closed_once_a_job_that_waits_would_run_into_a_reservation(
    in_s: float, limits: list[int | None], nodes: set[str], jobs: set[str]
) -> None:
    queue = [waiting(number, limit) for number, limit in enumerate(limits, 1)]

    assert closed(reserved_nodes([reserved("n1", in_s=in_s)], NODES, queue, T_S)) == (nodes, jobs)


def test_before_a_maintenance_of_all_nodes_only_those_wait_who_would_run_into_it() -> None:
    plan = [reserved("n1", "n2", in_s=HOUR_S)]

    found = reserved_nodes(plan, NODES, [waiting(1, 30), waiting(2, 90)], T_S)

    assert closed(found) == (set(), {"2"})


@pytest.mark.parametrize(
    "reason",
    [
        "JobHeldUser",
        "JobHeldAdmin",
        "Dependency",
        "BeginTime",  # in a year
        "AssocGrpGRES",
        "QOSMaxJobsPerUserLimit",
        "PartitionDown",
    ],
)
def test_a_job_that_cannot_start_now_closes_no_node(reason: str) -> None:
    never = waiting(2, None, state_reason=reason)

    found = reserved_nodes([reserved("n1", in_s=HOUR_S)], NODES, [waiting(1, 30), never], T_S)

    assert closed(found) == (set(), set())


def test_a_job_that_waits_for_steward_alone_counts() -> None:
    ours = waiting(1, 90, state_reason="JobHeldUser", comment="steward:hold")

    found = reserved_nodes([reserved("n1", in_s=HOUR_S)], NODES, [ours], T_S)

    assert closed(found) == ({"n1"}, set())


def test_the_long_jobs_of_one_user_close_no_node_to_others() -> None:
    plan = [reserved("n1", in_s=HOUR_S)]
    long = [waiting(number, None, user_name="mallory") for number in range(1, 9)]
    short = [*long, waiting(9, 30, user_name="ada")]
    both = [*short, waiting(10, 90, user_name="ada")]

    assert closed(reserved_nodes(plan, NODES, long, T_S)) == ({"n1"}, set())
    assert closed(reserved_nodes(plan, NODES, short, T_S)) == (set(), set())
    assert closed(reserved_nodes(plan, NODES, both, T_S)) == ({"n1"}, set())


def test_about_a_job_with_too_few_gpus_left_before_a_reservation_nothing_is_decided() -> None:
    plan = [reserved("n1", in_s=HOUR_S)]
    wide = waiting(1, 90, user_name="ada", tres_req_str="cpu=1,gres/gpu=12")
    brief = waiting(2, 30, user_name="ada", tres_req_str="cpu=1,gres/gpu=12")

    found = reserved_nodes(plan, NODES, [wide, brief], T_S)

    assert closed(found) == (set(), {"1"})


def test_that_a_node_is_closed_or_open_again_is_reported_once() -> None:
    before, now = ReservedNodes(), reserved_nodes([reserved("n1", in_s=-60.0)], NODES, [], T_S)

    (event,) = now.news(before, T_S, source="slurm")
    (over,) = before.news(now, T_S, source="slurm")

    assert (event.kind, event.subject, over.kind) == ("node.reserved", "n1", "node.unreserved")
    assert "reserved for maintenance now (maint)" in event.text
    assert now.news(now, T_S, source="slurm") == []


def test_the_next_of_several_reservations_of_a_node_counts() -> None:
    plan = [reserved("n1", in_s=9 * HOUR_S), reserved("n1", in_s=HOUR_S)]

    found = reserved_nodes(plan, NODES, [waiting(1, 90)], T_S)

    assert found.nodes["n1"].start_s == T_S + HOUR_S
