"""Faults of one kind on one device that follow one another closely are one episode."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isnan

from steward.model.faults import Episode, Fault, Inventory
from steward.model.identity import stable_id

__all__ = ["GAPS_S", "episodes", "sensitivity"]

GAP_S = 5.0  # as in the study of Delta's GPUs; `sensitivity` shows how much hangs on it
GAPS_S = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0)
_PLACES = 5

Key = tuple[str, str, str, int]


def episodes(
    faults: Iterable[Fault],
    *,
    gap_s: float = GAP_S,
    inventory: Inventory | None = None,
) -> list[Episode]:
    """Return episodes by time; those without one come last.

    The inventory names the GPU that was at a node's place on the bus at that time, so that one that
    moved stays one. Faults without a time are one episode.
    """
    names = inventory or Inventory()
    found = [
        _episode(key, part)
        for key, group in _grouped(faults, names).items()
        for part in _split(group, gap_s)
    ]
    return sorted(found, key=lambda each: (isnan(each.t_s), each.t_s, each.id))


def sensitivity(faults: Sequence[Fault], inventory: Inventory | None = None) -> dict[float, int]:
    """Return how many episodes there are, by the gap that ends one."""
    groups = _grouped(faults, inventory or Inventory()).values()
    return {gap_s: sum(len(_split(group, gap_s)) for group in groups) for gap_s in GAPS_S}


def _grouped(faults: Iterable[Fault], names: Inventory) -> dict[Key, list[Fault]]:
    groups: dict[Key, list[Fault]] = {}
    for each in faults:
        device = names.at(each.node, each.device, each.t_s) or each.device
        code = -1 if each.code is None else each.code
        groups.setdefault((each.node, device, each.kind.value, code), []).append(each)
    return groups


def _split(group: list[Fault], gap_s: float) -> list[list[Fault]]:
    timed = sorted((each for each in group if not isnan(each.t_s)), key=lambda each: each.t_s)
    parts: list[list[Fault]] = []
    for each in timed:
        if parts and each.t_s - parts[-1][-1].t_s <= gap_s:
            parts[-1].append(each)
        else:
            parts.append([each])
    untimed = [each for each in group if isnan(each.t_s)]
    return [*parts, untimed] if untimed else parts


def _episode(key: Key, part: list[Fault]) -> Episode:
    node, device, _, _ = key
    first, last = part[0], part[-1]
    processes = {each.detail.get("pid", "") for each in part}
    return Episode(
        id=stable_id("f", *key, first.t_s, first.file, first.line),
        kind=first.kind,
        code=first.code,
        node=node,
        device=device,
        t_s=first.t_s,
        until_s=last.t_s,
        count=len(part),
        fatal=_worst([each.fatal for each in part]),
        text=first.text,
        detail=first.detail,
        processes=frozenset(processes - {""}),
        spots=frozenset(_spot(each.detail) for each in part) - {""},
        places=tuple(f"{each.file}:{each.line}" for each in part[:_PLACES]),
    )


def _worst(said: list[bool | None]) -> bool | None:
    known = [each for each in said if each is not None]
    return any(known) if known else None


def _spot(detail: Mapping[str, str]) -> str:
    """Return where on the device a fault was: an SM, or a link."""
    if "sm" in detail:
        return f"gpc{detail['gpc']}/tpc{detail['tpc']}/sm{detail['sm']}"
    return f"link{detail['link']}" if "link" in detail else ""
