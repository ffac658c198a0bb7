"""What a camera's board does in a day: which frames it gets to, what it sends, what that takes.

Frames that the day's energy does not cover wait on the board until the next day, oldest first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ecology import detector
from ecology.facts import Device

__all__ = ["CLASSIFIER_OPERATIONS", "MODEL_BYTES", "EdgeBoard", "EdgeDay"]

# Multiplications and additions of ecology.network on one crop: four convolutions, one layer.
CLASSIFIER_OPERATIONS = 2 * (
    16**2 * 75 * 16 + 16**2 * 144 * 32 + 8**2 * 288 * 64 + 4**2 * 576 * 64 + 64 * 7
)
MODEL_BYTES = 4 * 61_911  # weights of ecology.network, sent to each board when one is deployed
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeDay:
    """What a board did in a day."""

    done: Rows  # frames that it got to
    sent: Rows
    sent_bytes: int
    joules: float
    waiting: int  # frames that are left for the next day


@dataclass(slots=True)
class EdgeBoard:
    """One board with the energy of a day, and the frames that wait."""

    device: Device
    waiting: Rows = field(default_factory=lambda: np.zeros(0, np.int64))

    def run_day(
        self,
        arrived: Rows,
        *,
        kept: NDArray[np.bool_],
        wanted: NDArray[np.bool_],
        sizes: Rows,
    ) -> EdgeDay:
        """Go through what waits and what arrived; `kept`, `wanted` and `sizes` are by frame.

        Each frame costs the detector; a kept one also the classifier; a wanted one the radio.
        """
        rows = np.concatenate([self.waiting, arrived])
        sends = kept[rows] & wanted[rows]
        joules = self.frame_joules(kept[rows])
        joules = joules + sends * sizes[rows] * self.device.radio_joules_per_byte
        affordable = int(np.searchsorted(np.cumsum(joules), self.device.joules_per_day, "right"))
        done, self.waiting = rows[:affordable], rows[affordable:]
        sent = done[sends[:affordable]]
        return EdgeDay(
            done=done,
            sent=sent,
            sent_bytes=int(sizes[sent].sum()),
            joules=float(joules[:affordable].sum()),
            waiting=len(self.waiting),
        )

    def frame_joules(self, classified: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the energy of looking at frames, without the radio."""
        device = self.device
        operations = detector.OPERATIONS + classified * CLASSIFIER_OPERATIONS
        return (device.frame_s + operations / device.operations_per_s) * device.busy_watts
