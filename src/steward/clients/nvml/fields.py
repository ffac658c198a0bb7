"""Fields of NVML: many values in one call, each with its own code and type."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_int32, c_void_p
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.clients.nvml.library import LOST, NEVER, Library
from steward.clients.nvml.structs import FieldValue

__all__ = [
    "FieldQuery",
    "FieldReader",
    "fast_fields",
    "rare_fields",
    "seldom_fields",
    "steady_fields",
]

Place = tuple[int, int]  # field, scope
ALL_LINKS = 2**32 - 1
NANO = 1e-9
_DTYPE = np.dtype(FieldValue)
# NVML's types of values: double, unsigned int, unsigned long, unsigned long long, long long, int,
# unsigned short. Only the low bytes of a short one mean something.
_MASKS = np.array([0, 2**32 - 1, 2**64 - 1, 2**64 - 1, 0, 0, 2**16 - 1], dtype=np.uint64)
_DOUBLE, _LONG_LONG, _INT = 0, 4, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldQuery:
    """One value: a sum of fields, from the first choice that a GPU answers.

    `per_s` turns a counter into what it grew by per second since the last reading, times `scale`.
    That is done here for counters that are not read at every tick: repeating an old reading
    would look like no growth and then like a burst.
    """

    name: str
    choices: tuple[tuple[Place, ...], ...]
    per_s: bool = False
    scale: float = 1.0
    most: float = np.inf  # a share of time is no more than all of it, whatever the clocks are


def _plain(name: str, field: int) -> FieldQuery:
    return FieldQuery(name=name, choices=(((field, 0),),))


def fast_fields() -> tuple[FieldQuery, ...]:
    """Return what changes from one tick to the next."""
    return (_plain("power.instant", 186),)


def steady_fields(*, has_counters: bool) -> tuple[FieldQuery, ...]:
    """Return the fields that are read once a second; traffic only where GPM does not measure it."""
    traffic = (
        _growth("nvlink.tx", 138, scope=ALL_LINKS),
        _growth("nvlink.rx", 139, scope=ALL_LINKS),
        _growth("pcie.tx", 197),
        _growth("pcie.rx", 198),
    )
    return (
        _plain("temperature.memory", 82),
        _throttled("throttle.power", 74),
        *(() if has_counters else traffic),
    )


def rare_fields(links: int) -> tuple[FieldQuery, ...]:
    """Return what hardly ever changes: damage, and errors of `links` NVLinks."""
    plain = (
        ("ecc.corrected", 3),
        ("ecc.uncorrected", 4),
        ("rows.remapped_correctable", 142),
        ("rows.remapped_uncorrectable", 143),
        ("rows.remap_pending", 144),
        ("rows.remap_failed", 145),
        ("pcie.replays", 94),
        ("recovery.action", 230),
    )
    # Per link from Hopper on, before that in all.
    errors = (
        ("nvlink.crc_errors", 163, (38, 45)),
        ("nvlink.replays", 161, (52,)),
        ("nvlink.recoveries", 162, (59,)),
    )
    return (
        *(_plain(name, field) for name, field in plain),
        _throttled("throttle.thermal", 75),  # ten times as long as that of power
        *(
            FieldQuery(
                name=name,
                choices=(
                    tuple((field, link) for link in range(links)),
                    tuple((old, 0) for old in totals),
                ),
            )
            for name, field, totals in (errors if links else ())
        ),
    )


def seldom_fields() -> tuple[FieldQuery, ...]:
    """Return what keeps the processor busy for long: 4 to 13 ms for the energy of an H200."""
    return (_growth("energy.mean", 83),)


def _growth(name: str, field: int, *, scope: int = 0) -> FieldQuery:
    return FieldQuery(name=name, choices=(((field, scope),),), per_s=True)


def _throttled(name: str, field: int) -> FieldQuery:
    return FieldQuery(name=name, choices=(((field, 0),),), per_s=True, scale=NANO, most=1.0)


class FieldReader:
    """Some fields of one GPU, in one call. What it refused at first is not requested again."""

    def __init__(self, library: Library, handle: c_void_p, wanted: Sequence[FieldQuery]) -> None:
        self._function = library.function("nvmlDeviceGetFieldValues")
        self._handle = handle
        self.code = 0
        kept = self._answered(wanted)
        self.names = tuple(field.name for field, _ in kept)
        self._batch([place for _, places in kept for place in places])
        lengths = [len(places) for _, places in kept]
        self._starts = np.cumsum([0, *lengths[:-1]], dtype=np.intp)
        self._rate = np.array([field.per_s for field, _ in kept], dtype=np.bool_)
        self._rates = bool(self._rate.any())
        self._scale = np.array([field.scale for field, _ in kept])
        self._most = np.array([field.most for field, _ in kept])
        self._sums = len(self._view) > len(kept)
        self._before = np.full(len(kept), np.nan)
        self._before_s = np.nan

    def read(self, into: NDArray[np.float64], now_s: float) -> int:
        """Read once; return the code of a GPU that is lost, else 0."""
        code = self._call()
        if code:
            into[:] = np.nan
            return code if code in LOST else 0
        codes = self._view["code"]
        values = self._numbers()
        failed = codes.any()
        if failed:
            if LOST.intersection(codes.tolist()):
                into[:] = np.nan
                return 15
            values[codes != 0] = np.nan
        if self._sums:
            values = self._added(values)
        if self._rates:
            grown = (values - self._before) * self._scale / (now_s - self._before_s)
            grown = np.minimum(grown, self._most)
            self._before, self._before_s = values, now_s
            values = np.where(self._rate, np.where(grown >= 0, grown, np.nan), values)
        into[:] = values
        return 0

    def _answered(self, wanted: Sequence[FieldQuery]) -> list[tuple[FieldQuery, list[Place]]]:
        """Request every field once and keep those that are not refused for good."""
        every = [place for field in wanted for choice in field.choices for place in choice]
        self._batch(every)
        self.code = self._call()
        if self.code in NEVER or self.code in LOST:
            return []
        # Where the whole call failed for a moment, nothing is known to be refused.
        codes = [0] * len(every) if self.code else self._view["code"].tolist()
        refused = {place for place, code in zip(every, codes, strict=True) if code in NEVER}
        choices = ((f, [p for p in c if p not in refused]) for f in wanted for c in f.choices)
        kept: dict[str, tuple[FieldQuery, list[Place]]] = {}
        for field, places in choices:
            if places:
                kept.setdefault(field.name, (field, places))
        return list(kept.values())

    def _batch(self, places: Sequence[Place]) -> None:
        self._array = (FieldValue * len(places))()
        for value, (field, scope) in zip(self._array, places, strict=True):
            value.field, value.scope = field, scope
        self._arguments = (self._handle, c_int32(len(places)), self._array)
        self._view = (
            np.frombuffer(memoryview(self._array), dtype=_DTYPE) if places else np.empty(0, _DTYPE)
        )

    def _call(self) -> int:
        if self._function is None or not len(self._view):
            return 3
        return int(self._function(*self._arguments))

    def _numbers(self) -> NDArray[np.float64]:
        kind, raw = self._view["kind"], self._view["value"]
        values: NDArray[np.float64] = (raw & _MASKS[np.minimum(kind, 6)]).astype(np.float64)
        odd = _MASKS[np.minimum(kind, 6)] == 0
        if odd.any():
            whole = np.ascontiguousarray(raw)
            low = (whole & np.uint64(2**32 - 1)).astype(np.uint32)
            values = np.where(kind == _DOUBLE, whole.view(np.float64), values)
            values = np.where(kind == _LONG_LONG, whole.view(np.int64), values)
            values = np.where(kind == _INT, low.view(np.int32), values)
        return values

    def _added(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Add up the fields of each name; a link without a value is left out."""
        known = np.isfinite(values)
        sums = np.add.reduceat(np.where(known, values, 0.0), self._starts)
        return np.where(np.add.reduceat(known.astype(np.intp), self._starts) > 0, sums, np.nan)
