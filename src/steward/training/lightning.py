"""Checkpoints for Lightning: `Trainer(callbacks=[LightningCheckpoints()])`, and nothing else.

Saves and restores the module, optimizers, schedulers, the trainer's loops, the states of other
callbacks, all random generators and the position in the training loader. `ckpt_path` is not needed.
A save that falls on the last batch of an epoch, or before a validation, waits for the next batch:
Lightning skips what follows such a batch when it restarts there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from steward.training.job import EVERY_S, TrainingJob, attach
from steward.training.protocol import TrainingError

if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
    from pytorch_lightning import Callback
else:
    from lightning.pytorch import Callback

__all__ = ["LightningCheckpoints"]


class LightningCheckpoints(Callback):  # type: ignore[misc]  # Lightning may be absent
    """Resumes at the start of `fit`, and saves on request, by signal and every `every_s`."""

    def __init__(
        self,
        folder: str | None = None,
        *,
        every_s: float | None = EVERY_S,
        stop_on_term: bool = False,
    ) -> None:
        self.job: TrainingJob | None = None
        self._options: dict[str, Any] = {
            "folder": folder,
            "every_s": every_s,
            "stop_on_term": stop_on_term,
        }

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """Attach, which loads the newest checkpoint, before the loops start."""
        loop = trainer.fit_loop
        loop.setup_data()
        combined = loop._combined_loader  # noqa: SLF001 - there is no public way to the loader
        length = _length(combined.flattened)
        schedulers = [each.scheduler for each in trainer.lr_scheduler_configs]
        self.job = attach(
            trainer.strategy.model,
            loader=combined.flattened[0],
            loops=loop,
            precision=trainer.precision_plugin,
            callbacks=_CallbackStates(trainer, self),
            **{f"optimizer_{i}": each for i, each in enumerate(trainer.optimizers)},
            **{f"scheduler_{i}": each for i, each in enumerate(schedulers)},
            **self._options,
        )
        combined.flattened = [_EpochLoader(self.job, length)]
        iter(loop._data_fetcher)  # noqa: SLF001 - it was built with the loader that is replaced

    def on_train_batch_end(
        self,
        trainer: Any,
        pl_module: Any,  # noqa: ARG002
        outputs: Any,
        batch: Any,  # noqa: ARG002
        batch_idx: int,
    ) -> None:
        """Report, save or stop."""
        if self.job is None:
            return
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        validates = trainer.enable_validation and not (batch_idx + 1) % trainer.val_check_batch
        self.job.step(loss=loss, may_save=not (validates or trainer.is_last_batch))

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """Detach: what the script does after `fit` is its own."""
        if self.job is not None:
            self.job.finish()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:  # noqa: ARG002
        """Complete a save that is being written."""
        if self.job is not None:
            self.job.close()


def _length(loaders: list[Any]) -> int:
    try:
        (loader,) = loaders
        return len(loader)
    except (TypeError, ValueError) as fault:
        raise TrainingError(
            f"{len(loaders)} training loaders, or one without a length: {fault}",
            where="LightningCheckpoints",
            hint="use one loader that has a length: of others Lightning reads ahead",
        ) from fault


class _EpochLoader:
    """What Lightning iterates over instead of the loader: its position is in our checkpoint.

    The two methods for states keep Lightning from warning that the loader cannot be resumed.
    """

    def __init__(self, job: TrainingJob, length: int) -> None:
        self._job = job
        self._length = length
        self._batches: Any = None

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Any]:
        if self._batches is not None:
            self._batches.close()  # Lightning stops at the last batch, not after it
        self._batches = self._job.batches()
        return self._batches  # type: ignore[no-any-return]

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Do nothing."""


class _CallbackStates:
    """The states of all other callbacks, such as early stopping."""

    def __init__(self, trainer: Any, own: Callback) -> None:
        self._callbacks = [each for each in trainer.callbacks if each is not own]

    def state_dict(self) -> dict[str, Any]:
        return {each.state_key: state for each in self._callbacks if (state := each.state_dict())}

    def load_state_dict(self, states: dict[str, Any]) -> None:
        for each in self._callbacks:
            if each.state_key in states:
                each.load_state_dict(states[each.state_key])
