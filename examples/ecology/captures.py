"""A season as the edge devices record it: one row per frame, with the crop around its blob."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecology.detector import BlobDetector, crop_at
from ecology.stream import DAYS, Season, frames_of

__all__ = ["Captures", "record"]

HEADER_BYTES = 64  # camera, time, place in the frame, the model's answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Captures:
    """Columns of all frames in order of time. Only the expert may look at `truth`."""

    day: NDArray[np.int64]
    site: NDArray[np.str_]
    truth: NDArray[np.str_]
    score: NDArray[np.float64]  # of the strongest blob
    kept: NDArray[np.bool_]  # by the detector
    crops: NDArray[np.uint8]
    frame_bytes: NDArray[np.int64]  # what sending the frame would take
    crop_bytes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.day)

    @property
    def week(self) -> NDArray[np.int64]:
        """Return the week of each frame; 0 is the one before the season."""
        return self.day // DAYS + 1

    def days(self) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yield each day of the season with the rows of its frames."""
        for day in range(int(self.day.max()) + 1):
            yield day, np.flatnonzero(self.day == day)


def record(season: Season) -> Captures:
    """Run the cameras and their detectors for a season."""
    detector = BlobDetector()
    rows: list[tuple[int, str, str, float, bool, int, int]] = []
    crops = []
    for frame in frames_of(season):
        sighting = detector.look(frame)
        crop = crop_at(frame.image, sighting)
        sizes = sent_bytes(frame.image), sent_bytes(crop)
        rows.append((frame.day, frame.site, frame.truth, sighting.score, sighting.kept, *sizes))
        crops.append(crop)
    day, site, truth, score, kept, frame_bytes, crop_bytes = zip(*rows, strict=True)
    return Captures(
        day=np.array(day), site=np.array(site), truth=np.array(truth), score=np.array(score),
        kept=np.array(kept), crops=np.stack(crops), frame_bytes=np.array(frame_bytes),
        crop_bytes=np.array(crop_bytes),
    )  # fmt: skip


def sent_bytes(image: NDArray[np.uint8]) -> int:
    """Return the size of a message with this image: rows of differences, deflated."""
    differences = np.diff(image, axis=1, prepend=np.uint8(0))
    return HEADER_BYTES + len(zlib.compress(differences.tobytes(), 1))
