"""From counters of ports to what links do: rates that survive wraps and resets.

A counter that falls has wrapped if its width is known and little is missing to the top; otherwise
it was reset, and that interval is unknown rather than a guess.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from steward.model.fabric.topology import FabricTopology
from steward.model.fabric.view import LinkColumns

__all__ = ["PortCounters", "PortMeter", "difference", "link_columns", "read_ethtool"]

_TOP_SHARE = 0.5  # what falls from above half of its range has wrapped
_ETHTOOL = re.compile(r"^\s*([\w.\[\]-]+):\s*(-?\d+)\s*$")
_NAMES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("tx_bytes", ("tx_bytes_phy", "tx_bytes", "port.tx_bytes", "tx_octets")),
    ("tx_packets", ("tx_packets_phy", "tx_packets", "port.tx_unicast")),
    ("ecn_packets", ("rx_ecn_mark", "np_ecn_marked_roce_packets", "rx_ecn_marked")),
    ("errors", ("rx_crc_errors_phy", "rx_crc_errors", "rx_errors")),
    ("retransmits", ("roce_adp_retrans", "tx_retransmits")),
)
_PAUSE = re.compile(r"^(?:rx_prio\d+_pause_duration|rx_pause_duration|rx_global_pause_duration)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class PortCounters:
    """What one port has counted so far; None is not counted here."""

    tx_bytes: float | None = None
    tx_packets: float | None = None
    wait_ticks: float | None = None  # XmitWait: something waited and had no credits
    tick_s: float = 0.0  # of `wait_ticks`; 0 is unknown
    ecn_packets: float | None = None
    pause_s: float | None = None
    retransmits: float | None = None
    errors: float | None = None


def difference(before: float, after: float, *, bits: int = 64) -> float:
    """Return by how much a counter rose; NaN where it was reset.

    >>> difference(10, 25), difference(2**32 - 5, 7, bits=32), difference(1000, 3)
    (15, 12, nan)
    """
    if after >= before:
        return after - before
    top = 2.0**bits
    if before > top * _TOP_SHARE:
        wrapped = top - before + after
        return int(wrapped) if wrapped.is_integer() else wrapped
    return float("nan")


@dataclass(slots=True)
class PortMeter:
    """Remembers the last counters of ports, and returns what each did since."""

    bits: int = 64
    _last: dict[str, tuple[float, PortCounters]] = field(default_factory=dict)

    def read(self, port: str, t_s: float, now: PortCounters) -> Mapping[str, float]:
        """Return rates and shares since the last reading; nothing at the first."""
        earlier = self._last.get(port)
        self._last[port] = (t_s, now)
        if earlier is None or t_s <= earlier[0]:
            return {}
        past_s, before = t_s - earlier[0], earlier[1]
        rose = {
            name: difference(old, new, bits=self.bits)
            for name in PortCounters.__dataclass_fields__
            if name != "tick_s"
            and (old := getattr(before, name)) is not None
            and (new := getattr(now, name)) is not None
        }
        return dict(_figures(rose, past_s, now.tick_s))


def _figures(rose: Mapping[str, float], past_s: float, tick_s: float) -> dict[str, float]:
    figures: dict[str, float] = {}
    for name, into in (
        ("tx_bytes", "bytes_per_s"),
        ("retransmits", "retransmits_per_s"),
        ("errors", "errors_per_s"),
    ):
        if name in rose:
            figures[into] = rose[name] / past_s
    if "wait_ticks" in rose and tick_s > 0:
        figures["stalled_share"] = _share(rose["wait_ticks"] * tick_s / past_s)
    if "pause_s" in rose:
        figures["pause_share"] = _share(rose["pause_s"] / past_s)
    packets = rose.get("tx_packets", 0.0)
    if "ecn_packets" in rose and packets > 0:
        figures["ecn_share"] = _share(rose["ecn_packets"] / packets)
    return figures


def _share(value: float) -> float:
    return float(np.clip(value, 0.0, 1.0))


def read_ethtool(text: str) -> PortCounters:
    r"""Read what `ethtool -S` prints; drivers name their counters as they like.

    >>> read_ethtool("NIC statistics:\n     tx_bytes_phy: 12\n     rx_prio3_pause_duration: 5")
    ... # doctest: +ELLIPSIS
    PortCounters(tx_bytes=12.0, ...pause_s=5e-06...)
    """
    found = {m[1]: float(m[2]) for line in text.splitlines() if (m := _ETHTOOL.match(line))}
    fields: dict[str, float] = {}
    for name, known in _NAMES:
        value = next((found[each] for each in known if each in found), None)
        if value is not None:
            fields[name] = value
    pauses = [value for name, value in found.items() if _PAUSE.match(name)]
    if pauses:
        fields["pause_s"] = sum(pauses) / 1e6  # microseconds
    return PortCounters(**fields)


def link_columns(
    topology: FabricTopology, figures: Mapping[int, Mapping[str, float]]
) -> LinkColumns:
    """Return columns of links from the figures of the ports that send over them; NaN elsewhere.

    A port that stalls or is paused lets what waits at it wait as long as a full queue: how long
    that is nobody counts, so `wait_s` stays unknown here. RTT gives it, where it is measured.
    """
    columns = {name: np.full(len(topology.links), np.nan) for name in LinkColumns.__slots__}
    for link, own in figures.items():
        for name, value in own.items():
            columns[name][link] = value
    pause, stalled = columns["pause_share"], columns["stalled_share"]
    columns["stalled_share"] = np.fmax(stalled, pause)
    columns["load_share"] = columns["bytes_per_s"] / topology.links.bytes_per_s
    return LinkColumns(**columns)
