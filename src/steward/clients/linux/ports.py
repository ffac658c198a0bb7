"""Reads ports of InfiniBand and RoCE adapters: /sys/class/infiniband.

Most counters are read from the adapter's firmware, at some 0.1 ms each: not at every tick.
"""

from __future__ import annotations

from pathlib import Path

from steward.clients.linux.files import AbsentError, OpenFile, folders_in, numbers_of
from steward.model.layout import Block

__all__ = ["Ports"]

_LEVELS = ("state", "rate")
_COUNTERS = (
    "counters/port_rcv_data",
    "counters/port_xmit_data",
    "counters/port_rcv_packets",
    "counters/port_xmit_packets",
    "counters/port_xmit_wait",
    "counters/port_rcv_errors",
    "counters/port_xmit_discards",
    "counters/symbol_error",
    "counters/link_error_recovery",
    "counters/link_downed",
    "counters/local_link_integrity_errors",
    "hw_counters/packet_seq_err",
    "hw_counters/out_of_sequence",
    "hw_counters/local_ack_timeout_err",
    "hw_counters/np_ecn_marked_roce_packets",
    "hw_counters/rp_cnp_handled",
)


class Ports:
    """All ports of all adapters. An adapter has the counters that its driver gives it."""

    changed = False

    def __init__(self, sys: Path) -> None:
        self._files: list[OpenFile] = []
        blocks: list[Block] = []
        for adapter in folders_in(sys / "class/infiniband"):
            for port in folders_in(adapter / "ports"):
                files = [file for file in (*_LEVELS, *_COUNTERS) if (port / file).exists()]
                self._files += [OpenFile(port / file) for file in files]
                blocks.append(
                    Block(
                        entity=f"/ib:{adapter.name}:{port.name}",
                        names=tuple(_name(file) for file in files),
                    )
                )
        if not self._files:
            raise AbsentError("nothing in /sys/class/infiniband")
        self.blocks = tuple(blocks)

    def read(self) -> list[float]:
        return numbers_of(self._files)


def _name(file: str) -> str:
    folder, _, last = file.rpartition("/")
    return f"ib.{last}/s" if folder else f"ib.{last}"
