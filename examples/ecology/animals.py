"""Six species as a few ellipses each, drawn in any pose, size and coat.

Lengths are in units of half a body; x points to the head, y down.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["BLANK", "NAMES", "NEWCOMER", "SPECIES", "Part", "Species", "draw"]

Floats = NDArray[np.float32]
BLANK = "blank"
SUPERSAMPLED = 2  # drawn finer than seen, for soft edges


@dataclass(frozen=True, slots=True)
class Part:
    """An ellipse of a body; `swing` is how far it moves with the pose."""

    x: float
    y: float
    rx: float
    ry: float
    angle_deg: float = 0.0
    shade: float = 1.0
    swing: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Species:
    """What an animal looks like, and when it is about."""

    name: str
    coat: tuple[float, float, float]
    half_length_px: float
    parts: tuple[Part, ...]
    active: str  # `day`, `night` or `dusk`
    rings: tuple[float, float] | None = None  # dark rings on the tail: where it begins, and ends
    share: float = 1.0


def _legs(*xs: float, y: float, ry: float, rx: float = 0.08) -> tuple[Part, ...]:
    return tuple(Part(x, y, rx, ry, shade=0.75, swing=0.25 * (-1) ** i) for i, x in enumerate(xs))


SPECIES = (
    Species(
        name="deer", coat=(150, 105, 70), half_length_px=11.5, active="dusk",
        parts=(
            *_legs(-0.6, -0.42, 0.42, 0.6, y=0.65, ry=0.5, rx=0.07),
            Part(0, 0, 0.78, 0.33), Part(0.78, -0.42, 0.17, 0.46, 28), Part(-0.8, -0.1, 0.1, 0.14,
            shade=1.6), Part(1.02, -0.8, 0.27, 0.15, 15, swing=0.1),
            Part(0.88, -1.15, 0.05, 0.32, -22, 0.7), Part(1.02, -1.15, 0.05, 0.32, 14, 0.7),
        ),
    ),
    Species(
        name="boar", coat=(72, 62, 56), half_length_px=10.5, active="night",
        parts=(
            *_legs(-0.55, -0.35, 0.35, 0.55, y=0.6, ry=0.28, rx=0.1),
            Part(0, 0, 0.9, 0.48), Part(0.85, 0.1, 0.42, 0.3, 15, swing=0.08),
            Part(1.25, 0.24, 0.18, 0.12, 10, 1.3), Part(0.7, -0.28, 0.1, 0.16, -15, 0.8),
        ),
    ),
    Species(
        name="fox", coat=(178, 98, 48), half_length_px=9.0, active="night",
        parts=(
            *_legs(-0.45, -0.3, 0.35, 0.5, y=0.42, ry=0.3, rx=0.07),
            Part(0, 0, 0.65, 0.25), Part(-1.0, 0.08, 0.46, 0.16, -14, swing=0.12),
            Part(-1.4, 0.16, 0.1, 0.1, 0, 1.9), Part(0.78, -0.2, 0.24, 0.18, 10, swing=0.08),
            Part(1.0, -0.12, 0.12, 0.07, 10, 1.5), Part(0.66, -0.44, 0.07, 0.15, -10),
            Part(0.84, -0.44, 0.07, 0.15, 10),
        ),
    ),
    Species(
        name="badger", coat=(118, 114, 108), half_length_px=9.5, active="night",
        parts=(
            *_legs(-0.5, -0.3, 0.4, 0.6, y=0.36, ry=0.2, rx=0.12),
            Part(0, 0, 0.85, 0.34), Part(0.88, 0.1, 0.3, 0.18, 12, 2.0, 0.06),
            Part(0.9, 0.08, 0.3, 0.06, 12, 0.25, 0.06), Part(-0.92, 0.05, 0.16, 0.1, 0, 1.4),
        ),
    ),
    Species(
        name="hare", coat=(156, 128, 92), half_length_px=8.0, active="day",
        parts=(
            Part(-0.3, 0.36, 0.34, 0.13, swing=0.08), Part(0.38, 0.36, 0.08, 0.24, swing=0.1),
            Part(0, 0, 0.56, 0.38, -12), Part(0.55, -0.34, 0.24, 0.21),
            Part(0.42, -0.86, 0.08, 0.38, -14, 0.85, 0.06), Part(0.6, -0.86, 0.08, 0.38, 4, 0.85,
            0.06), Part(-0.58, 0.02, 0.13, 0.13, 0, 1.7),
        ),
    ),
    Species(
        name="raccoon", coat=(122, 116, 110), half_length_px=9.0, active="night",
        rings=(-1.35, -0.6), share=1.6,
        parts=(
            *_legs(-0.4, -0.25, 0.35, 0.5, y=0.42, ry=0.22, rx=0.1),
            Part(0, -0.08, 0.62, 0.44), Part(-0.95, 0.1, 0.48, 0.17, -18, swing=0.1),
            Part(0.68, 0, 0.27, 0.23, swing=0.06), Part(0.76, 0, 0.2, 0.08, 0, 0.3, 0.06),
            Part(0.58, -0.24, 0.08, 0.1), Part(0.8, -0.22, 0.08, 0.1),
        ),
    ),
)  # fmt: skip
NEWCOMER = "raccoon"  # not there before week 3
NAMES = tuple(each.name for each in SPECIES)


@cache
def _grid(side: int) -> tuple[Floats, Floats]:
    at = (np.arange(side * SUPERSAMPLED, dtype=np.float32) + 0.5) / SUPERSAMPLED - side / 2
    return np.meshgrid(at, at)


def draw(
    species: Species, random: np.random.Generator, *, side: int, scale: float
) -> tuple[Floats, Floats]:
    """Return how much of each pixel an animal covers, and its colours, in a square of `side`."""
    x, y = _grid(side)
    tilt = np.deg2rad(random.normal(0, 6))
    half_px = species.half_length_px * scale
    facing = random.choice((-1.0, 1.0)) * (1.0 - 0.35 * random.random())  # seen from an angle
    u = (x * np.cos(tilt) + y * np.sin(tilt)) / (half_px * facing)
    v = (y * np.cos(tilt) - x * np.sin(tilt)) / half_px
    gait = random.uniform(-1, 1)
    covered = np.zeros(u.shape, bool)
    shade = np.ones(u.shape, np.float32)
    for part in species.parts:
        moved = part.swing * gait
        angle = np.deg2rad(part.angle_deg + 60 * moved * (part.ry > part.rx))
        du, dv = u - part.x - moved * 0.5, v - part.y
        a = (du * np.cos(angle) + dv * np.sin(angle)) / part.rx
        b = (dv * np.cos(angle) - du * np.sin(angle)) / part.ry
        inside = a * a + b * b < 1
        covered |= inside
        shade[inside] = part.shade
    if species.rings is not None:
        begin, end = species.rings
        tail = covered & (u > begin) & (u < end)
        shade[tail & (np.sin((u - begin) * 26) > 0)] *= 0.35
    shade *= 1.1 - 0.25 * v  # lit from above
    coat = np.asarray(species.coat, np.float32) * random.normal(1, 0.1) + random.normal(0, 5, 3)
    colour = np.clip(shade[..., None] * coat.astype(np.float32), 0, 255)
    return _shrunk(covered.astype(np.float32)), _shrunk(colour)


def _shrunk(fine: Floats) -> Floats:
    n = SUPERSAMPLED
    shape = (fine.shape[0] // n, n, fine.shape[1] // n, n, *fine.shape[2:])
    return np.asarray(fine.reshape(shape).mean(axis=(1, 3)), np.float32)
