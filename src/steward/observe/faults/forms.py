"""Which lines of a kernel log are faults of hardware: a table of forms, each with its literal.

A line is looked at only if it holds one of `LITERALS`. Forms were taken from lines of real
machines; the text is kept where its parts are not known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from steward.model.faults import Fault, FaultKind

__all__ = ["LITERALS", "Form", "Identity", "fault_of", "faults_of", "identity_of", "place_of"]

Groups = Mapping[str, str]
_BUS = r"(?P<bus>(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{1,2}:[0-9a-fA-F]{1,2})(?:\.[0-9a-fA-F])?"
_PROCESS = re.compile(
    r"(?:pid='?(?P<pid>\d+|<unknown>)'?,? ?)?(?:name=(?P<name>.*?), )?(?P<text>.*)", re.DOTALL
)
_DETAILS = (  # what the text of an Xid says about where on the GPU it was
    re.compile(r"\(GPC (?P<gpc>\d+), TPC (?P<tpc>\d+), SM (?P<sm>\d+)\)"),
    re.compile(r"[Ll]ink (?P<link>-?\d+)\s?(?:\((?P<registers>[^)]*)\))?"),
    re.compile(r"partition (?P<partition>\d+), subpartition (?P<subpartition>\d+)"),
    re.compile(r"faulted @ (?P<address>0x[0-9a-f_]+)"),
    re.compile(r"recovery action changed from \S+ \([^)]*\) to (?P<recovery>0x[0-9a-f]+)"),
    re.compile(r"^(?P<unit>[A-Z0-9_]+) (?P<how>Fatal|Nonfatal) XC"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One form of line. The literal is in every such line, as it is written there."""

    literal: str
    pattern: re.Pattern[str]
    make: Callable[[Groups], Fault | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a line says of which GPU is at a place on the bus: the driver prints it on a crash."""

    bus: str
    uuid: str = ""
    serial: str = ""  # printed in the next line: `bus` is empty


def place_of(bus: str) -> str:
    """Return a place on the bus as all lines have it: domain, bus and device, four and two digits.

    >>> place_of("3B:00"), place_of("00000000:3b:00")
    ('0000:3b:00', '0000:3b:00')
    """
    *domain, number, device = bus.lower().split(":")
    return f"{int(domain[0], 16) if domain else 0:04x}:{number:0>2}:{device:0>2}"


def _xid(groups: Groups) -> Fault:
    found = _PROCESS.fullmatch(groups["rest"] or "")
    parts = {key: value for key, value in (found.groupdict() if found else {}).items() if value}
    text = parts.pop("text", "")
    for pattern in _DETAILS:
        match = pattern.search(text)
        parts |= {
            key: value for key, value in (match.groupdict() if match else {}).items() if value
        }
    how = parts.pop("how", None)
    return Fault(
        kind=FaultKind.XID,
        device=place_of(groups["bus"]),
        code=int(groups["code"]),
        fatal=None if how is None else how == "Fatal",
        text=text,
        detail={key: value for key, value in parts.items() if value != "<unknown>"},
    )


def _lost(groups: Groups) -> Fault:
    return Fault(kind=FaultKind.LOST, device=place_of(groups["bus"]), text="fallen off the bus")


def _firmware(groups: Groups) -> Fault:
    text = "heartbeat timed out"
    return Fault(kind=FaultKind.FIRMWARE, device=f"gpu{groups['gpu']}", text=text)


def _driver(groups: Groups) -> Fault:
    bus = groups.get("bus")
    text = groups["text"]
    return Fault(kind=FaultKind.DRIVER, device=place_of(bus) if bus else "driver", text=text)


def _sxid(groups: Groups) -> Fault:
    how, link = groups.get("how"), groups.get("link")
    detail = {"bus": place_of(groups["bus"])} | ({"link": link} if link else {})
    return Fault(
        kind=FaultKind.SXID,
        device=f"nvswitch{groups['switch']}",
        code=int(groups["code"]),
        fatal=None if how is None else how == "Fatal",
        text=groups["text"] or "",
        detail=detail,
    )


def _pcie(groups: Groups) -> Fault:
    return Fault(
        kind=FaultKind.PCIE,
        device=place_of(groups["bus"]),
        fatal="uncorrect" in groups["severity"].lower(),
        text=f"{groups['severity']} error, {groups['layer'] or 'unknown layer'}",
    )


def _pcie_firmware(groups: Groups) -> Fault:
    """Read one of the lines of a report; they have its number in common."""
    return Fault(
        kind=FaultKind.PCIE,
        device=place_of(groups["bus"]) if groups["bus"] else "",
        text="reported by firmware",
        detail={"report": groups["report"]},
    )


def _memory(groups: Groups) -> Fault:
    return Fault(
        kind=FaultKind.HOST_MEMORY,
        device=f"mc{groups['mc']}",
        fatal=groups["how"].upper() == "UE",
        text=groups["text"],
    )


def _network(groups: Groups) -> Fault:
    return Fault(kind=FaultKind.NETWORK, device=place_of(groups["bus"]), text=groups["text"])


def _form(literal: str, pattern: str, make: Callable[[Groups], Fault | None]) -> Form:
    return Form(literal=literal, pattern=re.compile(pattern), make=make)


_FORMS = (
    _form("NVRM: Xid", rf"NVRM: Xid \((?:PCI:)?{_BUS}\): (?P<code>\d+)(?:,\s*(?P<rest>.*))?", _xid),
    _form("fallen off the bus", rf"NVRM:.*? GPU (?:at PCI:)?{_BUS}:? .*fallen off the bus", _lost),
    _form("Heartbeat timed out", r"NVRM: GPU(?P<gpu>\d+) \w+: Heartbeat timed out", _firmware),
    _form(
        "NVRM: ",
        rf"NVRM: (?:GPU {_BUS}: )?(?P<text>(?:RmInitAdapter failed|API mismatch).*)",
        _driver,
    ),
    _form(
        "SXid (",
        rf"nvidia-nvswitch(?P<switch>\d+): SXid \((?:PCI:)?{_BUS}\): (?P<code>\d+), "
        r"(?:(?P<how>Fatal|Non-fatal), )?(?:Link (?P<link>-?\d+) )?(?P<text>.*)",
        _sxid,
    ),
    _form(
        "PCIe Bus Error",
        rf"{_BUS}: (?:AER: )?PCIe Bus Error: severity=(?P<severity>[^,]*),"
        r"(?: type=(?P<layer>[^,]*))?",
        _pcie,
    ),
    _form(
        "[Hardware Error]",
        r"\{(?P<report>\d+)\}\[Hardware Error\]:\s+"
        rf"(?:section_type: PCIe error|device_id: {_BUS})",
        _pcie_firmware,
    ),
    _form("EDAC ", r"EDAC MC(?P<mc>\d+): \d+ (?P<how>UE|CE) (?P<text>.*)", _memory),
    _form(
        "mlx5_core ",
        rf"mlx5_core {_BUS}: (?P<text>.*(?:insufficient power|[Hh]igh [Tt]emperature|"
        r"[Cc]able (?:error|unplugged)|health (?:compromised|recovery)|[Ff]atal).*)",
        _network,
    ),
)
# What files are searched for: fewer than the forms have, since each costs a pass over the file.
LITERALS = (b"NVRM: ", b"SXid (", b"PCIe Bus Error", b"[Hardware Error]", b"EDAC ", b"mlx5_core ")
_XID_BEGIN = re.compile(r"NVRM: Xid \(")
_GPU_UUID = re.compile(rf"NVRM: GPU at (?:PCI:)?{_BUS}: (?P<uuid>(?:GPU|MIG)-[0-9a-fA-F-]+)")
_GPU_SERIAL = re.compile(r"NVRM: GPU Board Serial Number: (?P<serial>[\w-]+)")


def fault_of(line: str) -> Fault | None:
    """Return what a line reports, None where it is no fault.

    >>> fault_of("NVRM: Xid (PCI:0000:06:00): 79, GPU has fallen off the bus.").code
    79
    """
    for form in _FORMS:
        if form.literal in line:
            match = form.pattern.search(line)
            if match is not None:
                return form.make(match.groupdict())
    return None


def faults_of(line: str) -> list[Fault]:
    """Return what a line reports; several where writers have run into one another."""
    begins = [found.start() for found in _XID_BEGIN.finditer(line)]
    if len(begins) < 2:
        found = fault_of(line)
        return [found] if found is not None else []
    ends = [*begins[1:], len(line)]
    parts = (fault_of(line[begin:end]) for begin, end in zip(begins, ends, strict=True))
    return [each for each in parts if each is not None]


def identity_of(line: str) -> Identity | None:
    """Return which GPU a line says is at a place on the bus."""
    found = _GPU_UUID.search(line)
    if found is not None:
        return Identity(bus=place_of(found["bus"]), uuid=found["uuid"])
    serial = _GPU_SERIAL.search(line)
    return None if serial is None else Identity(bus="", serial=serial["serial"])
