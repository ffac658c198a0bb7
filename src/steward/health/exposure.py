"""How long which GPUs were watched: without it a count is no rate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite, isnan

import numpy as np
from numpy.typing import NDArray

from steward.model.faults import Episode, Inventory, short_host
from steward.observe.accounting import Accounts

__all__ = ["Exposure", "exposure_of", "window_of"]

HOUR_S = 3600.0
Window = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """GPUs by name and how long each was watched; `basis` says where that is from."""

    gpus: tuple[str, ...]
    hours: NDArray[np.float64]
    window_s: Window
    basis: str

    def counts(self, episodes: Iterable[Episode]) -> NDArray[np.int64]:
        """Return the episodes of each GPU; those of GPUs that are not listed are added at the end.

        Rates need as many counts as exposures: see `padded`.
        """
        found = Counter(unit_of(each) for each in episodes)
        return np.array([found.get(gpu, 0) for gpu in self.gpus], np.int64)


def unit_of(each: Episode) -> str:
    """Return the name that an episode's GPU is counted by: its own, or its place on its node."""
    is_place = ":" in each.device or each.device.startswith(("gpu", "nvswitch", "mc", "driver"))
    return f"{short_host(each.node)} {each.device}" if is_place else each.device


def window_of(episodes: Sequence[Episode], accounts: Accounts) -> Window:
    """Return from when to when anything is known; (0, 0) where nothing has a time."""
    times = [t for each in episodes if each.is_timed for t in (each.t_s, each.until_s)]
    times += [t for job in accounts.jobs for t in (job.start_s, job.end_s) if isfinite(t)]
    times += [t for each in accounts.spells for t in (each.from_s, each.to_s) if isfinite(t)]
    return (min(times), max(times)) if times else (0.0, 0.0)


def exposure_of(
    episodes: Sequence[Episode],
    inventory: Inventory,
    accounts: Accounts,
    *,
    window_s: Window,
    gpus: int | None = None,
) -> Exposure:
    """Return the exposure by the best source there is: inventory, nodes, or a number of GPUs."""
    seen = sorted({unit_of(each) for each in episodes})
    hours = max(0.0, window_s[1] - window_s[0]) / HOUR_S
    if gpus is not None:
        names = [*seen, *(f"other GPU {i + 1}" for i in range(max(0, gpus - len(seen))))]
        spent = np.full(len(names), hours * gpus / max(1, len(names)))
        basis = f"{gpus:,} GPUs, as given, all of the time"
    elif any(isfinite(each.from_s) for each in inventory.stays) and len(inventory.units) > 1:
        names, spent = _by_stays(inventory, seen, window_s)
        basis = f"the stays of {len(inventory.units):,} GPUs in the inventory"
    elif any(accounts.node_gpus.values()):
        names, spent = _by_nodes(accounts, seen, hours)
        basis = f"the GPUs of {len(accounts.node_gpus):,} nodes, all of the time"
    else:
        names, spent = seen, np.zeros(len(seen))
        basis = "unknown: give --gpus, an inventory or the nodes, or there are no rates"
    return Exposure(gpus=tuple(names), hours=spent, window_s=window_s, basis=basis)


def _by_stays(
    inventory: Inventory, seen: Sequence[str], window_s: Window
) -> tuple[list[str], NDArray[np.float64]]:
    spent = dict.fromkeys(sorted(inventory.units), 0.0)
    for each in inventory.stays:
        inside = min(each.to_s, window_s[1]) - max(each.from_s, window_s[0])
        spent[each.gpu] += max(0.0, inside) / HOUR_S
    for name in seen:  # what no inventory knows was not watched, as far as is known
        spent.setdefault(name, 0.0)
    return list(spent), np.array(list(spent.values()))


def _by_nodes(
    accounts: Accounts, seen: Sequence[str], hours: float
) -> tuple[list[str], NDArray[np.float64]]:
    """Name the GPUs of nodes by what was seen of them; the others of a node have numbers."""
    names: list[str] = []
    for node, count in sorted(accounts.node_gpus.items()):
        own = [each for each in seen if each.partition(" ")[0] == short_host(node)]
        names += [*own, *(f"{node} other {i + 1}" for i in range(max(0, count - len(own))))]
    return names, np.full(len(names), hours)


def is_empty(window_s: Window) -> bool:
    """Return whether a window holds no time."""
    return isnan(window_s[0]) or not window_s[1] > window_s[0]
