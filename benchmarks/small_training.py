"""A small real training: `python small_training.py plain|workers|ddp|lightning|transformers`.

It takes its folder and ranks from the environment and prints hashes of what it learned. `PAUSE_S`
makes its steps longer, so that something can happen between them; with `HOLD_AT=5` its fifth step
waits until there is a request, however long the one who writes it takes.
"""

from __future__ import annotations

import hashlib
import os
import random
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

from steward import training
from steward.training.protocol import FOLDER_VARIABLE, REQUEST

EPOCHS = 3
_steps = count(1)


def pause() -> None:
    """Make a step as long as `PAUSE_S`, and step `HOLD_AT` until there is a request."""
    time.sleep(float(os.environ.get("PAUSE_S", "0")))
    if next(_steps) == int(os.environ.get("HOLD_AT", "0")):
        while not (Path(os.environ[FOLDER_VARIABLE]) / REQUEST).exists():
            time.sleep(0.01)


class Noisy(Dataset):  # type: ignore[type-arg,misc,unused-ignore]
    """Targets with noise that is drawn while loading."""

    def __len__(self) -> int:
        return 80

    def __getitem__(self, index: int) -> Any:
        return torch.full((8,), index / 80) + torch.rand(8), torch.tensor([random.random()])


def network() -> Any:
    """Return a network with everything that has a state of its own."""
    return torch.nn.Sequential(
        torch.nn.Linear(8, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU(), torch.nn.Dropout(0.2),
        torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1),
    )  # fmt: skip


def learned(model: Any) -> str:
    """Return two hashes: of weights and buffers, and of the next random numbers."""
    weights = [value.double().flatten().tolist() for value in model.state_dict().values()]
    numbers = (torch.rand(1).item(), random.random())
    return " ".join(hashlib.sha256(repr(each).encode()).hexdigest() for each in (weights, numbers))


def plain(*, ddp: bool = False, workers: int = 0) -> str:
    """Train with three lines of steward in an ordinary loop."""
    torch.manual_seed(1)
    random.seed(1)
    model, sampler = network(), None
    if ddp:
        meeting = os.environ.get("MEETING", "env://")
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        torch.distributed.init_process_group("gloo", meeting, rank=rank, world_size=size)
        model = torch.nn.parallel.DistributedDataParallel(model)
        random.seed(1 + torch.distributed.get_rank())
        torch.manual_seed(1 + torch.distributed.get_rank())
        sampler = DistributedSampler(Noisy())  # type: ignore[var-annotated,unused-ignore]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 60)
    loader = DataLoader(
        Noisy(), batch_size=8, shuffle=sampler is None, sampler=sampler, num_workers=workers
    )
    job = training.attach(model, optimizer, scheduler, loader=loader)
    for features, target in job.batches(epochs=EPOCHS):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(features), target)
        loss.backward()
        optimizer.step()
        scheduler.step()
        pause()
        job.step(loss=loss, samples=len(target))
    job.finish()
    if ddp:
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
    return learned(model)


def with_lightning() -> str:
    """Train with Lightning, validation and a scheduler by epoch."""
    import lightning.pytorch as pl

    from steward.training.lightning import LightningCheckpoints

    class Module(pl.LightningModule):  # type: ignore[misc,unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.network = network()

        def training_step(self, batch: Any, _: int) -> Any:
            pause()
            return torch.nn.functional.mse_loss(self.network(batch[0]), batch[1])

        def validation_step(self, batch: Any, _: int) -> None:
            self.network(batch[0])

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
            by_step = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 60)
            return [optimizer], [{"scheduler": by_step, "interval": "epoch"}]

    torch.manual_seed(1)
    random.seed(1)
    module = Module()
    trainer = pl.Trainer(
        max_epochs=EPOCHS, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, callbacks=[LightningCheckpoints()],
    )  # fmt: skip
    trainer.fit(module, DataLoader(Noisy(), batch_size=8, shuffle=True), DataLoader(Noisy(), 40))
    return learned(module)


def with_transformers() -> str:
    """Train with the Trainer of transformers."""
    from transformers import Trainer, TrainerCallback, TrainingArguments

    from steward.training.transformers import TrainerCheckpoints

    class Model(torch.nn.Module):  # type: ignore[misc,unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.network = network()

        def forward(self, features: Any, labels: Any) -> dict[str, Any]:
            found = self.network(features)
            return {"loss": torch.nn.functional.mse_loss(found, labels), "logits": found}

    class Named(Noisy):
        def __getitem__(self, index: int) -> Any:
            # No noise: the Trainer loads one batch ahead, and does not repeat what that drew.
            features = torch.sin(torch.arange(8) * (index + 1))
            return {"features": features, "labels": features.sum(0, keepdim=True)}

    class Pause(TrainerCallback):  # type: ignore[misc,unused-ignore]
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            pause()

    torch.manual_seed(1)
    random.seed(1)
    model = Model()
    folder = Path(os.environ["STEWARD_JOB_FOLDER"]) / "output"
    arguments = TrainingArguments(
        output_dir=str(folder), num_train_epochs=EPOCHS, per_device_train_batch_size=8,
        learning_rate=1e-2, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True,
        remove_unused_columns=False, seed=1, logging_strategy="no",
    )  # fmt: skip
    checkpoints = TrainerCheckpoints()
    trainer = Trainer(
        model=model, args=arguments, train_dataset=Named(), callbacks=[checkpoints, Pause()]
    )
    trainer.train(resume_from_checkpoint=checkpoints.newest(folder))
    return learned(model)


MODES: dict[str, Callable[[], str]] = {
    "plain": plain,
    "workers": lambda: plain(workers=1),
    "ddp": lambda: plain(ddp=True),
    "lightning": with_lightning,
    "transformers": with_transformers,
}


def main() -> None:
    """Train as the first argument says."""
    torch.set_num_threads(1)
    print(MODES[sys.argv[1]]())


if __name__ == "__main__":
    main()
