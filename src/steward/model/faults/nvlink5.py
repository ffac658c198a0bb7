"""What the registers in lines of NVLink 5 (Xid 144 to 150) ask for, after NVIDIA's public rules.

A line names a unit, and prints its registers: the first has a sub-code in bits 20 to 25, the second
what went wrong, one bit each (a number in the units of 149).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from steward.model.faults.remedies import Remedy

__all__ = ["Nvlink5Rule", "nvlink5_rule"]

_Row = tuple[int, int, str, str]  # sub-code, status, remedy, what to look at
_REMEDIES = {"watch": Remedy.WATCH, "reset": Remedy.RESET_GPU, "follow": Remedy.WATCH}
_LOOK = {
    "support": "ask the vendor if it comes back",
    "nothing": "nothing has to be looked at",
    "link": "test the link",
    "sympathetic": "it may only follow from the other end; report it where it is alone",
    "again": "report it if it comes more than once a day",
    "signal": "check the signal of the link, and its cables",
    "software": "the software or its user took the link down",
    "peer": "look at the GPU or switch at the other end",
    "host": "look at the host",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Nvlink5Rule:
    """One rule that fits a line. `asks_driver`: what Xid 154 says decides."""

    remedy: Remedy
    look: str
    asks_driver: bool = False


_TABLE: tuple[tuple[tuple[str, ...], tuple[_Row, ...]], ...] = (
    (("SAW_MVB",), (
        (0, 0x1, "watch", "support"), (0, 0x2, "reset", "support"), (0, 0x4, "watch", "nothing"),
        (0, 0x8, "watch", "support"), (0, 0x10, "reset", "support"), (0, 0x20, "watch", "nothing"),
    )),
    (("RLW_CTRL",), (
        (0, 0x80000000, "watch", "support"),
    )),
    (("RLW_REMAP",), (
        (0, 0x1, "follow", "support"), (0, 0x2, "follow", "support"), (0, 0x4, "follow", "link"),
        (0, 0x8, "follow", "link"), (0, 0x10, "follow", "link"), (0, 0x20, "follow", "link"),
        (0, 0x40, "reset", "support"), (0, 0x80, "reset", "support"),
        (0, 0x100, "watch", "nothing"), (0, 0x200, "watch", "nothing"),
        (0, 0x80000000, "watch", "support"),
    )),
    (("RLW_RSPCOL",), (
        (0, 0x1, "watch", "nothing"), (0, 0x2, "reset", "support"),
        (0, 0x80000000, "watch", "support"),
    )),
    (("RLW_RXPIPE",), (
        (0, 0x1, "watch", "support"), (0, 0x2, "watch", "support"), (0, 0x4, "watch", "support"),
        (0, 0x8, "watch", "support"), (0, 0x80000000, "watch", "support"),
    )),
    (("RLW_SRC_TRACK",), (
        (0, 0x1, "reset", "support"), (0, 0x2, "watch", "nothing"), (0, 0x4, "follow", "nothing"),
        (0, 0x8, "follow", "nothing"), (0, 0x10, "reset", "support"),
        (0, 0x20, "reset", "support"), (0, 0x80000000, "watch", "support"),
    )),
    (("RLW_TAGSTATE",), (
        (0, 0x1, "watch", "nothing"), (0, 0x2, "reset", "support"),
        (0, 0x10000, "watch", "nothing"), (0, 0x20000, "reset", "support"),
        (0, 0x100000, "reset", "support"), (0, 0x80000000, "watch", "support"),
    )),
    (("TLW_CTRL",), (
        (0, 0x1, "watch", "nothing"), (0, 0x2, "watch", "support"), (0, 0x4, "reset", "support"),
        (0, 0x80000000, "watch", "support"),
    )),
    (("TLW_RX", "TLW_RX_PIPE0"), (
        (0, 0x1, "watch", "nothing"), (0, 0x2, "watch", "support"), (0, 0x4, "reset", "support"),
        (0, 0x80000000, "watch", "support"),
    )),
    (("TLW_RX", "TLW_RX_PIPE1"), (
        (0, 0x1, "watch", "nothing"), (0, 0x2, "watch", "support"), (0, 0x4, "reset", "support"),
        (0, 0x80000000, "watch", "support"),
    )),
    (("TLW_TX", "TLW_TX_PIPE0"), (
        (0, 0x1, "watch", "nothing"), (0, 0x2, "watch", "support"), (0, 0x4, "reset", "support"),
        (0, 0x80000000, "watch", "support"),
    )),
    (("TLW_TX", "TLW_TX_PIPE1"), (
        (0, 0x1, "watch", "nothing"), (0, 0x2, "watch", "support"), (0, 0x4, "reset", "support"),
        (0, 0x80000000, "watch", "support"),
    )),
    (("TREX",), (
        (0, 0x1, "watch", "support"), (0, 0x80000000, "watch", "support"),
    )),
    (("NVLPW_CTRL", "NVLPW"), (
        (0, 0x80000000, "watch", "support"),
    )),
    (("NETIR", "NETIR_INT"), (
        (0, 0x0, "reset", "sympathetic"),
    )),
    (("NETIR_BER_EVENT",), (
        (0, 0x0, "watch", "signal"), (0, 0x1, "watch", "signal"), (0, 0x2, "watch", "signal"),
        (0, 0x3, "watch", "signal"),
    )),
    (("NETIR_LINK_EVT", "NETIR_LINK_DOWN"), (
        (0, 0x0, "reset", "sympathetic"), (1, 0x0, "reset", "again"), (2, 0x0, "reset", "signal"),
        (4, 0x0, "reset", "signal"), (10, 0x0, "reset", "signal"), (15, 0x0, "reset", "software"),
        (16, 0x0, "reset", "software"), (17, 0x0, "reset", "software"),
        (18, 0x0, "reset", "software"), (21, 0x0, "reset", "peer"), (22, 0x0, "reset", "software"),
        (32, 0x0, "reset", "peer"), (33, 0x0, "reset", "peer"), (34, 0x0, "reset", "peer"),
        (35, 0x0, "reset", "peer"), (36, 0x0, "reset", "peer"), (37, 0x0, "reset", "peer"),
        (38, 0x0, "watch", "software"), (40, 0x0, "watch", "host"), (42, 0x0, "reset", "signal"),
        (43, 0x0, "reset", "signal"),
    )),
    (("NETIR_MFDE_EVENT",), (
        (0, 0x1, "reset", "support"), (0, 0x3, "watch", "nothing"), (0, 0x4, "reset", "support"),
        (0, 0x5, "reset", "support"), (0, 0x7, "reset", "support"),
    )),
    (("MSE_WATCHDOG",), (
        (0, 0x0, "reset", "support"),
    )),
)  # fmt: skip

_BY_UNIT: Mapping[str, Mapping[tuple[int, int], tuple[str, str]]] = {
    unit: {(sub, status): (remedy, look) for sub, status, remedy, look in rows}
    for units, rows in _TABLE
    for unit in units
}
_BITS = ("SAW", "RLW", "TLW", "TREX", "NVLPW")  # units whose status has one bit per error


def nvlink5_rule(unit: str, registers: str) -> Nvlink5Rule | None:
    """Return the rule for a unit and its registers, the hardest of several; None: no rule fits.

    >>> nvlink5_rule("RLW_SRC_TRACK", "0x000000e2 0x00000010 0x0").remedy.value
    'reset-gpu'
    """
    rules = _BY_UNIT.get(unit)
    numbers = _numbers(registers)
    if rules is None or len(numbers) < 2:
        return None
    sub, status = numbers[0] >> 20 & 0x3F, numbers[1]
    found = [rules[sub, status]] if (sub, status) in rules else []
    if not found and unit.startswith(_BITS):
        found = [each for (at, bit), each in rules.items() if at == sub and bit & status]
    if not found:
        return None
    remedy, look = max(found, key=lambda each: _REMEDIES[each[0]].rank)
    return Nvlink5Rule(
        remedy=_REMEDIES[remedy],
        look=_LOOK[look],
        asks_driver=any(each[0] == "follow" for each in found),
    )


def _numbers(registers: str) -> list[int]:
    """Return the registers, as many as can be read: lines may be cut."""
    found = []
    for word in registers.split():
        try:
            found.append(int(word, 16))
        except ValueError:
            break
    return found
