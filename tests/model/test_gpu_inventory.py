"""Which GPU is where, over time."""

from __future__ import annotations

from math import inf, nan

from hypothesis import given
from hypothesis import strategies as st

from steward.model.faults import (
    GpuSighting,
    Inventory,
    inventory_of,
    nvlink5_rule,
    short_host,
)
from steward.model.faults.remedies import Remedy

SLOT, OTHER = "0000:06:00", "0000:07:00"


def sighting(serial: str = "s1", *, t_s: float = 0.0, **more: object) -> GpuSighting:
    given = {"node": "n1", "slot": SLOT} | more
    return GpuSighting(serial=serial, t_s=t_s, **given)  # type: ignore[arg-type]


def test_gpus_that_are_swapped_are_told_apart_by_time() -> None:
    known = inventory_of(
        [
            sighting("s1", t_s=0.0),
            sighting("s2", t_s=0.0, slot=OTHER),
            sighting("s2", t_s=100.0),
            sighting("s1", t_s=100.0, slot=OTHER),
        ]
    )

    assert [known.at("n1", SLOT, t) for t in (50.0, 150.0)] == ["s1", "s2"]
    assert [known.at("n1", OTHER, t) for t in (50.0, 150.0)] == ["s2", "s1"]


def test_a_gpu_keeps_its_name_when_its_host_is_renamed() -> None:
    known = inventory_of([sighting(t_s=0.0), sighting(t_s=10.0, node="new-name.example.org")])

    assert known.at("n1", SLOT, 5.0) == "s1"
    assert known.at("NEW-NAME", SLOT, 20.0) == "s1"
    assert known.at("n1", SLOT, 20.0) == ""  # the slot's host is gone, and with it the GPU


def test_a_uuid_and_a_serial_number_seen_together_are_one_gpu() -> None:
    known = inventory_of(
        [
            sighting("", uuid="GPU-1", t_s=5.0, node="n2"),
            sighting("s1", uuid="GPU-1", part="H100", index=3),
            sighting("", uuid="GPU-9", slot=OTHER),
        ]
    )

    assert set(known.units) == {"s1", "GPU-9"}
    assert known.units["s1"].uuids == {"GPU-1"}
    assert (known.name_of("gpu-1"), known.name_of("S1"), known.name_of("x")) == ("s1", "s1", "x")
    assert known.at("n2", SLOT, 6.0) == "s1"
    assert known.slot_of("n1", 3, 1.0) == SLOT
    assert known.slot_of("n1", 3, nan) == SLOT
    assert known.slot_of("n1", 7, 1.0) == ""
    assert known.slot_of("n9", 3, 1.0) == ""
    assert [each.gpu for each in known.on("n2")] == ["s1"]


def test_before_it_was_seen_a_slot_had_the_first_gpu_unless_that_was_elsewhere() -> None:
    alone = inventory_of([sighting(t_s=100.0)])
    moved = inventory_of([sighting(t_s=0.0, node="n2"), sighting(t_s=100.0)])

    assert alone.at("n1", SLOT, 50.0) == "s1"
    assert moved.at("n1", SLOT, 50.0) == ""


def test_without_a_time_a_slot_names_a_gpu_only_if_it_ever_had_one() -> None:
    one = inventory_of([sighting(t_s=nan)])
    two = inventory_of([sighting(t_s=0.0), sighting("s2", t_s=1.0)])

    assert one.at("n1", SLOT, nan) == "s1"
    assert two.at("n1", SLOT, nan) == ""
    assert Inventory().at("n1", SLOT, 0.0) == ""


def test_a_stay_with_an_end_is_over_at_it() -> None:
    known = inventory_of([sighting(until_s=10.0), sighting("s2", t_s=20.0, until_s=30.0)])

    assert [known.at("n1", SLOT, t) for t in (5.0, 15.0, 25.0, 35.0)] == ["s1", "", "s2", ""]


def test_seeing_a_gpu_again_where_it_is_makes_no_new_stay() -> None:
    known = inventory_of([sighting(t_s=float(t)) for t in range(5)])

    assert [(each.from_s, each.to_s) for each in known.stays] == [(0.0, inf)]


def test_what_names_no_gpu_is_no_sighting() -> None:
    assert inventory_of([sighting("")]) == Inventory()


def test_addresses_are_no_names_with_domains() -> None:
    assert [short_host(each) for each in ("10.1.2.3", "A.b.c", "n1")] == ["10.1.2.3", "a", "n1"]


@given(
    moves=st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=25
    ),
    t_s=st.floats(-5, 60),
)
def test_a_gpu_is_never_at_two_places_nor_two_gpus_at_one(
    moves: list[tuple[int, int, int]], t_s: float
) -> None:
    known = inventory_of(
        [sighting(f"s{gpu}", t_s=float(t), slot=f"0000:0{slot}:00") for t, gpu, slot in moves]
    )
    now = [each for each in known.stays if each.from_s <= t_s < each.to_s]

    assert len({each.gpu for each in now}) == len(now)
    assert len({each.slot for each in now}) == len(now)


def test_registers_of_nvlink_5_decide_what_their_line_leaves_open() -> None:
    hard = nvlink5_rule("RLW_SRC_TRACK", "0x000000e2 0x00000011 0x0")
    soft = nvlink5_rule("RLW_RXPIPE", "0x0009a0c2 0x00000008")
    asks = nvlink5_rule("RLW_REMAP", "0x00000082 0x00000001")
    number = nvlink5_rule("NETIR_MFDE_EVENT", "0x00000246 0x00000003")

    assert hard is not None
    assert soft is not None
    assert asks is not None
    assert number is not None
    assert hard.remedy is Remedy.RESET_GPU  # the hardest of several bits
    assert soft.remedy is Remedy.WATCH
    assert asks.asks_driver
    assert number.remedy is Remedy.WATCH


def test_no_rule_fits_registers_that_are_cut_or_unknown() -> None:
    assert nvlink5_rule("NO_SUCH_UNIT", "0x0 0x1") is None
    assert nvlink5_rule("RLW_CTRL", "0x00000062") is None
    assert nvlink5_rule("RLW_CTRL", "0x00000062 broken") is None
    assert nvlink5_rule("RLW_CTRL", "0x00000062 0x00000001") is None
    assert nvlink5_rule("NETIR_MFDE_EVENT", "0x00000246 0x00000009") is None
