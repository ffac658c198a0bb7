"""How far the training is, in a file that is written at most once a second."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path
from typing import Any

from steward.training.protocol import PROGRESS, SaveAnswer, write_json

__all__ = ["ProgressFile"]

EVERY_S = 1.0


class ProgressFile:
    """Steps, loss and rates. Without a folder, or when it cannot be written, nothing happens."""

    def __init__(self, folder: Path | None, fell_back: list[str]) -> None:
        self._fell_back = {"fell_back": fell_back} if fell_back else {}
        self._path = folder / PROGRESS if folder else None
        self._next_s = 0.0
        self._last: tuple[float, int] | None = None  # time and step of the last write
        self._samples = 0
        self._rates: dict[str, float] = {}
        self._saved: dict[str, Any] = {}
        self._loss = _Loss()

    def update(
        self, now_s: float, *, step: int, epoch: int, loss: Any, samples: int | None
    ) -> None:
        """Count, and write if the last write is a second ago."""
        if self._path is None:
            return
        self._samples += samples or 0
        if now_s < self._next_s:
            return
        self._next_s = now_s + EVERY_S
        if self._last is not None and now_s > self._last[0]:
            passed_s = now_s - self._last[0]
            self._rates = {"steps_per_s": (step - self._last[1]) / passed_s}
            if self._samples:
                self._rates["samples_per_s"] = self._samples / passed_s
        self._last, self._samples = (now_s, step), 0
        self._loss.update(loss)
        self.write(step=step, epoch=epoch)

    def saved(self, answer: SaveAnswer) -> None:
        """Keep the newest complete checkpoint for the next write."""
        self._saved = {"saved_step": answer.step, "saved_s": time.time()}

    def write(self, *, step: int, epoch: int) -> None:
        """Write now."""
        if self._path is None:
            return
        record = {
            "step": step,
            "epoch": epoch,
            "written_s": time.time(),
            **self._rates,
            **self._loss.known(),
            **self._saved,
            **self._fell_back,
        }
        try:
            write_json(self._path, record)
        except (OSError, ValueError):
            return  # a full disk or a folder that was removed: no reason to stop a training


class _Loss:
    """The last loss. One that is on a GPU is copied in the background and known a second later."""

    def __init__(self) -> None:
        self._value: float | None = None
        self._host: Any = None
        self._event: Any = None

    def update(self, loss: Any) -> None:
        if self._event is not None and self._event.query():
            self._value, self._event = float(self._host), None
        if loss is None or self._event is not None:
            return
        if getattr(getattr(loss, "device", None), "type", "cpu") == "cuda":
            torch = sys.modules["torch"]
            if self._host is None:
                self._host = torch.empty((), pin_memory=True)
            self._host.copy_(loss.detach().reshape(()), non_blocking=True)
            self._event = torch.cuda.current_stream(loss.device).record_event()
        else:
            self._value = float(loss.detach() if hasattr(loss, "detach") else loss)

    def known(self) -> dict[str, float]:
        if self._value is None or not math.isfinite(self._value):
            return {}
        return {"loss": self._value}
