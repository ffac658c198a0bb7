"""What a dcgm-exporter says of the health of GPUs: Prometheus text, from a scrape or a file.

The exporter keeps the last Xid of a GPU and never clears it, and does not say when it was: so that
is a fault without a time, and how often it came is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import isfinite

from steward.clients.dcgm_exporter import DcgmSample
from steward.model.faults import Fault, FaultKind, GpuSighting
from steward.observe.faults.forms import place_of

__all__ = ["DCGM_HEAD", "faults_of_dcgm", "sightings_of_dcgm"]

DCGM_HEAD = b"DCGM_FI_"
_XID = ("DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR")
_HOST, _UUID, _PART = ("Hostname", "hostname"), ("UUID", "gpu_uuid"), ("modelName", "model_name")


@dataclass(frozen=True, slots=True)
class _State:
    """A field that is a fault above a value."""

    state: str
    above: float
    text: str


_STATES = {
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": _State(
        "remap-failed", 0, "rows of its memory can no longer be replaced"
    ),
    "DCGM_FI_DEV_ROW_REMAP_FAILED": _State(  # its name since version 4.9
        "remap-failed", 0, "rows of its memory can no longer be replaced"
    ),
    "DCGM_FI_DEV_ROW_REMAP_PENDING": _State(
        "remap-pending", 0, "rows of its memory are replaced at the next reset"
    ),
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": _State(
        "uncorrected", 0, "memory errors that could not be corrected since the last reset"
    ),
    "DCGM_FI_DEV_RETIRED_PENDING": _State(
        "retire-pending", 0, "pages of its memory are retired at the next reset"
    ),
    "DCGM_FI_DEV_THRESHOLD_SRM": _State(
        "sram-worn", 0, "its on-chip memory has had too many errors"
    ),
}


def faults_of_dcgm(samples: Iterable[DcgmSample], *, node: str, t_s: float) -> Iterator[Fault]:
    """Yield faults; states are of the time of the scrape, the last Xid has none."""
    for each in samples:
        host = _label(each, _HOST) or node
        if each.name in _XID and isfinite(each.value) and each.value > 0:
            yield Fault(
                kind=FaultKind.XID,
                device=_device(each),
                code=int(each.value),
                text="the last Xid that DCGM knows of; it does not say when",
                detail={"source": "dcgm"},
                node=host,
            )
        known = _STATES.get(each.name)
        if known is not None and each.value > known.above:
            yield Fault(
                kind=FaultKind.GPU_STATE,
                device=_device(each),
                text=known.text,
                detail={"state": known.state},
                t_s=t_s,
                node=host,
            )


def sightings_of_dcgm(
    samples: Iterable[DcgmSample], *, node: str, t_s: float
) -> Iterator[GpuSighting]:
    """Yield which GPU is where, once each."""
    seen: set[tuple[str, str]] = set()
    for each in samples:
        key = (_label(each, _HOST) or node, _label(each, _UUID))
        if key[1] and key not in seen:
            seen.add(key)
            index = each.labels.get("gpu", "")
            yield GpuSighting(
                node=key[0],
                slot=_device(each),
                uuid=key[1],
                index=int(index) if index.isdecimal() else None,
                part=_label(each, _PART),
                t_s=t_s,
            )


def _label(each: DcgmSample, names: tuple[str, ...]) -> str:
    return next((each.labels[name] for name in names if each.labels.get(name)), "")


def _device(each: DcgmSample) -> str:
    """Return the place on the bus where the exporter has it, else the number of the GPU."""
    bus = each.labels.get("pci_bus_id", "")
    if bus.count(":") == 2:
        return place_of(bus.rpartition(".")[0] or bus)
    return f"gpu{each.labels.get('gpu', '')}"
