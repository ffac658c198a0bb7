"""What the example takes as given: the camera's board, the expert, and the places to train at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import isfinite
from pathlib import Path
from typing import Any

import yaml

from steward.errors import StewardError

__all__ = ["FIELD", "Device", "Facts", "Place", "read_facts"]

FIELD = Path(__file__).with_name("field.yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """The board at a camera. Energy counts above idle."""

    name: str
    idle_watts: float
    busy_watts: float
    operations_per_s: float
    frame_s: float
    radio_joules_per_byte: float
    joules_per_day: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a training can run."""

    name: str
    text: str
    slowness: float  # against a core of this machine
    memory_bytes: float
    usd_per_core_hour: float
    watts: float
    energy_overhead: float
    grams_co2_per_kwh: float
    wait_s: tuple[float, float]  # median, 90 %
    start_s: float
    minimum_s: float = 0.0  # charged at least
    joules_per_day: float | None = None  # what there is in all, frames included


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All of it."""

    device: Device
    seconds_per_label: float
    places: tuple[Place, ...]


def read_facts(file: Path = FIELD) -> Facts:
    """Return the facts of a file; all its faults are in one message."""
    try:
        given = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as fault:
        raise StewardError(f"cannot be read: {fault}", where=str(file), hint=_HINT) from fault
    faults: list[str] = []
    parts = given if isinstance(given, Mapping) else {}
    device = _checked(Device, parts.get("device"), "device", faults)
    expert = parts.get("expert")
    per_label = expert.get("seconds_per_label") if isinstance(expert, Mapping) else None
    if not _is_amount(per_label):
        faults.append("`expert.seconds_per_label` is not a number of at least 0")
    listed = parts.get("places")
    places = [
        _checked(Place, each, f"places[{i}]", faults)
        for i, each in enumerate(listed if isinstance(listed, list) else [])
    ]
    if not places:
        faults.append("`places` names no place")
    if faults:
        raise StewardError("; ".join(faults), where=str(file), hint=_HINT)
    return Facts(device=device, seconds_per_label=float(per_label or 0), places=tuple(places))


_HINT = "examples/ecology/field.yaml shows what is needed"


def _checked(kind: Any, given: object, where: str, faults: list[str]) -> Any:  # noqa: ANN401
    """Return a value of `kind`, or None with what is wrong added to `faults`."""
    if not isinstance(given, Mapping):
        faults.append(f"`{where}` is missing")
        return None
    known = {field.name: field for field in fields(kind)}
    before = len(faults)
    faults += [f"`{where}.{name}` is not known" for name in given if name not in known]
    values: dict[str, Any] = {}
    for name, field in known.items():
        if name not in given:
            optional = name in ("minimum_s", "joules_per_day") and kind is Place
            faults += [] if optional else [f"`{where}.{name}` is missing"]
        elif name in ("name", "text"):
            values[name] = str(given[name])
        elif name == "wait_s":
            values[name] = _pair(given[name], f"{where}.{name}", faults)
        elif _is_amount(given[name]):
            values[field.name] = float(given[name])
        else:
            faults.append(f"`{where}.{name}` is not a number of at least 0")
    return kind(**values) if len(faults) == before else None


def _pair(given: object, where: str, faults: list[str]) -> tuple[float, float]:
    if isinstance(given, list) and len(given) == 2 and all(map(_is_amount, given)):
        return float(given[0]), float(given[1])
    faults.append(f"`{where}` is not a list of two numbers: the median and the 90 % quantile")
    return 0.0, 0.0


def _is_amount(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and isfinite(value) and value >= 0  # type: ignore[arg-type,operator]
