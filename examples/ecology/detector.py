"""Where a frame differs from what its camera usually sees: a blob, its place, its strength."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter

from ecology.scenes import SIDE, is_night
from ecology.stream import Frame

__all__ = ["CROP", "OPERATIONS", "BlobDetector", "Sighting", "crop_at"]

CROP = 32
SMOOTHED_PX = 5
PACE = 0.03  # how fast the background follows, per frame
KEPT_SHARE = 0.55  # the strongest of a camera's frames; three in ten show an animal
REMEMBERED = 240  # scores, by camera and light
FEWEST = 40  # scores before frames are dropped at all
OPERATIONS = SIDE * SIDE * 20  # multiplications and additions of one frame, counted by hand
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Sighting:
    """The strongest blob of a frame; `score` is in median deviations of the rest."""

    score: float
    row: int
    column: int
    kept: bool  # strong, for this camera and light


@dataclass(slots=True)
class BlobDetector:
    """Background subtraction, with a background and a threshold per camera and light.

    The threshold needs no labels: it is a quantile of the camera's own last scores, so that a new
    site with other ground and noise sets its own.
    """

    _grounds: dict[tuple[str, bool], Floats] = field(default_factory=dict)
    _seen: Counter[tuple[str, bool]] = field(default_factory=Counter)
    _scores: dict[tuple[str, bool], deque[float]] = field(default_factory=dict)

    def look(self, frame: Frame) -> Sighting:
        """Return the strongest blob, and learn the background from the frame."""
        grey = frame.image.mean(axis=2, dtype=np.float32)
        grey /= grey.mean() + 1.0  # light changes from frame to frame
        key = (frame.site, is_night(frame.hour))
        ground = self._grounds.setdefault(key, grey.copy())
        differs = uniform_filter(np.abs(grey - ground), SMOOTHED_PX)
        self._seen[key] += 1
        ground += max(PACE, 1 / self._seen[key]) * (grey - ground)
        row, column = divmod(int(differs.argmax()), SIDE)
        usual = float(np.median(differs))
        spread = float(np.median(np.abs(differs - usual))) + 1e-6
        score = (float(differs[row, column]) - usual) / spread
        return Sighting(score, row, column, self._is_strong(key, score))

    def _is_strong(self, key: tuple[str, bool], score: float) -> bool:
        scores = self._scores.setdefault(key, deque(maxlen=REMEMBERED))
        scores.append(score)
        return len(scores) < FEWEST or score >= float(np.quantile(scores, 1 - KEPT_SHARE))


def crop_at(image: NDArray[np.uint8], sighting: Sighting) -> NDArray[np.uint8]:
    """Return the square around a blob, moved to lie within the frame."""
    top, left = (
        int(np.clip(at - CROP // 2, 0, SIDE - CROP)) for at in (sighting.row, sighting.column)
    )
    return image[top : top + CROP, left : left + CROP]
