"""What should be done about an episode of faults: its code's remedy, changed by what is near it.

Pure, and without a price: whether a drain is worth it is decided where jobs are known. What came
again is looked at more closely, since a remedy that did not help once will not help now.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from steward.model.faults import (
    NVLINK5,
    SXIDS,
    XIDS,
    Episode,
    FaultKind,
    Incident,
    Part,
    Remedy,
    meaning_of,
    nvlink5_rule,
)

__all__ = ["incidents"]

AGAIN = 3  # times on one GPU, within `AGAIN_S`
AGAIN_S = 30 * 86_400.0
_PROGRAMS = (13, 31)  # whose repetition on one spot means that it is the GPU after all
_RECOVERY = 154
_RECOVERIES = {  # what the driver itself asks for
    "0x1": Remedy.RESET_GPU,
    "0x2": Remedy.REBOOT_NODE,
    "0x3": Remedy.RESET_GPU,
    "0x4": Remedy.RESET_GPU,
}
_NOT_REMAPPED = 64
_TEARDOWN = 45
_KINDS: Mapping[FaultKind, tuple[str, Part, Remedy]] = {
    FaultKind.LOST: ("the GPU has fallen off the bus", Part.LINK, Remedy.REBOOT_NODE),
    FaultKind.FIRMWARE: (
        "the GPU's system processor does not answer",
        Part.DRIVER,
        Remedy.RESET_GPU,
    ),
    FaultKind.DRIVER: ("the driver cannot use a GPU", Part.DRIVER, Remedy.REBOOT_NODE),
    FaultKind.PCIE: ("PCI Express had an error", Part.LINK, Remedy.WATCH),
    FaultKind.HOST_MEMORY: ("the host's memory had an error", Part.HOST, Remedy.WATCH),
    FaultKind.NETWORK: ("a network adapter reports a fault", Part.NETWORK, Remedy.WATCH),
    FaultKind.GPU_STATE: ("the GPU itself reports", Part.MEMORY, Remedy.WATCH),
    # Telemetry that stops proves no fault of a GPU; what the nodes have in common is looked for.
    FaultKind.SILENCE: ("silence", Part.HOST, Remedy.WATCH),
}
_STATES: Mapping[str, Remedy] = {  # of a GPU, as it says itself
    "remap-failed": Remedy.REPLACE,
    "sram-worn": Remedy.REPLACE,
    "remap-pending": Remedy.RESET_GPU,
    "retire-pending": Remedy.RESET_GPU,
    "asks-reset": Remedy.RESET_GPU,
    "asks-gpu": Remedy.RESET_GPU,  # "GPU reset required"
    "asks-reboot": Remedy.REBOOT_NODE,
    "asks-node": Remedy.REBOOT_NODE,  # "node reboot required"
    "asks-drain": Remedy.RESET_GPU,
    "lost": Remedy.REBOOT_NODE,
}

Verdict = tuple[Remedy, str]


def incidents(episodes: Sequence[Episode]) -> list[Incident]:
    """Return an incident for each episode, in their order."""
    followers: dict[str, list[Episode]] = defaultdict(list)
    for each in episodes:
        if each.cause:
            followers[each.cause].append(each)
    earlier = _earlier(episodes)
    return [_incident(each, followers[each.id], earlier[each.id]) for each in episodes]


def _incident(each: Episode, followers: Iterable[Episode], before: int) -> Incident:
    meaning, part, remedy = _known(each)
    if each.cause:
        verdict = (Remedy.FOLLOW, "it follows from another fault near it")
    else:
        verdict = _again(each, _with_followers(each, remedy, followers), before)
    return Incident(episode=each, meaning=meaning, part=part, remedy=verdict[0], why=verdict[1])


def _known(each: Episode) -> tuple[str, Part, Remedy]:
    code = -1 if each.code is None else each.code
    if each.kind is FaultKind.SXID:
        return f"SXid {code}: a switch of NVLink reports an error", Part.LINK, _switch(each)
    if each.kind is not FaultKind.XID:
        meaning, part, remedy = _KINDS[each.kind]
        if each.kind is FaultKind.GPU_STATE:
            return (
                f"{meaning}: {each.text}",
                part,
                _STATES.get(each.detail.get("state", ""), remedy),
            )
        fatal = each.kind is FaultKind.HOST_MEMORY and each.fatal
        return f"{meaning}: {each.text}", part, Remedy.DIAGNOSE if fatal else remedy
    if code not in XIDS:
        return meaning_of(code), Part.BOARD, Remedy.WATCH
    known = XIDS[code]
    return f"Xid {code}: {known.meaning}", known.part, known.remedy


def _switch(each: Episode) -> Remedy:
    remedy = SXIDS.get(-1 if each.code is None else each.code, Remedy.WATCH)
    return Remedy.WATCH if each.fatal is False else remedy


def _with_followers(each: Episode, remedy: Remedy, followers: Iterable[Episode]) -> Verdict:
    """Take what its own lines and those that follow from it ask for."""
    found = (remedy, "the remedy of its code")
    if each.kind is FaultKind.XID and each.code == _TEARDOWN:
        found = (Remedy.RESTART_JOB, "a program was torn down, and nothing near it says why")
    elif each.kind is FaultKind.XID and each.code == _RECOVERY:
        recovery = _RECOVERIES.get(each.detail.get("recovery", ""), Remedy.NOTHING)
        found = (recovery, "the driver asks for it")
    elif each.kind is FaultKind.XID and each.code in NVLINK5:
        found = _nvlink5(each)
    elif remedy is Remedy.FOLLOW:  # what it follows from is not in the log
        found = (Remedy.RESET_GPU, "it comes with a memory error, which is not in this log")
    for other in (each, *followers):
        asked = _asked_by(other)
        if asked is not None and asked[0].rank > found[0].rank:
            found = asked
    return found


def _nvlink5(each: Episode) -> Verdict:
    """Take what the registers of its line ask for, else whether the line says that it is fatal."""
    rule = nvlink5_rule(each.detail.get("unit", ""), each.detail.get("registers", ""))
    if rule is not None and not rule.asks_driver:
        return rule.remedy, f"the registers of its line: {rule.look}"
    if each.fatal:
        return Remedy.RESET_GPU, "its line says that it is fatal"
    return Remedy.WATCH, "its line says that it is not fatal"


def _asked_by(other: Episode) -> Verdict | None:
    if other.kind is not FaultKind.XID:
        return None
    if other.code == _RECOVERY and (asked := _RECOVERIES.get(other.detail.get("recovery", ""))):
        return asked, "the driver asks for it (Xid 154)"
    if other.code == _NOT_REMAPPED:
        return Remedy.REPLACE, "rows of its memory can no longer be replaced (Xid 64)"
    return None


def _again(each: Episode, found: Verdict, before: int) -> Verdict:
    """Look at the hardware where the same came again and again."""
    times = before + 1
    if times < AGAIN or found[0].rank >= Remedy.DIAGNOSE.rank:
        return found
    if each.kind is FaultKind.XID and each.code in _PROGRAMS:
        said = f"{times} times in 30 days on one spot of this GPU: it is hardly the programs"
        return Remedy.DIAGNOSE, said
    if found[0].takes_gpu:
        return Remedy.DIAGNOSE, f"{times} times in 30 days: what was done did not help"
    return found


def _earlier(episodes: Sequence[Episode]) -> dict[str, int]:
    """Return how often each came before, in `AGAIN_S`, on the same device (and spot: programs)."""
    times: dict[tuple[object, ...], list[float]] = defaultdict(list)
    counts: dict[str, int] = {}
    for each in sorted(episodes, key=lambda other: other.t_s):
        keys = _keys(each)
        counts[each.id] = max((_recent(times[key], each.t_s) for key in keys), default=0)
        for key in keys:
            times[key].append(each.t_s)
    return counts


def _keys(each: Episode) -> list[tuple[object, ...]]:
    if each.cause or not each.is_timed:
        return []
    key = (each.node, each.device, each.kind, each.code)
    if each.kind is FaultKind.XID and each.code in _PROGRAMS:
        return [(*key, spot) for spot in sorted(each.spots)]
    return [key]


def _recent(times_s: Sequence[float], now_s: float) -> int:
    return len(times_s) - bisect_left(times_s, now_s - AGAIN_S)
