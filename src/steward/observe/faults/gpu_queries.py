"""What `nvidia-smi -q` says of each GPU, as text or as XML (`-x`): who it is, and its memory.

Both have the same tree of names; `[N/A]` and the like are absent, never zero.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import nan
from xml.etree import ElementTree as ET

from steward.errors import StewardError
from steward.model.faults import Fault, FaultKind, GpuSighting
from steward.observe.faults.forms import place_of

__all__ = ["GpuQuery", "faults_of_query", "is_gpu_query", "read_gpu_query", "sighting_of_query"]

TEXT_HEAD, XML_HEAD = b"NVSMI LOG", b"<nvidia_smi_log"
_GPU_LINE = re.compile(r"^GPU (?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])")
_WORDS = re.compile(r"[^a-z0-9]+")
_NOTHING = (
    "",
    "n/a",
    "[n/a]",
    "not available",
    "unknown error",
    "requested functionality has been deprecated",
)
_MOST_BYTES = 64 * 2**20
_TIME = "%a %b %d %H:%M:%S %Y"
_XML_NAMES = {  # where XML calls something else than the text
    "remapped_row_corr": "correctable_error",
    "remapped_row_unc": "uncorrectable_error",
    "remapped_row_pending": "pending",
    "remapped_row_failure": "remapping_failure_occurred",
    "uuid": "gpu_uuid",
    "serial": "serial_number",
    "pending_blacklist": "pending_page_blacklist",
    "pending_retirement": "pending_page_blacklist",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuQuery:
    """All that was said of one GPU, by path: `ecc_errors/volatile/dram_uncorrectable`."""

    bus: str
    values: Mapping[str, str]
    t_s: float = nan

    def said(self, *paths: str) -> str:
        """Return the first of these values that there is; empty where there is none."""
        return next((self.values[path] for path in paths if path in self.values), "")

    def count(self, *paths: str) -> int | None:
        """Return a number, None where it is absent."""
        word = self.said(*paths).partition(" ")[0]
        return int(word) if word.isdecimal() else None


def is_gpu_query(head: bytes) -> bool:
    """Return whether a file begins as such an answer does."""
    return TEXT_HEAD in head or XML_HEAD in head


def read_gpu_query(text: str, *, where: str) -> list[GpuQuery]:
    """Return the GPUs of an answer, or of several one after the other."""
    if len(text) > _MOST_BYTES:
        raise StewardError(
            f"it is larger than {_MOST_BYTES // 2**20} MiB", where=where, hint="split it"
        )
    return list(_of_xml(text, where) if "<nvidia_smi_log" in text else _of_text(text))


def sighting_of_query(each: GpuQuery, node: str) -> GpuSighting:
    """Return which GPU was where."""
    return GpuSighting(
        node=node,
        slot=each.bus,
        serial=each.said("serial_number"),
        uuid=each.said("gpu_uuid"),
        index=each.count("minor_number"),
        part=each.said("product_name"),
        batch=each.said("product_architecture"),
        t_s=each.t_s,
    )


_ECC = ("dram_uncorrectable", "sram_uncorrectable", "sram_uncorrectable_parity",
        "sram_uncorrectable_sec_ded", "device_memory", "double_bit/total")  # fmt: skip


def faults_of_query(each: GpuQuery, node: str) -> Iterator[Fault]:
    """Yield what is wrong with a GPU by its own counters and states."""
    rows = "remapped_rows"
    yes = "yes"
    states = [
        ("remap-failed", each.said(f"{rows}/remapping_failure_occurred").lower() == yes,
         "rows of its memory can no longer be replaced"),
        ("sram-worn", each.said("ecc_errors/aggregate/sram_threshold_exceeded").lower() == yes,
         "its on-chip memory has had too many errors"),
        ("remap-pending", each.said(f"{rows}/pending").lower() == yes,
         "rows of its memory are replaced at the next reset"),
        ("retire-pending", each.said("retired_pages/pending_page_blacklist").lower() == yes,
         "pages of its memory are retired at the next reset"),
        ("uncorrected", _uncorrected(each) > 0,
         f"{_uncorrected(each)} memory errors that could not be corrected since the last reset"),
        ("hw-slowdown", _is_slowed(each), "the hardware slows the GPU down: heat or power"),
    ]  # fmt: skip
    for state, holds, text in states:
        if holds:
            yield _fault(each, node, state, text)
    action = each.said("gpu_recovery_action").lower()
    if action not in ("", "none"):
        yield _fault(each, node, f"asks-{action.split()[0]}", f"the driver asks for: {action}")
    if any("gpu is lost" in value.lower() for value in each.values.values()):
        yield _fault(each, node, "lost", "the driver has lost the GPU")


def _fault(each: GpuQuery, node: str, state: str, text: str) -> Fault:
    return Fault(
        kind=FaultKind.GPU_STATE,
        device=each.bus,
        text=text,
        detail={"state": state},
        t_s=each.t_s,
        node=node,
    )


def _uncorrected(each: GpuQuery) -> int:
    return sum(each.count(f"ecc_errors/volatile/{name}") or 0 for name in _ECC)


def _is_slowed(each: GpuQuery) -> bool:
    names = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")
    return any(
        value.lower() == "active" and path.rpartition("/")[2].endswith(names)
        for path, value in each.values.items()
    )


def _of_text(text: str) -> Iterator[GpuQuery]:
    t_s, bus = nan, ""
    values: dict[str, str] = {}
    path: list[tuple[int, str]] = []  # how far headings stand in, and their names
    for line in text.splitlines():
        found = _GPU_LINE.match(line)
        if found is not None or TEXT_HEAD.decode() in line:
            if bus:
                yield GpuQuery(bus=bus, values=values, t_s=t_s)
            bus = place_of(found["bus"].rpartition(".")[0]) if found else ""
            values, path = {}, []
            continue
        name, colon, value = line.partition(" : ")
        if not name.strip():
            continue
        if not bus:
            t_s = _time_s(value) if name.strip() == "Timestamp" else t_s
            continue
        depth = len(name) - len(name.lstrip())
        path = [each for each in path if each[0] < depth]
        words = _snake(name.rstrip(": "))
        if colon:
            _keep(values, [*(each[1] for each in path), words], value)
        else:
            path.append((depth, words))
    if bus:
        yield GpuQuery(bus=bus, values=values, t_s=t_s)


def _of_xml(text: str, where: str) -> Iterator[GpuQuery]:
    if "<!ENTITY" in text:  # nvidia-smi writes none; others could make it endless
        raise StewardError("its XML defines entities", where=where, hint="is it of nvidia-smi?")
    for part in re.findall(r"<nvidia_smi_log.*?(?:</nvidia_smi_log>|\Z)", text, re.DOTALL):
        try:
            root = ET.fromstring(part)  # noqa: S314 - entities are refused above
        except ET.ParseError as fault:
            raise StewardError(
                f"its XML is not whole: {fault}", where=where, hint="was it cut off?"
            ) from fault
        t_s = _time_s(root.findtext("timestamp", ""))
        for gpu in root.iter("gpu"):
            values: dict[str, str] = {}
            _walk(gpu, [], values)
            bus = str(gpu.get("id", "")).rpartition(".")[0]
            if bus:
                yield GpuQuery(bus=place_of(bus), values=values, t_s=t_s)


def _walk(element: ET.Element, path: list[str], values: dict[str, str]) -> None:
    for child in element:
        inside = [*path, _XML_NAMES.get(child.tag, child.tag)]
        if len(child):
            _walk(child, inside, values)
        else:
            _keep(values, inside, child.text or "")


def _keep(values: dict[str, str], path: list[str], value: str) -> None:
    value = value.strip()
    if value.lower() not in _NOTHING:
        values["/".join(path)] = value


def _snake(name: str) -> str:
    return _WORDS.sub("_", name.strip().lower()).strip("_")


def _time_s(text: str) -> float:
    try:
        return datetime.strptime(text.strip(), _TIME).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return nan
