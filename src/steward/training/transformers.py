"""Checkpoints for the transformers Trainer, which writes and reads them itself.

    checkpoints = TrainerCheckpoints()
    trainer = Trainer(..., callbacks=[checkpoints])
    trainer.train(resume_from_checkpoint=checkpoints.newest(args.output_dir))

The callback makes the Trainer save on request and by signal, adds a manifest when a checkpoint is
complete, and chooses the newest one that verifies: the Trainer alone takes the newest folder, even
if it is incomplete. The Trainer writes in the foreground.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from steward.training.checkpoints import faults_of, seal
from steward.training.progress import ProgressFile
from steward.training.protocol import CAN_SAVE, DONE, FOLDER_VARIABLE, SaveAnswer, write_json
from steward.training.ranks import RankGroup
from steward.training.requests import SAVE, STOP, RequestFile, SignalFlag

__all__ = ["TrainerCheckpoints"]


class TrainerCheckpoints(TrainerCallback):  # type: ignore[misc]  # may be absent
    """Saves on request and by signal, and stops if requested."""

    def __init__(self) -> None:
        place = os.environ.get(FOLDER_VARIABLE)
        self._folder = Path(place).absolute() if place else None
        self._fell_back: list[str] = []
        self._agreed = 0
        self._began_s = 0.0
        self._loss: float | None = None

    def newest(self, output_dir: str | os.PathLike[str]) -> str | None:
        """Return the newest whole checkpoint in the Trainer's folder, or None."""
        found = {
            int(each.name.partition("-")[2]): each
            for each in Path(output_dir).glob("checkpoint-*")
            if each.name.partition("-")[2].isdigit()
        }
        self._fell_back = []
        for _, each in sorted(found.items(), reverse=True):
            faults = faults_of(each)
            if not faults:
                return str(each)
            self._fell_back.append(f"{each.name}: {'; '.join(faults)}")
        return None

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Install the signal handlers and announce what this job can."""
        self._ranks = RankGroup()
        first = self._folder if self._ranks.rank == 0 else None
        self._request = RequestFile(self._folder, first=self._ranks.rank == 0)
        self._signals = SignalFlag()
        self._progress = ProgressFile(first, self._fell_back)
        if first is not None:
            first.mkdir(parents=True, exist_ok=True)
            (first / DONE).unlink(missing_ok=True)
            self._can_save = {"can": True, "why": "", "signals": self._signals.names}
            self._can_save |= {"world_size": self._ranks.size, "pid": os.getpid()}
            write_json(first / CAN_SAVE, self._can_save)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Ask the Trainer for a checkpoint after this step, if all ranks agree.

        Not after the last: the training ends by itself then, and the Trainer does not resume there
        exactly (it restores no generators, and trains a step too many if `max_steps` ends within
        an epoch).
        """
        level = max(self._request.level(), SAVE * bool(self._signals.raised))
        agreed = self._ranks.agreed(level)
        if self._request.fault:
            self._answer(
                "failed" if self._request.request else "cannot", state, why=self._request.fault
            )
        if agreed and state.global_step < state.max_steps:
            self._agreed, self._began_s = agreed, time.perf_counter()
            control.should_save = True
            level = 0
        self._ranks.gather(level)
        step, epoch = state.global_step, int(state.epoch or 0)
        self._progress.update(
            time.monotonic(), step=step, epoch=epoch, loss=self._loss, samples=None
        )

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:  # noqa: ARG002
        """Keep the loss that the Trainer computed anyway."""
        self._loss = (logs or {}).get("loss", self._loss)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Seal what the Trainer wrote, answer, and exit if that was requested."""
        path, why, size = Path(args.output_dir) / f"checkpoint-{state.global_step}", "", 0
        if self._ranks.rank == 0:
            try:
                size = seal(path, {"step": state.global_step, "world_size": self._ranks.size})
            except OSError as fault:
                why = f"{path}: {fault.strerror}"
        level, self._agreed = self._agreed, 0
        failed = self._ranks.greatest(bool(why))
        if level:
            self._signals.clear()
            result = "failed" if failed else "saved"
            self._answer(result, state, why=why, bytes=size, checkpoint=str(path.absolute()))
        if level == STOP and not failed:
            raise SystemExit(0)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Record that the training is complete, and answer a request that came too late."""
        self._signals.restore()
        if self._request.level():
            self._answer("failed", state, why="the training is complete; nothing is left to save")
        if self._folder is not None and self._ranks.rank == 0:
            write_json(self._folder / DONE, {"step": state.global_step}, durable=True)

    def _answer(self, result: Any, state: Any, **more: Any) -> None:
        request_id = self._request.clear()
        if self._ranks.rank or not (request_id or result == "cannot"):
            return
        seconds = time.perf_counter() - self._began_s if self._began_s else 0.0
        SaveAnswer(
            id=request_id, result=result, step=state.global_step, seconds=seconds,
            blocked_s=seconds, **more,
        ).publish(self._folder)  # fmt: skip
