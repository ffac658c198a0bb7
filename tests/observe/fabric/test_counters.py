"""Counters of ports: rates, wraps, resets, and what nobody counts."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.clients.linux.fabric_ports import host_ports
from steward.model.fabric import shapes
from steward.observe.fabric.counters import (
    PortCounters,
    PortMeter,
    difference,
    link_columns,
    read_ethtool,
)
from steward.observe.fabric.host import counters_of


@given(start=st.integers(0, 2**32 - 1), rise=st.integers(0, 2**30))
def test_a_counter_that_wraps_once_is_read_right_or_taken_for_reset(start: int, rise: int) -> None:
    found = difference(start, (start + rise) % 2**32, bits=32)

    assert found == rise or (math.isnan(found) and start < 2**31)


def test_a_counter_that_was_reset_is_unknown_for_that_interval_alone() -> None:
    meter = PortMeter()
    assert meter.read("p", 0.0, PortCounters(tx_bytes=1e6)) == {}
    assert math.isnan(meter.read("p", 1.0, PortCounters(tx_bytes=5.0))["bytes_per_s"])
    assert meter.read("p", 3.0, PortCounters(tx_bytes=105.0))["bytes_per_s"] == 50.0
    assert meter.read("p", 3.0, PortCounters(tx_bytes=106.0)) == {}


def test_waiting_pauses_and_marks_become_shares() -> None:
    meter = PortMeter()
    before = PortCounters(
        wait_ticks=0, tick_s=1e-9, pause_s=0.0, tx_packets=0, ecn_packets=0, errors=0, retransmits=0
    )
    after = PortCounters(
        wait_ticks=5e8, tick_s=1e-9, pause_s=0.25, tx_packets=200, ecn_packets=50, errors=4,
        retransmits=2,
    )  # fmt: skip
    meter.read("p", 0.0, before)

    assert meter.read("p", 2.0, after) == pytest.approx(
        {
            "stalled_share": 0.25, "pause_share": 0.125, "ecn_share": 0.25, "errors_per_s": 2.0,
            "retransmits_per_s": 1.0,
        }
    )  # fmt: skip


def test_what_a_driver_does_not_count_is_not_made_up() -> None:
    meter = PortMeter()
    meter.read("p", 0.0, PortCounters(wait_ticks=0.0))

    assert meter.read("p", 1.0, PortCounters(wait_ticks=9.0)) == {}


def test_links_without_a_port_that_was_read_stay_unknown() -> None:
    fabric = shapes.fat_tree(2)
    found = link_columns(
        fabric, {0: {"bytes_per_s": 6.25e9, "pause_share": 0.5}, 2: {"stalled_share": 0.1}}
    )

    assert found.load_share[0] == 0.5
    assert found.stalled_share[[0, 2]].tolist() == [0.5, 0.1]
    assert np.isnan(found.stalled_share[1])
    assert np.isnan(found.wait_s).all()


def test_ethtool_is_read_whatever_a_driver_calls_its_counters() -> None:
    text = "NIC statistics:\n     tx_bytes_phy: 7\n     rx_prio0_pause_duration: 1000000\n junk\n"

    assert read_ethtool(text) == PortCounters(tx_bytes=7.0, pause_s=1.0)
    assert read_ethtool("") == PortCounters()


def _port(root: Path) -> None:
    port = root / "class/infiniband/mlx5_0/ports/1"
    for name, text in {
        "rate": "200 Gb/sec (4X HDR)", "state": "4: ACTIVE", "counters/port_xmit_data": "25",
        "counters/port_xmit_wait": "10", "hw_counters/packet_seq_err": "3",
        "counters/bad": "what",
    }.items():  # fmt: skip
        (port / name).parent.mkdir(parents=True, exist_ok=True)
        (port / name).write_text(text)


def test_ports_of_this_machine_are_read_from_the_kernel(tmp_path: Path) -> None:
    _port(tmp_path)
    card = tmp_path / "class/net/eth0/statistics"
    card.mkdir(parents=True)
    (card / "tx_bytes").write_text("9")
    (tmp_path / "class/net/lo").mkdir()
    infiniband, ethernet = host_ports(tmp_path)

    assert (infiniband.name, infiniband.up, infiniband.bytes_per_s) == ("mlx5_0/1", True, 25e9)
    counted = counters_of(infiniband.counters or {}, infiniband.bytes_per_s)
    assert counted.tx_bytes == 100.0
    assert counted.tick_s == pytest.approx(1.6e-10)
    assert counted.retransmits == 3.0
    assert math.isnan(ethernet.bytes_per_s)
    assert not ethernet.up
    assert counters_of(ethernet.counters or {}, math.nan).tx_bytes == 9.0
    assert counters_of({"port_xmit_data": 1.0}, math.nan).tick_s == 0.0


def test_a_machine_without_ports_has_none(tmp_path: Path) -> None:
    assert host_ports(tmp_path) == ()
