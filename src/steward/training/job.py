"""A training that continues where it was interrupted, and saves when it is asked to."""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from steward.training.checkpoints import CheckpointFolder
from steward.training.loader import LoaderPosition
from steward.training.progress import ProgressFile
from steward.training.protocol import (
    CAN_SAVE,
    CHECKPOINTS,
    DONE,
    EVERY_VARIABLE,
    FOLDER_VARIABLE,
    SaveAnswer,
    TrainingError,
    write_json,
)
from steward.training.ranks import RankGroup, replicated
from steward.training.requests import SAVE, STOP, RequestFile, SignalFlag
from steward.training.resuming import choose_checkpoint, contents, load_objects
from steward.training.saving import BackgroundSave
from steward.training.staging import HostBuffers
from steward.training.state import (
    Snapshot,
    capture_generators,
    encode,
    restore_generators,
    stateful,
)

__all__ = ["TrainingJob", "attach"]

log = logging.getLogger(__name__)

EVERY_S = 1800.0
PREPARE_AT = 2  # calls of step(): by then optimizers have their state
MOST_DEFERRED = 256  # calls of step() without an optimizer step that a save waits for
_OWN = ("loader", "generators", "job")  # names in a checkpoint that are not the caller's


def attach(  # noqa: PLR0913 - the caller's one line
    model: Any = None,
    optimizer: Any = None,
    scheduler: Any = None,
    *,
    loader: Any = None,
    folder: str | os.PathLike[str] | None = None,
    every_s: float | None = EVERY_S,
    stop_on_term: bool = False,
    **more: Any,
) -> TrainingJob:
    """Return the job, continued from its newest whole checkpoint if there is one.

    `more` takes whatever else has a state: a scaler, averaged weights, a second optimizer, random
    generators. Checkpoints are in `$STEWARD_JOB_FOLDER/checkpoints`, or in `folder`, or in
    `./checkpoints`. Besides on request, one is saved every `every_s` seconds;
    where that is not given, `$STEWARD_SAVE_EVERY_S` may say it. TERM causes a save and nothing
    else, because some engines send it as a warning; with `stop_on_term` the process then ends by
    that signal.
    """
    given = {"model": model, "optimizer": optimizer, "scheduler": scheduler, **more}
    if taken := [name for name in more if name in _OWN]:
        raise TrainingError(
            f"`{taken[0]}` is a name of ours", where="training.attach", hint="use another name"
        )
    objects = {name: value for name, value in given.items() if value is not None}
    place = os.environ.get(FOLDER_VARIABLE)
    job_folder = Path(place).absolute() if place else None
    checkpoints = Path(folder or (job_folder or Path()) / CHECKPOINTS).absolute()
    return TrainingJob(
        objects,
        LoaderPosition(loader),
        job_folder=job_folder,
        checkpoints=checkpoints,
        every_s=_every_s(every_s),
        stop_on_term=stop_on_term,
    )


def _every_s(given: float | None) -> float | None:
    """Return the seconds between saves; the environment's where the caller left the default."""
    text = os.environ.get(EVERY_VARIABLE, "")
    if not text or given != EVERY_S:
        return given
    try:
        every_s = float(text)
    except ValueError:
        every_s = -1.0
    if not 0 < every_s < float("inf"):
        raise TrainingError(
            f"'{text}' is no time between saves", where=EVERY_VARIABLE, hint="seconds, as 1800"
        )
    return every_s


