"""When frames arrive: Poisson by hour, site and species; seven in ten show nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecology.animals import BLANK, NEWCOMER, SPECIES, Species
from ecology.scenes import SITES, Scene, is_night

__all__ = ["NEWS_WEEK", "Frame", "Season", "animal_rates", "frames_of"]

BLANK_SHARE = 0.7
NEWS_WEEK = 3  # a new site and a new species from its first day
DAYS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Season:
    """How long is recorded, how much arrives, and from which seed."""

    seed: int
    weeks: int = 6
    frames_per_day: float = 150.0  # of one camera


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One picture of a camera. `truth` is known to the expert alone."""

    day: int  # from 0; days before the first week are negative
    hour: int
    site: str
    truth: str
    image: NDArray[np.uint8]

    @property
    def week(self) -> int:
        """Return the week, from 1; 0 is the one before the season."""
        return self.day // DAYS + 1


def animal_rates(species: Species) -> NDArray[np.float64]:
    """Return how often it is seen in each hour of a day; the sum is its share."""
    hours = np.arange(24)
    night = np.array([is_night(int(hour)) for hour in hours])
    dusk = np.isin(hours, (5, 6, 7, 18, 19, 20, 21))
    active = {"day": ~night, "night": night, "dusk": dusk}[species.active]
    rates = np.where(active, 1.0, 0.25)
    return np.asarray(species.share * rates / rates.sum())


def frames_of(season: Season) -> Iterator[Frame]:
    """Yield the frames of the week before the season and of all its weeks, in order of time."""
    scene_seed, arrival_seed = np.random.SeedSequence(season.seed).spawn(2)
    arrivals = np.random.default_rng(arrival_seed)
    scenes = [
        Scene(site, np.random.default_rng(seed))
        for site, seed in zip(SITES, scene_seed.spawn(len(SITES)), strict=True)
    ]
    for day in range(-DAYS, season.weeks * DAYS):
        week = day // DAYS + 1
        there = [scene for scene in scenes if week >= scene.site.first_week or
                 (scene.site.first_week == 1)]  # fmt: skip
        for hour in range(24):
            yield from _hour(there, season, arrivals, day=day, hour=hour)


def _hour(
    scenes: list[Scene], season: Season, arrivals: np.random.Generator, *, day: int, hour: int
) -> Iterator[Frame]:
    week = day // DAYS + 1
    known = [each for each in SPECIES if week >= NEWS_WEEK or each.name != NEWCOMER]
    rates = np.array([animal_rates(each)[hour] for each in known])
    rates *= (1 - BLANK_SHARE) * season.frames_per_day / sum(each.share for each in known)
    blank = BLANK_SHARE * season.frames_per_day / 24
    for scene in scenes:
        counts = arrivals.poisson([*rates, blank])
        names = np.repeat([*(each.name for each in known), BLANK], counts)
        arrivals.shuffle(names)
        for name in names.tolist():
            image = scene.frame(None if name == BLANK else name, hour)
            yield Frame(day=day, hour=hour, site=scene.site.name, truth=name, image=image)
