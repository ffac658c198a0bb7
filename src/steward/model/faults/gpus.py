"""Which GPU is where, over time: one name per GPU, whatever a log calls it.

A GPU has a serial number and a UUID that stay, and a slot (node and place on the bus) that does
not: boards are swapped, hosts renamed. All rates, forecasts and decisions count by this name.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, isnan, nan
from typing import TypeVar

__all__ = ["GpuSighting", "GpuStay", "GpuUnit", "Inventory", "inventory_of", "short_host"]

_K = TypeVar("_K")
Slot = tuple[str, str]  # node, place on the bus


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSighting:
    """A GPU was at a slot at a time, and until `until_s` where a table says so.

    A number of the GPU on its node may be known beside the place on the bus, or instead of it.
    """

    node: str
    slot: str
    serial: str = ""
    uuid: str = ""
    index: int | None = None
    part: str = ""  # what it is: NVIDIA H100 80GB HBM3
    batch: str = ""  # generation or delivery, as far as an inventory tells
    t_s: float = nan
    until_s: float = nan


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUnit:
    """One GPU. `name` is its serial number where known, else its UUID."""

    name: str
    serial: str = ""
    uuids: frozenset[str] = frozenset()
    part: str = ""
    batch: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuStay:
    """One GPU at one slot from one time to another."""

    gpu: str
    node: str
    slot: str
    index: int | None
    from_s: float
    to_s: float


@dataclass(frozen=True)
class Inventory:
    """All GPUs that are known, and where they were when."""

    units: Mapping[str, GpuUnit] = field(default_factory=dict)
    stays: tuple[GpuStay, ...] = ()

    def at(self, node: str, slot: str, t_s: float) -> str:
        """Return the name of the GPU at a slot at a time; empty where it is not known.

        Before the first sighting at a slot, the first GPU seen there is meant if it was nowhere
        else then; without a time, the only one that was ever seen there.
        """
        stays = self._by_slot.get((short_host(node), slot), ())
        if not stays:
            return ""
        if isnan(t_s):
            names = {each.gpu for each in stays}
            return stays[0].gpu if len(names) == 1 else ""
        place = bisect_right(stays, t_s, key=lambda each: each.from_s) - 1
        if place >= 0:
            return stays[place].gpu if t_s < stays[place].to_s else ""
        first = stays[0].gpu
        elsewhere = any(each.from_s <= t_s < each.to_s for each in self._by_gpu[first])
        return "" if elsewhere else first

    def slot_of(self, node: str, index: int, t_s: float) -> str:
        """Return the slot of the GPU that has a number on its node; empty if it is not known."""
        for each in self._by_node.get(short_host(node), ()):
            if each.index == index and (isnan(t_s) or each.from_s <= t_s < each.to_s):
                return each.slot
        return ""

    def name_of(self, label: str) -> str:
        """Return the name of a GPU by its serial number or a UUID; the label where unknown."""
        return self._names.get(label.casefold(), label)

    def on(self, node: str) -> tuple[GpuStay, ...]:
        """Return all stays at a node."""
        return self._by_node.get(short_host(node), ())

    @cached_property
    def _names(self) -> Mapping[str, str]:
        return {
            label.casefold(): unit.name
            for unit in self.units.values()
            for label in (unit.name, unit.serial, *unit.uuids)
            if label
        }

    @cached_property
    def _by_slot(self) -> Mapping[Slot, tuple[GpuStay, ...]]:
        return _grouped(self.stays, lambda each: (short_host(each.node), each.slot))

    @cached_property
    def _by_node(self) -> Mapping[str, tuple[GpuStay, ...]]:
        return _grouped(self.stays, lambda each: short_host(each.node))

    @cached_property
    def _by_gpu(self) -> Mapping[str, tuple[GpuStay, ...]]:
        return _grouped(self.stays, lambda each: each.gpu)


def inventory_of(sightings: Iterable[GpuSighting]) -> Inventory:
    """Return units and stays: a GPU stays where it was seen until it, or its slot, is seen anew.

    A UUID and a serial number that were seen together are one GPU, also where each is alone.
    """
    given = [each for each in sightings if each.serial or each.uuid]
    names = _names(given)
    units: dict[str, GpuUnit] = {}
    seen: list[tuple[str, GpuSighting]] = []
    for each in given:
        name = names[_label(each)]
        units[name] = _unit(units.get(name), name, each)
        seen.append((name, each))
    return Inventory(units=units, stays=tuple(_stays(seen)))


def short_host(node: str) -> str:
    """Return a host's name without its domain, in small letters; addresses stay as they are.

    >>> short_host("GPU-07.cluster.example.org"), short_host("10.1.2.3")
    ('gpu-07', '10.1.2.3')
    """
    first, _, rest = node.partition(".")
    return node if first.isdecimal() and rest else first.lower()


def _label(each: GpuSighting) -> str:
    return f"serial {each.serial}" if each.serial else f"uuid {each.uuid}"


def _names(sightings: Sequence[GpuSighting]) -> dict[str, str]:
    """Return the name of each label; what was seen with a serial number has that."""
    serial_of = {each.uuid: each.serial for each in sightings if each.serial and each.uuid}
    return {_label(each): each.serial or serial_of.get(each.uuid, each.uuid) for each in sightings}


def _unit(known: GpuUnit | None, name: str, each: GpuSighting) -> GpuUnit:
    known = known or GpuUnit(name=name)
    return replace(
        known,
        serial=known.serial or each.serial,
        uuids=known.uuids | ({each.uuid} if each.uuid else set()),
        part=known.part or each.part,
        batch=known.batch or each.batch,
    )


def _stays(seen: Sequence[tuple[str, GpuSighting]]) -> list[GpuStay]:
    """Return when each GPU was where, by time; sightings without a time hold for all time."""
    ordered = sorted(seen, key=lambda each: (_since(each[1]), each[1].node, each[1].slot))
    open_at: dict[Slot, int] = {}
    open_of: dict[str, int] = {}
    found: list[GpuStay] = []
    for name, each in ordered:
        slot = (short_host(each.node), each.slot)
        before = [i for i in (open_at.get(slot), open_of.get(name)) if i is not None]
        if isnan(each.until_s) and any(_is_same(found[i], name, slot) for i in before):
            continue
        for i in before:
            end_s = max(_since(each), found[i].from_s)
            found[i] = replace(found[i], to_s=min(found[i].to_s, end_s))
        until_s = inf if isnan(each.until_s) else each.until_s
        stay = GpuStay(
            gpu=name,
            node=each.node,
            slot=each.slot,
            index=each.index,
            from_s=_since(each),
            to_s=until_s,
        )
        open_at[slot] = open_of[name] = len(found)
        found.append(stay)
    return [each for each in found if each.to_s > each.from_s]


def _since(each: GpuSighting) -> float:
    return -inf if isnan(each.t_s) else each.t_s


def _is_same(stay: GpuStay, gpu: str, slot: Slot) -> bool:
    return stay.gpu == gpu and (short_host(stay.node), stay.slot) == slot and stay.to_s == inf


def _grouped(
    stays: Iterable[GpuStay], key: Callable[[GpuStay], _K]
) -> dict[_K, tuple[GpuStay, ...]]:
    groups: dict[_K, list[GpuStay]] = defaultdict(list)
    for each in sorted(stays, key=lambda stay: stay.from_s):
        groups[key(each)].append(each)
    return {name: tuple(group) for name, group in groups.items()}
