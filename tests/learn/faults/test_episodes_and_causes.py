"""Faults that are one episode, and episodes that follow from others."""

from __future__ import annotations

from itertools import pairwise
from math import nan

from hypothesis import given
from hypothesis import strategies as st

from steward.learn.faults import GAPS_S, episodes, sensitivity, with_causes
from steward.model.faults import Episode, Fault, FaultKind, GpuSighting, inventory_of

GPU, OTHER = "0000:06:00", "0000:07:00"


def xid(code: int, t_s: float, *, device: str = GPU, node: str = "n1", **more: str) -> Fault:
    return Fault(kind=FaultKind.XID, device=device, code=code, t_s=t_s, node=node, detail=more)


def causes(*faults: Fault) -> dict[int | None, int | None]:
    """Return, by code, the code of what it follows from; None: primary."""
    found = with_causes(episodes(faults))
    codes = {each.id: each.code for each in found}
    return {each.code: codes.get(each.cause) for each in found}


def by_code(found: list[Episode]) -> dict[int | None, Episode]:
    return {each.code: each for each in found}


def test_faults_close_to_one_another_are_one_episode() -> None:
    faults = [
        xid(31, 0.0, pid="7"),
        xid(31, 4.0, pid="8"),
        xid(31, 20.0),
        xid(13, 1.0, gpc="1", tpc="2", sm="0"),
    ]

    found = episodes(faults)

    assert [(each.code, each.t_s, each.until_s, each.count) for each in found] == [
        (31, 0.0, 4.0, 2),
        (13, 1.0, 1.0, 1),
        (31, 20.0, 20.0, 1),
    ]
    assert found[0].processes == {"7", "8"}
    assert found[1].spots == {"gpc1/tpc2/sm0"}


def test_a_gpu_that_is_known_by_name_keeps_it_in_another_slot() -> None:
    moved = inventory_of(
        [
            GpuSighting(node="n1", slot=GPU, serial="serial-1", t_s=0.0),
            GpuSighting(node="n1", slot=OTHER, serial="serial-1", t_s=0.5),
        ]
    )

    found = episodes([xid(31, 0.0), xid(31, 1.0, device=OTHER)], inventory=moved)

    assert [(each.device, each.count) for each in found] == [("serial-1", 2)]


def test_faults_without_a_time_come_last_as_one_episode() -> None:
    found = episodes([xid(31, nan), xid(31, 5.0), xid(31, nan)])

    assert [each.count for each in found] == [1, 2]
    assert [each.is_timed for each in found] == [True, False]


def test_what_a_line_says_of_being_fatal_counts_for_the_episode() -> None:
    first = Fault(kind=FaultKind.XID, device=GPU, code=145, fatal=False, t_s=0.0)
    second = Fault(kind=FaultKind.XID, device=GPU, code=145, fatal=True, t_s=1.0)

    assert episodes([first, second])[0].fatal is True
    assert episodes([first])[0].fatal is False


@given(times=st.lists(st.floats(0, 2000), max_size=40))
def test_a_wider_gap_never_makes_more_episodes(times: list[float]) -> None:
    counts = sensitivity([xid(31, t_s) for t_s in times])

    assert list(counts) == list(GAPS_S)
    assert all(wider <= narrower for narrower, wider in pairwise(counts.values()))
    assert all(count <= len(times) for count in counts.values())


@given(
    faults=st.lists(
        st.tuples(
            st.sampled_from([13, 31, 43, 45, 48, 63, 64, 74, 79, 94, 95, 119, 154, 171]),
            st.floats(0, 100),
            st.sampled_from([GPU, OTHER]),
        ),
        max_size=25,
    )
)
def test_causes_are_primary_and_no_fault_is_lost(faults: list[tuple[int, float, str]]) -> None:
    given_faults = [xid(code, t_s, device=device) for code, t_s, device in faults]

    found = with_causes(episodes(given_faults))

    primary = {each.id for each in found if not each.cause}
    assert sum(each.count for each in found) == len(faults)
    assert all(each.cause in primary for each in found if each.cause)
    assert bool(primary) == bool(faults)


def test_a_teardown_follows_from_what_came_with_it_on_any_gpu_of_the_node() -> None:
    assert causes(xid(13, 10.0), xid(45, 10.5)) == {13: None, 45: 13}
    assert causes(xid(79, 10.0), xid(45, 12.0, device=OTHER)) == {79: None, 45: 79}
    assert causes(xid(79, 10.0, node="n2"), xid(45, 12.0)) == {79: None, 45: None}


def test_teardowns_never_cause_one_another() -> None:
    found = with_causes(episodes([xid(45, float(t), device=f"0000:{t:02x}:00") for t in range(20)]))

    assert all(not each.cause for each in found)


def test_all_that_a_lost_gpu_reports_follows_from_its_loss() -> None:
    lost = Fault(kind=FaultKind.LOST, device=GPU, t_s=100.0, node="n1")

    faults = [lost, xid(79, 100.0), xid(119, 160.0), xid(74, 101.0, device=OTHER)]

    found = by_code(with_causes(episodes(faults)))

    assert found[None].cause == ""
    assert {found[code].cause for code in (79, 119, 74)} == {found[None].id}


def test_details_and_remappings_follow_from_the_memory_error() -> None:
    found = causes(xid(48, 10.0), xid(171, 10.0), xid(63, 10.2), xid(94, 10.1))

    assert found == {48: None, 171: 48, 63: 48, 94: 48}


def test_a_page_fault_follows_from_the_controller_that_failed() -> None:
    assert causes(xid(122, 10.0), xid(31, 10.05)) == {122: None, 31: 122}


def test_both_ends_of_a_link_are_one_cause_and_a_switch_is_nearer() -> None:
    switch = Fault(
        kind=FaultKind.SXID, device="nvswitch0", code=20034, fatal=True, t_s=9.0, node="n1"
    )
    ends = [xid(74, 10.0), xid(74, 11.0, device=OTHER)]

    alone = with_causes(episodes(ends))
    behind = with_causes(episodes([switch, *ends]))

    assert [bool(each.cause) for each in alone] == [False, True]
    assert [bool(each.cause) for each in behind] == [False, True, True]


def test_chains_lead_to_their_root() -> None:
    found = by_code(with_causes(episodes([xid(122, 10.0), xid(31, 10.1), xid(43, 12.0)])))

    assert found[43].cause == found[31].cause == found[122].id
