"""Counters of this machine's ports, by the names that kernels give them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from steward.observe.fabric.counters import PortCounters

__all__ = ["counters_of"]

_WORD_BYTES = 4.0  # InfiniBand counts data in words
_LANES_BYTES = 4.0  # XmitWait counts ticks in which a word could have been sent


def counters_of(found: Mapping[str, float], bytes_per_s: float) -> PortCounters:
    """Return them in one form, whether InfiniBand's or an interface's.

    XmitWait counts the times in which a word of data could have been sent and had to wait, so a
    tick is what a word takes at the port's speed.
    """
    if "port_xmit_data" in found:
        known = math.isfinite(bytes_per_s) and bytes_per_s > 0
        return PortCounters(
            tx_bytes=found["port_xmit_data"] * _WORD_BYTES,
            tx_packets=found.get("port_xmit_packets"),
            wait_ticks=found.get("port_xmit_wait"),
            tick_s=_LANES_BYTES / bytes_per_s if known else 0.0,
            ecn_packets=found.get("np_ecn_marked_roce_packets"),
            retransmits=found.get("packet_seq_err"),
            errors=found.get("port_rcv_errors"),
        )
    return PortCounters(
        tx_bytes=found.get("tx_bytes"),
        tx_packets=found.get("tx_packets"),
        errors=found.get("rx_errors"),
    )
