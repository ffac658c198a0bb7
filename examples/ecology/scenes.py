"""What a camera trap sees: the ground of its site by day and by night, wind, and an animal or none.

Every frame has 64 by 64 pixels. By night the camera sees infra-red: grey, dim and noisy.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from ecology.animals import SPECIES, draw

__all__ = ["SIDE", "SITES", "Scene", "Site", "is_night"]

SIDE = 64
PATCH = 44  # an animal is drawn in a square of this side
Floats = NDArray[np.float32]
Image = NDArray[np.uint8]
_BY_NAME = {each.name: each for each in SPECIES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A camera and its ground."""

    name: str
    ground: tuple[float, float, float]
    growth: tuple[float, float, float]  # the colour of what grows there
    roughness: float  # how far the ground differs from place to place
    nearness: float  # how large animals look
    wind: float  # the share of blank frames in which something moves
    noise: float
    first_week: int = 1


SITES = (
    Site(name="clearing", ground=(112, 118, 72), growth=(84, 108, 52), roughness=14,
         nearness=1.25, wind=0.3, noise=5),
    Site(name="stream", ground=(98, 96, 88), growth=(72, 92, 60), roughness=22,
         nearness=1.15, wind=0.35, noise=5),
    Site(name="scree", ground=(156, 140, 120), growth=(140, 128, 84), roughness=22,
         nearness=1.05, wind=0.3, noise=6, first_week=3),
)  # fmt: skip


def is_night(hour: int) -> bool:
    """Return True if the camera uses its infra-red lamp at this hour."""
    return hour < 6 or hour >= 20


@dataclass(slots=True)
class Scene:
    """One camera: its ground, which stays, and its random numbers."""

    site: Site
    random: np.random.Generator
    _ground: Floats = field(init=False)
    _lamp: Floats = field(init=False)

    def __post_init__(self) -> None:
        """Make the ground once."""
        rough = self.random.standard_normal((SIDE, SIDE, 1)).astype(np.float32)
        fine, coarse = gaussian_filter(rough, (1, 1, 0)), gaussian_filter(rough, (6, 6, 0))
        relief = fine / fine.std() * 0.5 + coarse / coarse.std()
        colour = np.asarray(self.site.ground, np.float32)
        self._ground = colour + relief * self.site.roughness
        at = (np.arange(SIDE) - SIDE / 2) / SIDE
        self._lamp = np.exp(-2.0 * (at[:, None] ** 2 + at[None, :] ** 2)).astype(np.float32)

    def frame(self, animal: str | None, hour: int) -> Image:
        """Return what the camera sees at `hour`, with an animal or blank."""
        random, night = self.random, is_night(hour)
        seen = self._ground.copy()
        if random.random() < (self.site.wind if animal is None else self.site.wind / 3):
            for _ in range(random.integers(1, 4)):
                self._add_growth(seen)
        if animal is not None:
            self._add_animal(seen, animal, night=night)
        if night:
            seen = 0.6 * seen.mean(axis=2, keepdims=True) * self._lamp[..., None]
            seen = np.repeat(seen, 3, axis=2)
        seen *= random.uniform(0.85, 1.15)
        grain = random.standard_normal((SIDE, SIDE, 1 if night else 3), np.float32)
        seen += grain * self.site.noise * (1.1 if night else 1.0)
        return np.clip(seen, 0, 255).astype(np.uint8)

    def _add_growth(self, seen: Floats) -> None:
        """Bend a tuft of grass or a branch into the frame."""
        random = self.random
        y, x = random.integers(0, SIDE, 2)
        at_y, at_x = np.mgrid[0:SIDE, 0:SIDE]
        angle, long, wide = random.uniform(0, np.pi), random.uniform(4, 13), random.uniform(1, 4)
        a = (at_x - x) * np.cos(angle) + (at_y - y) * np.sin(angle)
        b = (at_y - y) * np.cos(angle) - (at_x - x) * np.sin(angle)
        inside = (a / long) ** 2 + (b / wide) ** 2 < 1
        seen[inside] = np.asarray(self.site.growth, np.float32) * random.uniform(0.6, 1.3)

    def _add_animal(self, seen: Floats, name: str, *, night: bool) -> None:
        random = self.random
        scale = self.site.nearness * random.uniform(0.75, 1.25)
        cover, colour = draw(_BY_NAME[name], random, side=PATCH, scale=scale)
        if night:  # fur returns more of the lamp's infra-red than the ground does
            colour = 130 + 0.6 * colour
        cover[random.integers(PATCH // 2, PATCH) :, :] *= random.uniform(0.3, 1)  # grass before it
        top, left = random.integers(-6, SIDE - PATCH + 7, 2)
        rows, columns = _inside(int(top)), _inside(int(left))
        cut = (slice(rows.start - top, rows.stop - top), slice(columns.start - left,
               columns.stop - left))  # fmt: skip
        alpha = cover[cut][..., None]
        seen[rows, columns] += alpha * (colour[cut] - seen[rows, columns])


def _inside(first: int) -> slice:
    return slice(max(first, 0), min(first + PATCH, SIDE))
