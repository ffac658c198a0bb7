"""Cases open with a fault, weigh a node's history by exposure, and close when they are over."""

from __future__ import annotations

from collections.abc import Mapping

from steward.health.cases import DAY_S, CaseBook, NodeState
from steward.health.live_faults import Verdict
from steward.model.faults import Fault, FaultKind, Remedy

T_S = 1_700_000_000.0
NODES = tuple(f"n{row}" for row in range(20))
UP = NodeState()
DRAINED = NodeState(draining=True, by_steward=True, mended_s=T_S + 60.0)


def fault(code: int = 79, t_s: float = T_S, node: str = "n1", device: str = "0000:3b:00") -> Fault:
    return Fault(kind=FaultKind.XID, code=code, node=node, device=device, t_s=t_s)


def turn(
    book: CaseBook,
    *faults: Fault,
    t_s: float = T_S + 10.0,
    nodes: Mapping[str, NodeState] | None = None,
    verdicts: tuple[Verdict, ...] = (),
) -> None:
    states = dict.fromkeys(NODES, UP) | dict(nodes or {})
    book.turn(faults, states, verdicts, t_s, gpus={})


def aged(days: float = 100.0) -> CaseBook:
    """Return a book that has watched its nodes for so long."""
    book = CaseBook()
    turn(book, t_s=T_S - days * DAY_S)
    turn(book, t_s=T_S - 1.0)
    return book


def test_a_fault_waits_for_its_cause_before_it_is_a_case() -> None:
    book = aged()
    turn(book, fault(45), t_s=T_S + 1.0)
    assert (book.open, list(book.incidents)) == ({}, [])

    turn(book, fault(79, T_S + 0.5), t_s=T_S + 10.0)

    assert book.open["n1"].case.remedy is Remedy.REBOOT_NODE
    assert [(each.episode.code, each.primary) for each in book.incidents] == [
        (45, False),
        (79, True),
    ]


def test_a_storm_of_one_fault_is_one_case_and_counts_once() -> None:
    book = aged()
    for k in range(600):
        turn(book, fault(79, T_S + 4.0 * k), t_s=T_S + 4.0 * k + 1.0)

    case = book.open["n1"].case
    assert (case.faults, case.known_faults, len(book.incidents)) == (1, 1, 1)
    assert case.last_s > T_S + 2300.0


def test_several_codes_of_one_event_count_once_against_the_node() -> None:
    book = aged()
    turn(book, fault(48), fault(119, T_S + 30.0), fault(79, T_S + 60.0), t_s=T_S + 90.0)

    assert book.open["n1"].case.known_faults == 1
    assert book.open["n1"].case.remedy is Remedy.REBOOT_NODE


def test_faults_of_programs_are_no_case() -> None:
    book = aged()
    turn(book, fault(31), fault(13, T_S + 1.0), fault(43, T_S + 2.0))

    assert book.open == {}
    assert len(book.incidents) == 3


def test_a_rate_rests_on_time_in_service() -> None:
    book = aged(10.0)
    turn(book, t_s=T_S + 5 * DAY_S, nodes={"n2": NodeState(draining=True)})

    assert round(book.units["n1"].days) == 15
    assert round(book.units["n2"].days) == 10


def test_a_single_fault_of_a_node_known_for_long_is_no_lemon_and_a_fourth_is() -> None:
    book = aged(60.0)
    turn(book, fault())
    first = book.open["n1"].case.lemon_probability
    for day in (1, 2, 3):
        turn(book, fault(t_s=T_S + day * DAY_S), t_s=T_S + day * DAY_S + 10.0)

    assert first < 0.1
    assert book.open["n1"].case.lemon_probability > 0.5


def test_many_nodes_at_once_are_one_event_that_counts_against_none() -> None:
    book = aged()
    turn(book, fault(74, node="n1"), t_s=T_S + 10.0)  # the first, before the others are seen
    turn(book, *(fault(74, T_S + 20.0, f"n{row}") for row in range(2, 9)), t_s=T_S + 30.0)

    assert {each.case.together for each in book.open.values()} == {8}
    assert {each.case.known_faults for each in book.open.values()} == {0}


def test_two_nodes_at_once_are_a_coincidence_that_is_possible() -> None:
    book = aged()
    turn(book, fault(node="n1"), fault(node="n2"))

    assert {each.case.together for each in book.open.values()} == {1}


def test_a_drained_node_is_over_when_it_was_proven_well_after_it_was_mended() -> None:
    book = aged()
    turn(book, fault())

    def tested(t_s: float, *, well: bool = True) -> bool:
        verdict = Verdict(node="n1", well=well, t_s=t_s)
        turn(book, t_s=t_s + 1.0, nodes={"n1": DRAINED}, verdicts=(verdict,))
        return "n1" not in book.open

    assert not tested(T_S + 30.0)  # before its restart
    assert not tested(T_S + 100.0, well=False)
    assert not tested(T_S + 200.0)
    assert not tested(T_S + 300.0)
    assert tested(T_S + 400.0)  # three that pass for one that did not


def test_a_verdict_about_a_node_without_a_case_changes_nothing() -> None:
    book = aged()
    turn(book, verdicts=(Verdict(node="n1", well=True, t_s=T_S),))

    assert book.open == {}


def test_a_node_that_somebody_brings_back_is_theirs_to_judge() -> None:
    book = aged()
    turn(book, fault())
    turn(book, t_s=T_S + 20.0, nodes={"n1": DRAINED})

    turn(book, t_s=T_S + 30.0)

    assert book.open == {}


def test_a_case_in_service_is_over_after_a_quiet_day_and_a_mild_one_after_half_an_hour() -> None:
    book = aged()
    turn(book, fault(79), fault(94, node="n2"))

    turn(book, t_s=T_S + 2000.0)
    assert set(book.open) == {"n1"}
    turn(book, t_s=T_S + 2 * DAY_S)
    assert book.open == {}


def test_a_swapped_gpu_begins_anew() -> None:
    book = aged(30.0)
    for day in range(3):
        turn(book, fault(t_s=T_S + day * DAY_S), t_s=T_S + day * DAY_S + 10.0)
    before = book.open["n1"].case

    book.swapped("n1", T_S + 3 * DAY_S)
    book.swapped("n9", T_S)

    case = book.open["n1"].case
    assert before.lemon_probability > 0.5
    assert case.lemon_probability < 0.05
    assert (case.known_faults, case.swapped_s) == (0, T_S + 3 * DAY_S)


def test_a_case_of_an_earlier_run_goes_on_with_what_was_known() -> None:
    first = aged(50.0)
    turn(first, fault())
    book = CaseBook()
    book.restore(first.open["n1"].case, "n1: lost")

    turn(book, fault(t_s=T_S + 3600.0), t_s=T_S + 3610.0)

    case = book.open["n1"].case
    assert (case.faults, case.known_faults) == (2, 2)
    assert case.previous_s == T_S
    assert case.known_days > 40.0


def test_a_clock_that_stands_still_or_goes_back_adds_no_time() -> None:
    book = aged(10.0)
    days = book.units["n1"].days
    turn(book, t_s=T_S - 1.0)
    turn(book, t_s=T_S - 5000.0)

    assert book.units["n1"].days == days


def test_faults_of_a_node_that_is_not_in_the_cluster_are_still_a_case() -> None:
    book = aged()
    turn(book, fault(node="renamed"))

    assert book.open["renamed"].case.node == "renamed"
    assert book.open["renamed"].case.known_days == 0.0