class TrainingJob:
    """What `attach` returns: iterate over `batches`, call `step` after each optimizer step."""

    def __init__(
        self,
        objects: dict[str, Any],
        loader: LoaderPosition,
        *,
        job_folder: Path | None,
        checkpoints: Path,
        every_s: float | None,
        stop_on_term: bool,
    ) -> None:
        self.steps = 0
        self.resumed_from: Path | None = None
        self.fell_back: list[str] = []
        self._objects = objects
        self._states = {name: stateful(name, value) for name, value in objects.items()}
        self._loader = loader
        self._folder = job_folder
        self._checkpoints = CheckpointFolder(checkpoints)
        self._every_s = every_s
        self._stop_on_term = stop_on_term
        self._ranks = RankGroup()
        loader.rank = self._ranks.rank
        self._shared = replicated(objects) if self._ranks.size > 1 else {}
        self._buffers = HostBuffers()
        self._save: BackgroundSave | None = None
        self._generators: dict[str, Any] | None = None  # to set when the iterator is built
        self._due_s = time.monotonic() + every_s if every_s else float("inf")
        self._steps_here = 0
        self._deferred = 0
        self._optimizer_steps = self._optimizer_steps_seen = 0
        self._hooks = self._count_optimizer_steps()
        self._make_folders()
        self._resume()
        first = self._folder if self._ranks.rank == 0 else None
        # One rank is enough: all take the greatest level.
        self._request = RequestFile(self._folder, first=self._ranks.rank == 0)
        self._signals = SignalFlag()
        self._progress = ProgressFile(first, self.fell_back)
        self._announce()
        atexit.register(self._at_exit)

    @property
    def epoch(self) -> int:
        """Return the number of the epoch that is being trained, from 0."""
        return self._loader.epoch

    def batches(self, epochs: int | None = None) -> Iterator[Any]:
        """Yield the rest of this epoch, or of all epochs until there were `epochs`."""
        last = self.epoch + 1 if epochs is None else epochs
        while self.epoch < last:
            generators, self._generators = self._generators, None
            yield from self._loader.rest_of_epoch(generators)

    def epochs(self, count: int) -> Iterator[int]:
        """Yield the epochs that are left, from the interrupted one; use `batches` within each."""
        while self.epoch < count:
            epoch = self.epoch
            yield epoch
            if self.epoch == epoch:  # `batches` was not used up, or not used
                self._loader.epoch += 1

    def step(
        self,
        *,
        loss: Any = None,
        samples: int | None = None,
        may_save: bool = True,
    ) -> None:
        """Count a step; report, save or stop if it is time to.

        Raises SystemExit(0) after a save that was requested with a stop. Where the state is between
        two states, `may_save=False` puts a save off to the next step; a step without an optimizer
        step does so by itself.
        """
        self.steps += 1
        now_s = time.monotonic()
        level = max(self._request.level(), self._signal_level(), SAVE * (now_s >= self._due_s))
        if self._request.fault:
            self._refuse()
        agreed = self._ranks.agreed(level)
        if agreed and self._at_boundary(may_save=may_save):
            self._save_now(stop=agreed == STOP)
            level = 0  # what is still wanted is gathered again with the next step
        self._ranks.gather(level)
        self._optimizer_steps_seen = self._optimizer_steps
        self._steps_here += 1
        if self._steps_here == PREPARE_AT:
            self._prepare()
        self._progress.update(now_s, step=self.steps, epoch=self.epoch, loss=loss, samples=samples)

    def save(self) -> SaveAnswer:
        """Save now and wait for it. All ranks have to call it, between two steps."""
        return self._save_now(stop=False).wait()

    def finish(self) -> None:
        """Record that the training is complete. Done by itself when the script ends normally."""
        self.close()
        if self._folder is not None and self._ranks.rank == 0 and self._folder.is_dir():
            self._progress.write(step=self.steps, epoch=self.epoch)
            write_json(self._folder / DONE, {"step": self.steps, "epoch": self.epoch}, durable=True)

    def close(self) -> None:
        """Wait for the last write and detach from signals and optimizers."""
        atexit.unregister(self._at_exit)
        self._buffers.wait()
        if self._save is not None:
            self._save.wait()
        self._signals.restore()
        for hook in self._hooks:
            hook.remove()

    # -- saving ------------------------------------------------------------------------------------

    def _signal_level(self) -> int:
        raised = self._signals.raised
        if not raised:
            return 0
        if raised == signal.SIGTERM and self._stop_on_term:
            return STOP
        if self._save is not None and self._save.running:  # it is being saved already: one signal
            self._signals.clear()  # reaches the ranks at different steps
            return 0
        return SAVE

    def _at_boundary(self, *, may_save: bool) -> bool:
        """Return True if no gradients are being accumulated, as far as optimizers show it."""
        stepped = self._optimizer_steps > self._optimizer_steps_seen or not self._optimizer_steps
        stepped = stepped and may_save
        self._deferred = 0 if stepped else self._deferred + 1
        return stepped or self._deferred > MOST_DEFERRED

    def _save_now(self, *, stop: bool) -> BackgroundSave:
        if self._save is not None:
            self._save.wait()  # its buffers are used again
        began_s = time.perf_counter()
        number, request_id = self._signals.clear(), self._request.clear()
        if self._every_s:
            self._due_s = time.monotonic() + self._every_s
        save = self._save = BackgroundSave(
            folder=self._checkpoints,
            rank=self._ranks.rank,
            size=self._ranks.size,
            manifest=self._manifest(),
            request_id=request_id,
            began_s=began_s,
            report=self._report,
        )
        parts, staged = self._stage()
        save.start(parts, staged)
        if stop:
            failed = save.wait().result != "saved"
            if not self._ranks.greatest(failed):  # else the training goes on, on every rank
                self._stop(number)
        return save

    def _prepare(self) -> None:
        """Allocate what the first save needs, once the training is under way."""
        if self._loader.unused:
            log.warning(
                "`loader` was handed to attach, but job.batches() is not used:"
                " the position in the data will not be restored"
            )
        if self._save is None:
            self._buffers.prepare(self._snapshot().tensors)

    def _stage(self) -> tuple[Snapshot | Exception, Callable[[], None]]:
        try:
            snapshot = self._snapshot()
            snapshot.check()
            snapshot.tensors, staged = self._buffers.stage(snapshot.tensors)
        except Exception as fault:  # noqa: BLE001 - out of memory, for one: the training goes on
            return fault, lambda: None
        return snapshot, staged

    def _snapshot(self) -> Snapshot:
        """Return the state of everything; tensors are not copied yet."""
        snapshot = Snapshot()
        own = {
            "loader": self._loader.state_dict(),
            "generators": capture_generators(),
            "job": {"step": self.steps},
        }
        for name, state in self._states.items():
            shared = self._shared.get(name, _nothing) if self._ranks.rank else _nothing
            try:
                snapshot.tree[name] = encode(state.state_dict(), name, snapshot, shared)
            except Exception as fault:  # noqa: BLE001 - of the caller's object
                snapshot.faults.append(f"{name}: state_dict() raised {fault!r}")
        for name, values in own.items():
            snapshot.tree[name] = encode(values, name, snapshot)
        return snapshot

    def _manifest(self) -> dict[str, Any]:
        place = {"step": self.steps, "epoch": self.epoch, "batch": self._loader.batch}
        return {**place, **contents(self._objects, self._ranks.size)}

    def _report(self, answer: SaveAnswer) -> None:
        """Publish how a save ended. Runs in its thread."""
        saved = answer.result == "saved"
        if not saved:
            log.warning("no checkpoint at step %d: %s", answer.step, answer.why)
        if self._ranks.rank:
            return
        try:
            if answer.id:
                answer.publish(self._folder)
            if saved and self._folder is not None:
                self._progress.saved(answer)
                cost = {"seconds": answer.seconds, "blocked_s": answer.blocked_s}
                self._write_can_save(self._folder, bytes=answer.bytes, **cost)
        except OSError as fault:
            log.warning("%s: %s", self._folder, fault)

    def _refuse(self) -> None:
        """Answer a request that is not carried out."""
        late = self._request.request is not None
        why = self._request.fault
        request_id = self._request.clear()
        if self._ranks.rank == 0:
            result: Any = "failed" if late else "cannot"
            answer = SaveAnswer(id=request_id, result=result, step=self.steps, why=why)
            answer.publish(self._folder)

    def _stop(self, number: int) -> None:
        """End the process: as requested with status 0, or by the signal that it was sent."""
        atexit.unregister(self._at_exit)
        if number == signal.SIGTERM:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.raise_signal(signal.SIGTERM)
        raise SystemExit(0)

    # -- starting and ending -----------------------------------------------------------------------

    def _make_folders(self) -> None:
        try:
            self._checkpoints.path.mkdir(parents=True, exist_ok=True)
            if self._folder is not None:
                self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as fault:
            hint = f"set {FOLDER_VARIABLE}, or hand a folder to attach"
            raise TrainingError(
                f"cannot be made: {fault.strerror}", where=str(fault.filename), hint=hint
            ) from fault

    def _resume(self) -> None:
        """Load the checkpoint that rank 0 chooses, if there is one."""
        found, self.fell_back = choose_checkpoint(self._checkpoints, self._ranks, self._objects)
        if found is None:
            return
        states = load_objects(found, self._ranks.rank, self._objects, self._states)
        self.steps = states["job"]["step"]
        self._loader.load_state_dict(states["loader"])
        self._generators = states["generators"]
        restore_generators(states["generators"])
        self.resumed_from = found

    def _announce(self) -> None:
        """Write whether this job can save, and remove the mark of an earlier end."""
        snapshot = self._snapshot()
        self._can_save: dict[str, Any] = {
            "can": not snapshot.faults,
            "why": "; ".join(snapshot.faults),
            "signals": self._signals.names,
            "world_size": self._ranks.size,
            "pid": os.getpid(),
            "resumed_step": self.steps if self.resumed_from else None,
        }
        if snapshot.faults:
            log.warning("this training cannot be saved: %s", self._can_save["why"])
        if self._folder is not None and self._ranks.rank == 0:
            (self._folder / DONE).unlink(missing_ok=True)
            self._write_can_save(self._folder, bytes=snapshot.bytes, seconds=None, blocked_s=None)

    def _write_can_save(self, folder: Path, **cost: float | None) -> None:
        write_json(folder / CAN_SAVE, {**self._can_save, **cost})

    def _count_optimizer_steps(self) -> list[Any]:
        """Count the steps of torch optimizers: between them gradients may be accumulated."""
        torch = sys.modules.get("torch")
        if torch is None:
            return []

        def count(*_: object) -> None:
            self._optimizer_steps += 1

        return [
            each.register_step_post_hook(count)
            for each in self._objects.values()
            if isinstance(each, torch.optim.Optimizer)
            and hasattr(each, "_optimizer_step_post_hooks")
        ]

    def _at_exit(self) -> None:
        """Mark the training as done, unless an exception ends the interpreter."""
        if getattr(sys, "last_value", None) is None:
            self.finish()
        else:
            self.close()


def _nothing(_: str) -> bool:
    return False
