"""What is believed of the sites ahead: waits, carbon and prices by the hour, interruptions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import TypeVar

from steward.errors import StewardError
from steward.model.planning.catalog import CatalogSite, Queue
from steward.model.planning.plan import Range

__all__ = ["Outlook", "place_of"]

Value = TypeVar("Value")


def place_of(site: CatalogSite, queue: Queue) -> str:
    """Return the name of a queue among those of all sites."""
    return f"{site.name}/{queue.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What is not in it is unknown. Keys are `site/queue`, `site`, or the region of a site.

    Hours follow one another from `hours_from_s` on, which is not after the time of the plan.
    """

    waits: Mapping[str, Range] = field(default_factory=dict)  # of a job that is submitted now
    grams_by_hour: Mapping[str, Sequence[float]] = field(default_factory=dict)  # of CO2 per kWh
    price_by_hour: Mapping[str, Sequence[float]] = field(default_factory=dict)  # 1: as the rule
    hours_from_s: float = 0.0
    interrupted_every_s: Mapping[str, float] = field(default_factory=dict)  # on average, one node

    def __post_init__(self) -> None:
        faults = list(self._faults())
        if faults:
            hint = "waits and hours are 0 or more, and a node runs for a while before it is stopped"
            raise StewardError("; ".join(faults), where="the outlook of sites", hint=hint)

    def _faults(self) -> Iterator[str]:
        for name, wait in self.waits.items():
            if wait.low < 0 or not isfinite(wait.high):
                yield f"the wait at {name} is {wait.low} to {wait.high} s"
        for hours in (self.grams_by_hour, self.price_by_hour):
            for name, values in hours.items():
                if not len(values) or not all(0 <= each < inf for each in values):
                    yield f"the hours of {name} are empty, negative or not finite"
        for name, every_s in self.interrupted_every_s.items():
            if not 0 < every_s < inf:
                yield f"{name} is interrupted every {every_s} s"

    def wait_at(self, site: CatalogSite, queue: Queue) -> Range | None:
        """Return the wait in a queue; None: nobody knows."""
        return _most_special(self.waits, site, queue)

    def prices_at(self, site: CatalogSite, queue: Queue) -> Sequence[float] | None:
        """Return what an hour costs against the rule's price; None: always the same."""
        return _most_special(self.price_by_hour, site, queue)

    def grams_at(self, site: CatalogSite) -> Sequence[float] | None:
        """Return the carbon of the hours ahead; None: nobody knows."""
        found = self.grams_by_hour.get(site.name)
        return self.grams_by_hour.get(site.region) if found is None else found

    def interrupted_every(self, site: CatalogSite, queue: Queue) -> float | None:
        """Return how long a node runs there before others stop it; None: nobody knows."""
        return _most_special(self.interrupted_every_s, site, queue)


def _most_special(values: Mapping[str, Value], site: CatalogSite, queue: Queue) -> Value | None:
    for name in (place_of(site, queue), site.name, site.region):
        if name in values:
            return values[name]
    return None
