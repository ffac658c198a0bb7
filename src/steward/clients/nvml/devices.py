"""What does not change about a GPU: what it is, what it is linked to, how it is sliced."""

from __future__ import annotations

from ctypes import Array, byref, c_char, c_uint32, c_void_p, create_string_buffer
from dataclasses import dataclass

from steward.clients.nvml.library import LOST, Library, lost
from steward.clients.nvml.structs import MEMORY_V2, GpmSupport, MemoryV1, MemoryV2, PciAddress

__all__ = ["SWITCH", "Device", "Slice", "describe", "link_count", "short_bus_id", "slices"]

SWITCH = "switch"  # the far end of a link to an NVSwitch
GENERATIONS = {
    2: "kepler",
    3: "maxwell",
    4: "pascal",
    5: "volta",
    6: "turing",
    7: "ampere",
    8: "ada",
    9: "hopper",
    10: "blackwell",
    13: "rubin",
}
MAX_LINKS = 18
_REMOTE_IS_SWITCH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One GPU. `peers` are bus ids at the other end of its NVLinks."""

    index: int
    name: str
    uuid: str
    generation: str
    memory_bytes: int
    max_watts: float
    bus_id: str
    peers: tuple[str, ...]
    has_counters: bool  # GPM: hardware counters, from Hopper on
    least_watts: float = 0.0  # lowest power limit; 0 where it cannot be set


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One GPU instance of a GPU in MIG mode; `id` is what DCGM calls GPU_I_ID."""

    gpu: int
    id: int


def short_bus_id(bus_id: str) -> str:
    """Return a bus id as the driver's messages have it: domain, bus and device, no function.

    >>> short_bus_id("00000000:3B:00.0"), short_bus_id("0000:3b:00")
    ('0000:3b:00', '0000:3b:00')
    """
    domain, _, rest = bus_id.lower().partition(":")
    return f"{domain[-4:]}:{rest.partition('.')[0]}"


def describe(library: Library, index: int) -> Device:
    """Return the description of one GPU, or raise `GpuLostError`."""
    handle = library.handle(index)
    return Device(
        index=index,
        name=_name(library, index, handle) or "unknown",
        uuid=_text(library, "nvmlDeviceGetUUID", handle),
        generation=GENERATIONS.get(
            library.number("nvmlDeviceGetArchitecture", handle) or 0, "unknown"
        ),
        memory_bytes=_memory_bytes(library, handle),
        max_watts=_max_milliwatts(library, handle) / 1000,
        bus_id=_bus_id(library, "nvmlDeviceGetPciInfo_v3", handle),
        peers=_peers(library, handle),
        has_counters=_has_counters(library, handle),
        least_watts=_least_milliwatts(library, handle) / 1000,
    )


def slices(library: Library, index: int) -> dict[Slice, c_void_p]:
    """Return the GPU instances of a GPU with the handle of the first device in each."""
    handle = library.handle(index)
    now, later = c_uint32(), c_uint32()
    if library.call("nvmlDeviceGetMigMode", handle, byref(now), byref(later)) or not now.value:
        return {}
    found: dict[Slice, c_void_p] = {}
    for number in range(library.number("nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
        part = c_void_p()
        call = "nvmlDeviceGetMigDeviceHandleByIndex"
        if library.call(call, handle, c_uint32(number), byref(part)):
            continue  # places may be empty between two that are not
        instance = library.number("nvmlDeviceGetGpuInstanceId", part)
        if instance is not None:
            found.setdefault(Slice(gpu=index, id=instance), part)
    return found


def link_count(library: Library, handle: c_void_p) -> int:
    """Return how many NVLinks a GPU has, working or not."""
    for link in range(MAX_LINKS):
        if library.number("nvmlDeviceGetNvLinkState", handle, c_uint32(link)) is None:
            return link
    return MAX_LINKS


def _name(library: Library, index: int, handle: c_void_p) -> str:
    """Return the name. Raise for a lost GPU: every working GPU has a name."""
    text: Array[c_char] = create_string_buffer(96)
    code = library.call("nvmlDeviceGetName", handle, text, c_uint32(96))
    if code in LOST:
        raise lost(index, library.error_text(code))
    return "" if code else text.value.decode("utf-8", "replace")


def _text(library: Library, name: str, handle: c_void_p) -> str:
    text = create_string_buffer(96)
    if library.call(name, handle, text, c_uint32(96)):
        return ""
    return text.value.decode("utf-8", "replace")


def _memory_bytes(library: Library, handle: c_void_p) -> int:
    second = MemoryV2(version=MEMORY_V2)
    if not library.call("nvmlDeviceGetMemoryInfo_v2", handle, byref(second)):
        return int(second.total)
    first = MemoryV1()
    library.call("nvmlDeviceGetMemoryInfo", handle, byref(first))
    return int(first.total)


def _max_milliwatts(library: Library, handle: c_void_p) -> int:
    calls = ("nvmlDeviceGetPowerManagementDefaultLimit", "nvmlDeviceGetEnforcedPowerLimit")
    return next((limit for call in calls if (limit := library.number(call, handle))), 0)


def _least_milliwatts(library: Library, handle: c_void_p) -> int:
    least, most = c_uint32(), c_uint32()
    call = "nvmlDeviceGetPowerManagementLimitConstraints"
    return 0 if library.call(call, handle, byref(least), byref(most)) else int(least.value)


def _peers(library: Library, handle: c_void_p) -> tuple[str, ...]:
    found = set()
    for link in map(c_uint32, range(MAX_LINKS)):
        active = library.number("nvmlDeviceGetNvLinkState", handle, link)
        if active is None:
            break  # there are no more links, or none at all
        if active:
            kind = library.number("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link)
            remote = _bus_id(library, "nvmlDeviceGetNvLinkRemotePciInfo_v2", handle, link)
            found.add(SWITCH if kind == _REMOTE_IS_SWITCH else remote)
    return tuple(sorted(found - {""}))


def _bus_id(library: Library, name: str, *arguments: object) -> str:
    address = PciAddress()
    if library.call(name, *arguments, byref(address)):
        return ""
    return bytes(address.bus_id).decode("ascii", "replace").lower()


def _has_counters(library: Library, handle: c_void_p) -> bool:
    support = GpmSupport(version=1)
    return not library.call("nvmlGpmQueryDeviceSupport", handle, byref(support)) and bool(
        support.supported
    )
