"""What the columns of wide telemetry measure, and of what: Reveal's names, and all vocabularies.

Names become ours where they are known, so that columns of any tool land in the same groups. A
Reveal column is `<Source>:<metric>[.<index|->][.<interface>].<host>[<unit>]`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from steward.model.metric import COUNTER, KIB, Alias
from steward.model.metrics import METRICS
from steward.model.metrics.columns import TRIED, ColumnNames

__all__ = ["Column", "read_names"]

_REVEAL = re.compile(r"^(?P<source>[A-Za-z_]+):\s?(?P<body>.+?)\s*(?:\[(?P<unit>[^\[\]]*)\])?$")
_LABELS = re.compile(r"^(?P<name>[A-Za-z_:][\w:.]*)\{(?P<labels>[^{}]*)\}$")
_LABEL = re.compile(r"""(\w+)\s*=\s*["']?([^"',}]*)""")
_FIELD_ID = re.compile(
    r"^dcgm[._-]?(?:fi[._-])?(?:field[._-])?(\d{1,5})(?:[._:-](\d{1,4}))?$", re.I
)
_DEVICE_BEHIND = re.compile(r"^(?P<name>.+?)[._:/-](?:gpu)?(?P<number>\d{1,4})$", re.I)
_INDEX = re.compile(r"^(?P<name>.+?)\.(?P<index>-|\d{1,4})\.(?P<rest>.+)$")
_HOST_LABELS = ("hostname", "node", "host", "instance")

_PERCENT = 0.01
# Reveal's source and metric, as an expression: our name, scale. The first that fits is taken.
_REVEAL_NAMES: tuple[tuple[str, str, float], ...] = (
    (r"GPU:utilization\.gpu", "gpu.busy_share", _PERCENT),
    (r"GPU:utilization\.memory", "gpu.copy.busy_share", _PERCENT),
    (r"GPU:utilization\.(jpeg|ofa|encoder|decoder)", r"gpu.\1.busy_share", _PERCENT),
    (r"GPU:power\.draw(\.instant)?", "gpu.power_watts", 1.0),
    (r"GPU:temperature\.gpu", "gpu.temperature_celsius", 1.0),
    (r"GPU:temperature\.memory", "gpu.memory.temperature_celsius", 1.0),
    (r"GPU:memory\.used", "gpu.memory.used_bytes", 2.0**20),
    (r"GPU:memory\.free", "gpu.memory.free_bytes", 2.0**20),
    (r"GPU:clocks\.(current\.)?sm", "gpu.clock.sm_hz", 1e6),
    (r"GPU:clocks\.(current\.)?mem(ory)?", "gpu.clock.memory_hz", 1e6),
    (r"GPU:fan\.speed", "gpu.fan.speed_share", _PERCENT),
    (r"GPU:ecc\.errors\.corrected.*", "gpu.ecc.corrected_count", 1.0),
    (r"GPU:ecc\.errors\.uncorrected.*", "gpu.ecc.uncorrected_count", 1.0),
    (r"Turbostat:Busy%#all", "host.cpu.busy_share", _PERCENT),
    (r"Turbostat:Busy%", "cpu.busy_share", _PERCENT),
    (r"Perf:IPC", "host.cpu.instructions_per_cycle_ratio", 1.0),
    (r"Perf:StallRatio", "host.cpu.backend_stall_share", _PERCENT),
    (r"Perf:CacheUtilization", "host.cpu.cache_use_share", _PERCENT),
    (r"Memory:MemoryUtilization", "host.memory.used_share", _PERCENT),
    (r"Memory:MemAvailable", "host.memory.available_bytes", KIB),
    (r"Memory:MemTotal", "host.memory.limit_bytes", KIB),
    (r"Meminfo_diff:MemAvailable", "host.memory.available_change_bytes", KIB),
    (r"NetworkInterStat_diff:rx_bytes", "host.network.receive_bytes_per_s", 1.0),
    (r"NetworkInterStat_diff:tx_bytes", "host.network.transmit_bytes_per_s", 1.0),
    (r"NetworkTCPRetrans_diff:TcpRetransSegs", "host.tcp.retransmits_per_s", 1.0),
    (r"Storage_diff:sectors_read", "host.disk.read_bytes_per_s", 512.0),
    (r"Storage_diff:sectors_written", "host.disk.write_bytes_per_s", 512.0),
)
_SOURCES = (
    "GPU", "Turbostat", "Perf", "Memory", "Meminfo_diff", "Storage", "Storage_diff",
    "NetworkInterStat", "NetworkInterStat_diff", "NetworkUtilization", "NetworkProtocolCounts",
    "NetworkTCPRetrans", "NetworkTCPRetrans_diff", "Network",
)  # fmt: skip
_KEPT_BEHIND = ("gpu", "memory", "jpeg", "ofa", "draw", "instant", "encoder", "decoder", "sm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: `metric` is our name for it, "" where none is known.

    Of a counter, `metric` is the rate that it becomes. `generic` is a name without device, host
    and unit, the same on all hosts, known or not. `per_sample`: what was counted since the last
    sample, and becomes a rate by the time between samples.
    """

    place: int  # in the header
    name: str
    generic: str
    metric: str = ""
    scale: float = 1.0
    counter: bool = False
    per_sample: bool = False
    device: str = ""
    host: str = ""


def read_names(names: Sequence[str]) -> tuple[Column, ...]:
    """Return what each column is."""
    return _read_names(tuple(names))


@lru_cache(maxsize=16)  # files of one host have the same columns
def _read_names(names: tuple[str, ...]) -> tuple[Column, ...]:
    hosts = _hosts(names)
    return tuple(_column(place, name, hosts) for place, name in enumerate(names))


def _column(place: int, name: str, hosts: set[str]) -> Column:
    reveal = _REVEAL.match(name)
    if reveal and reveal["source"] in _SOURCES:
        return _of_reveal(place, name, reveal, hosts)
    labels: dict[str, str] = {}
    plain = name
    if labelled := _LABELS.match(name):
        plain = labelled["name"]
        labels = {key.lower(): value for key, value in _LABEL.findall(labelled["labels"])}
    host = next((labels[key] for key in _HOST_LABELS if key in labels), "")
    others = ",".join(f"{k}={v}" for k, v in sorted(labels.items()) if k not in _HOST_LABELS)
    device = f"gpu{labels['gpu']}" if labels.get("gpu") else others
    return _known(place, name, plain, device, host) or Column(
        place=place, name=name, generic=plain, device=device, host=host
    )


def _known(place: int, name: str, plain: str, device: str, host: str) -> Column | None:
    """Look a name up: as it is, with its device in front, by field id, with its device behind."""
    found = _vocabularies().column(plain)
    if found.metric is None and (number := _FIELD_ID.match(plain)):
        alias = _dcgm_fields().get(int(number[1]))
        if alias is None:
            return None
        device = device or (f"gpu{number[2]}" if number[2] else "")
        found = _vocabularies().column(alias.name)
    if found.metric is None and (behind := _DEVICE_BEHIND.match(plain)):
        found = _vocabularies().column(behind["name"])
        device = device or f"gpu{behind['number']}"
    if found.metric is None:
        return None
    counter = found.metric.kind is COUNTER and bool(found.metric.rate)
    metric = found.metric.rate if counter else found.metric.name
    return Column(
        place=place,
        name=name,
        generic=metric,
        metric=metric,
        scale=found.scale,
        counter=counter,
        device=device or found.device,
        host=host,
    )


@cache
def _vocabularies() -> ColumnNames:
    return ColumnNames(TRIED, {})


@cache
def _dcgm_fields() -> dict[int, Alias]:
    return {alias.field_id: alias for each in METRICS for alias in each.aliases if alias.field_id}


# -- Reveal ------------------------------------------------------------------------------------


def _of_reveal(place: int, name: str, match: re.Match[str], hosts: set[str]) -> Column:
    source, body = match["source"], match["body"]
    host = next((each for each in hosts if body.endswith(f".{each}")), body.rpartition(".")[2])
    body = body.removesuffix(f".{host}")
    index = _INDEX.match(f"{body}.x")
    number = index["index"] if index else ""
    metric = index["name"] if index else body
    if not index and "." in metric and metric.rpartition(".")[2] not in _KEPT_BEHIND:
        metric, _, number = metric.rpartition(".")  # an interface or a disk
    generic = f"{source}:{metric}" + ("#all" if number == "-" else "")
    ours, scale = _ours(generic)
    return Column(
        place=place,
        name=name,
        generic=generic,
        metric=ours,
        scale=scale,
        per_sample="_diff:" in generic and ours.endswith("_per_s"),
        device="" if number in ("", "-") else f"{source.lower()}{number}",
        host=host,
    )


@cache
def _ours(generic: str) -> tuple[str, float]:
    for pattern, ours, scale in _REVEAL_NAMES:
        if match := re.fullmatch(pattern, generic):
            return match.expand(ours), scale
    return "", 1.0


def _hosts(names: Sequence[str]) -> set[str]:
    """Return the hosts that a file's columns end with: the ends that most of them share."""
    ends: dict[str, int] = {}
    for name in names:
        match = _REVEAL.match(name)
        if match and match["source"] in _SOURCES and "." in match["body"]:
            end = match["body"].rpartition(".")[2]
            ends[end] = ends.get(end, 0) + 1
    most = max(ends.values(), default=0)
    return {end for end, count in ends.items() if count * 4 >= most}
