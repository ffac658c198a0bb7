from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from factories import H200, cluster, node
from steward.model.cluster import LinkKind
from steward.sim.cluster import BORROWER, NOBODY, OWNER, ClusterState, WaitingLine, build_cluster
from steward.sim.scenario import demo

ANY = 1


def state(*sizes: int) -> ClusterState:
    return ClusterState(cluster(*(node(f"n{i}", size) for i, size in enumerate(sizes))))


# -- hardware ------------------------------------------------------------------------------------


def test_the_site_has_nvlink_inside_nodes_and_switches_between_them() -> None:
    site = build_cluster(demo())

    kinds = [link.kind for link in site.links]
    assert len(site.nodes) == 8
    assert len(site.gpus) == 64
    assert {gpu.nvlink_domain for gpu in site.nodes[0].gpus} == {"n01/nvlink"}
    assert kinds.count(LinkKind.NVLINK) == 8 * 28
    assert {switch.id: switch.parent for switch in site.switches} == {
        "leaf1": "spine1",
        "leaf2": "spine1",
        "spine1": "",
    }
    assert [each.switch for each in site.nodes] == ["leaf1"] * 4 + ["leaf2"] * 4


# -- placement -----------------------------------------------------------------------------------


def test_a_gang_goes_to_the_node_that_it_fills_best() -> None:
    site = state(8, 4, 6)

    assert site.place(4, ANY).tolist() == [8, 9, 10, 11]
    assert site.place(5, ANY).tolist() == [12, 13, 14, 15, 16]
    assert site.place(8, ANY).tolist() == list(range(8))


def test_a_gang_that_fits_on_no_single_node_gets_nothing() -> None:
    site = state(4, 4)

    assert not site.fits(5, ANY)
    assert site.place(5, ANY).tolist() == []


def test_a_job_gets_gpus_of_the_models_it_may_use() -> None:
    other = replace(H200, name="a100")
    site = ClusterState(cluster(node("n1", 2), node("n2", 4, model=other)))

    only = site.mask(["h200"])

    assert site.models == ("a100", "h200")
    assert site.place(2, only).tolist() == [0, 1]
    assert not site.fits(3, only)
    assert site.fits(3, site.mask([]))


def test_a_broken_gpu_is_not_free_and_a_mended_one_is() -> None:
    site = state(2)

    site.set_health(0, healthy=False)
    broken = (site.fits(2, ANY), site.place(1, ANY).tolist())
    site.set_health(0, healthy=True)

    assert broken == (False, [1])
    assert site.fits(2, ANY)


# -- the line ------------------------------------------------------------------------------------


def fitting(most: int):  # noqa: ANN201 - a predicate
    return lambda gpus, _: gpus <= most


def test_the_line_goes_by_priority_then_by_number_and_lets_pass_who_fits() -> None:
    line = WaitingLine()
    line.join(3, gpus=1, mask=ANY, priority=0)
    line.join(1, gpus=8, mask=ANY, priority=0)
    line.join(2, gpus=1, mask=ANY, priority=0)
    line.join(4, gpus=2, mask=ANY, priority=5)

    order = []
    for most in (8, 1, 8, 8):
        number = line.first(fitting(most))
        assert number is not None
        line.leave(number)
        order.append(number)

    assert order == [4, 2, 1, 3]
    assert line.first(fitting(8)) is None
    assert len(line) == 0


@given(
    jobs=st.lists(st.tuples(st.sampled_from([1, 2, 4, 8]), st.integers(0, 2)), max_size=30),
    moves=st.lists(st.integers(0, 29), max_size=200),
    most=st.integers(0, 8),
)
def test_the_first_in_line_is_the_one_that_a_plain_scan_finds(
    jobs: list[tuple[int, int]], moves: list[int], most: int
) -> None:
    line, here = WaitingLine(), set()
    for number in moves:  # join, leave, join again ...
        if number >= len(jobs):
            continue
        if number in here:
            line.leave(number)
        else:
            line.join(number, gpus=jobs[number][0], mask=ANY, priority=jobs[number][1])
        here ^= {number}

    scan = sorted((-jobs[n][1], n) for n in here if jobs[n][0] <= most)

    assert line.first(fitting(most)) == (scan[0][1] if scan else None)
    assert len(line) == len(here)
    assert sum(line.count(size) for size in (1, 2, 4, 8)) == len(here)


class Seats(RuleBasedStateMachine):
    """Whatever is taken, lent, handed over, released, broken and mended, the books are right."""

    def __init__(self) -> None:
        super().__init__()
        self.site = state(4, 2, 8)
        self.held: dict[int, list[int]] = {}
        self.lent: dict[int, list[int]] = {}
        self.slots = 0

    @rule(gpus=st.integers(1, 8))
    def take(self, gpus: int) -> None:
        rows = self.site.place(gpus, ANY)
        assert (len(rows) == gpus) == self.site.fits(gpus, ANY)
        if len(rows):
            self.slots += 1
            self.site.take(rows, self.slots, OWNER)
            self.held[self.slots] = rows.tolist()

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def lend(self, data: st.DataObject) -> None:
        owner = data.draw(st.sampled_from(sorted(self.held)))
        row = self.held[owner][0]
        if self.site.seats[BORROWER, row] == NOBODY:
            self.slots += 1
            self.site.take(np.array([row]), self.slots, BORROWER)
            self.lent[self.slots] = [row]

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        owner = data.draw(st.sampled_from(sorted(self.held)))
        rows = self.held.pop(owner)
        self.site.release(np.array(rows), OWNER)
        for slot, lent in list(self.lent.items()):
            if lent[0] in rows:
                self.site.promote(np.array(lent))
                self.held[slot] = self.lent.pop(slot)

    @rule(row=st.integers(0, 13), healthy=st.booleans())
    def set_health(self, row: int, healthy: bool) -> None:  # noqa: FBT001 - drawn
        if self.site.seats[OWNER, row] == NOBODY:
            self.site.set_health(row, healthy=healthy)

    @invariant()
    def seats_are_as_we_know_them(self) -> None:
        for seat, known in ((OWNER, self.held), (BORROWER, self.lent)):
            expected = np.full(14, NOBODY)
            for slot, rows in known.items():
                expected[rows] = slot
            assert self.site.seats[seat].tolist() == expected.tolist()

    @invariant()
    def free_counts_are_right(self) -> None:
        free = (self.site.seats[OWNER] == NOBODY) & self.site.healthy
        counted = np.bincount(self.site.node[free], minlength=3)
        assert self.site.free[:, 0].tolist() == counted.tolist()


TestSeats = Seats.TestCase
