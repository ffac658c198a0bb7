"""Real trainings with torch: interrupted anywhere, the result is equal bit by bit."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from patience import LONG_S, free_port, until
from steward import training
from steward.training.checkpoints import CheckpointFolder, faults_of
from steward.training.protocol import (
    ANSWER,
    CAN_SAVE,
    DONE,
    FOLDER_VARIABLE,
    SaveRequest,
    read_json,
)

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]

if find_spec("torch"):  # else these tests are not selected
    torch: Any = import_module("torch")
    torch.set_num_threads(1)
    Dataset: Any = import_module("torch.utils.data").Dataset
else:
    torch, Dataset = None, object

PROGRAM = Path(__file__).parents[2] / "benchmarks/small_training.py"


class Noisy(Dataset):  # type: ignore[misc]
    """Draws from all three generators, as augmentation does."""

    def __len__(self) -> int:
        return 22

    def __getitem__(self, index: int) -> Any:
        noise = torch.rand(4) + random.random() + float(np.random.rand())
        return torch.full((4,), float(index)) + noise, torch.tensor(float(index))


class Stream(import_module("torch.utils.data").IterableDataset if torch else object):  # type: ignore[misc]
    def __iter__(self) -> Any:
        for index in range(22):
            yield Noisy()[index]


def loaders(kind: str) -> Any:
    data = torch.utils.data
    own = torch.Generator()
    own.manual_seed(5)
    if kind == "stateful":
        stateful = pytest.importorskip(
            "torchdata.stateful_dataloader", reason="torchdata is optional"
        )
        return stateful.StatefulDataLoader(Noisy(), batch_size=4, shuffle=True)
    options: dict[str, dict[str, Any]] = {
        "plain": {"batch_size": 4, "shuffle": True},
        "workers": {"batch_size": 4, "shuffle": True, "num_workers": 2},
        "persistent": {
            "batch_size": 4,
            "shuffle": True,
            "num_workers": 1,
            "persistent_workers": True,
        },
        "own generator": {"batch_size": 4, "shuffle": True, "generator": own},
        "own generator, workers": {
            "batch_size": 4,
            "shuffle": True,
            "generator": own,
            "num_workers": 1,
        },
        "replacement": {
            "batch_size": 4,
            "sampler": data.RandomSampler(range(22), replacement=True, generator=own)
            if torch
            else None,
        },
        "no batches": {"batch_size": None, "shuffle": True},
        "no batches, worker": {"batch_size": None, "shuffle": True, "num_workers": 1},
        "iterable": {"batch_size": 4},
        "iterable, worker": {"batch_size": 4, "num_workers": 1},
    }
    dataset = Stream() if kind.startswith("iterable") else Noisy()
    return data.DataLoader(dataset, **options[kind])


KINDS = (
    "plain", "workers", "persistent", "own generator", "own generator, workers", "replacement",
    "no batches", "no batches, worker", "iterable", "iterable, worker", "stateful",
)  # fmt: skip


def warm_up(optimizer: Any) -> Any:
    kinds = torch.optim.lr_scheduler
    parts = [kinds.ConstantLR(optimizer), kinds.ExponentialLR(optimizer, 0.9)]
    return kinds.SequentialLR(optimizer, parts, [4])


SCHEDULERS: dict[str, Callable[[Any], Any]] = {
    "OneCycleLR": lambda own: torch.optim.lr_scheduler.OneCycleLR(own, 0.1, total_steps=60),
    "MultiStepLR": lambda own: torch.optim.lr_scheduler.MultiStepLR(own, [3, 3, 7]),
    "ReduceLROnPlateau": lambda own: torch.optim.lr_scheduler.ReduceLROnPlateau(own, patience=1),
    "LambdaLR": lambda own: torch.optim.lr_scheduler.LambdaLR(own, lambda n: 0.9**n),
    "SequentialLR": warm_up,
}


def train(
    folder: Path,
    *,
    kind: str = "plain",
    leave_at: int = 0,
    accumulate: int = 1,
    scheduler: str = "OneCycleLR",
) -> Any:
    """Train two epochs; return all that was learned, or None after a save at `leave_at`."""
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    rates = SCHEDULERS[scheduler](optimizer)
    average = torch.optim.swa_utils.AveragedModel(model)
    job = training.attach(
        model, optimizer, rates, loader=loaders(kind), folder=folder, average=average
    )
    try:
        for number, batch in enumerate(job.batches(epochs=2), start=job.steps):
            features, target = batch
            if features.dim() == 1:
                features, target = features.repeat(2, 1), target.repeat(2)
            loss = ((model(features)[:, 0] - target) ** 2).mean()
            loss.backward()
            if (number + 1) % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
                rates.step(*([loss.item()] if scheduler == "ReduceLROnPlateau" else []))
                average.update_parameters(model)
            if job.steps + 1 == leave_at:
                os.kill(os.getpid(), signal.SIGUSR2)
            job.step(loss=loss)
            if leave_at and CheckpointFolder(folder).listed():
                return None
            if leave_at and job._save is not None:
                job._save.wait()
                return None
    finally:
        job.close()
    states = [each.state_dict() for each in (model, average)]
    flat = [value.double().flatten() for state in states for value in state.values()]
    return torch.cat([*flat, torch.tensor(rates.get_last_lr()), torch.rand(1)])


@pytest.mark.parametrize("kind", KINDS)
def test_the_result_is_equal_with_every_kind_of_loader(tmp_path: Path, kind: str) -> None:
    undisturbed = train(tmp_path / "undisturbed", kind=kind)

    last = 22 if kind.startswith("no batches") else 6  # batch of the first epoch
    for leave_at in (last - 1, last, last + 3):
        folder = tmp_path / str(leave_at)
        assert train(folder, kind=kind, leave_at=leave_at) is None
        assert torch.equal(train(folder, kind=kind), undisturbed), (kind, leave_at)


@pytest.mark.parametrize(
    "scheduler", ["MultiStepLR", "ReduceLROnPlateau", "LambdaLR", "SequentialLR"]
)
def test_the_result_is_equal_with_every_kind_of_scheduler(tmp_path: Path, scheduler: str) -> None:
    undisturbed = train(tmp_path / "undisturbed", scheduler=scheduler)
    train(tmp_path / "a", leave_at=4, scheduler=scheduler)

    assert torch.equal(train(tmp_path / "a", scheduler=scheduler), undisturbed)


def test_a_save_while_gradients_are_accumulated_waits_for_the_optimizer(tmp_path: Path) -> None:
    undisturbed = train(tmp_path / "undisturbed", accumulate=3)
    train(tmp_path / "a", leave_at=4, accumulate=3)

    assert [each.name for each in CheckpointFolder(tmp_path / "a").listed()] == ["step-000006"]
    assert torch.equal(train(tmp_path / "a", accumulate=3), undisturbed)


def test_a_checkpoint_is_read_by_torch_without_pickles(tmp_path: Path) -> None:
    train(tmp_path, leave_at=2)

    tensors = torch.load(tmp_path / "step-000002/rank-00000.pt", weights_only=True)

    assert "model/0.weight" in tensors
    assert tensors["model/0.weight"].shape == (8, 4)


class Tied(torch.nn.Module if torch else object):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.a = torch.nn.Linear(3, 3, bias=False)
        self.b = torch.nn.Linear(3, 3, bias=False)
        self.b.weight = self.a.weight
        self.image = torch.nn.Parameter(
            torch.rand(2, 3, 4, 4).to(memory_format=torch.channels_last)
        )
        self.slice = torch.nn.Parameter(torch.rand(10, 10)[::2, ::3])
        self.register_buffer("sixteen", torch.rand(5).bfloat16())
        self.register_buffer("flags", torch.tensor([True, False]))
        self.register_buffer("empty", torch.empty(0, 3))
        self.register_buffer("scalar", torch.tensor(3))


def test_tied_strided_and_odd_tensors_come_back(tmp_path: Path) -> None:
    model = Tied()
    job = training.attach(model, folder=tmp_path)
    job.step()
    answer = job.save()
    job.close()
    other = Tied()

    training.attach(other, folder=tmp_path).close()

    for (name, value), back in zip(
        model.state_dict().items(), other.state_dict().values(), strict=True
    ):
        assert torch.equal(value, back), name
    tensors = torch.load(Path(answer.checkpoint) / "rank-00000.pt", weights_only=True)
    assert "model/b.weight" not in tensors  # once is enough
    assert tensors["model/image"].is_contiguous(memory_format=torch.channels_last)


def test_training_goes_on_while_the_staged_copy_is_written(tmp_path: Path) -> None:
    model = torch.nn.Linear(4, 4)
    job = training.attach(model, folder=tmp_path)
    before = model.weight.detach().clone()
    os.kill(os.getpid(), signal.SIGUSR2)
    job.step()
    with torch.no_grad():
        model.weight.zero_()
    job.close()

    training.attach(model, folder=tmp_path).close()

    assert torch.equal(model.weight, before)


def test_a_model_of_another_shape_is_refused_with_torchs_reason(tmp_path: Path) -> None:
    job = training.attach(torch.nn.Linear(4, 4), folder=tmp_path)
    job.save()
    job.close()

    with pytest.raises(training.TrainingError, match=r"(?s)`model` does not accept.*size mismatch"):
        training.attach(torch.nn.Linear(4, 5), folder=tmp_path)


def test_sparse_tensors_are_named_as_unsavable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    model = torch.nn.Module()
    model.register_buffer("links", torch.eye(3).to_sparse())

    training.attach(model).close()

    known = read_json(tmp_path / CAN_SAVE)
    assert not known["can"]
    assert "model/links is a tensor of a kind that cannot be saved yet" in known["why"]


# -- two processes ---------------------------------------------------------------------------------


def launch(folder: Path, *, leave: bool = False, mode: str = "ddp", size: int = 2) -> str:
    """Train with torchrun's variables; with `leave`, stop both soon after step 5."""
    port = str(free_port())
    processes = []
    for rank in range(size):
        env = {
            **os.environ, FOLDER_VARIABLE: str(folder), "RANK": str(rank), "WORLD_SIZE": str(size),
            "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
            "OMP_NUM_THREADS": "1", "PAUSE_S": "0.05" if leave else "0",
            "HOLD_AT": "5" if leave else "0",
        }  # fmt: skip
        processes.append(
            subprocess.Popen(
                [sys.executable, str(PROGRAM), mode], env=env, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
        )  # fmt: skip
    if leave:
        before = read_json(folder / ANSWER)["id"] if (folder / ANSWER).exists() else ""
        until((folder / CAN_SAVE).exists)
        SaveRequest(id=f"{before}+", do="save-and-stop").write(folder)
    outs = [process.communicate(timeout=LONG_S) for process in processes]
    assert [process.returncode for process in processes] == [0] * size, outs
    return "".join(out for out, _ in outs)


def test_two_processes_of_ddp_are_interrupted_and_end_equal(tmp_path: Path) -> None:
    undisturbed = launch(tmp_path / "undisturbed")
    folder = tmp_path / "job"

    launch(folder, leave=True)
    answer = read_json(folder / ANSWER)
    newest = Path(answer["checkpoint"])

    assert answer["result"] == "saved"
    assert not (folder / DONE).exists()
    assert faults_of(newest) == []
    files = {each.name: each.stat().st_size for each in newest.iterdir()}
    assert set(files) >= {"rank-00000.pt", "rank-00001.pt", "rank-00000.json", "rank-00001.json"}
    assert files["rank-00001.pt"] < files["rank-00000.pt"] / 2  # weights are equal: written once
    assert launch(folder) == undisturbed
    generators = {each.split()[1] for each in undisturbed.splitlines()}
    assert len(generators) == 2  # two ranks, each with its own
    assert (folder / DONE).exists()


def test_another_number_of_processes_is_refused_on_every_rank(tmp_path: Path) -> None:
    launch(tmp_path, leave=True)

    with pytest.raises(AssertionError, match="was written by 2 ranks; this training has 1"):
        launch(tmp_path, mode="plain", size=1)


@pytest.mark.parametrize("mode", ["plain", "lightning", "transformers"])
def test_trainings_that_are_killed_and_stopped_at_random_end_equal(mode: str) -> None:
    if mode != "plain":
        pytest.importorskip(mode, reason=f"{mode} is not part of the extra `torch`")
    program = str(PROGRAM.with_name("checkpoints.py"))
    ended = subprocess.run(
        [sys.executable, program, "--quick", "--modes", mode], capture_output=True, text=True,
        check=False,
    )  # fmt: skip

    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)["results"]
    assert found["modes"][mode]["preemptions"] >= 4
    assert found["unequal"] == 0


def test_the_trainer_is_not_asked_to_save_after_its_last_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers", reason="transformers is not part of the extra `torch`")
    from steward.training.transformers import TrainerCheckpoints

    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    checkpoints, control = TrainerCheckpoints(), SimpleNamespace(should_save=False)
    state = SimpleNamespace(global_step=30, max_steps=30, epoch=3.0)
    checkpoints.on_train_begin(None, state, control)
    SaveRequest(id="r-1", do="save-and-stop").write(tmp_path)

    checkpoints.on_step_end(None, state, control)
    checkpoints.on_train_end(None, state, control)

    assert not control.should_save
    answer = read_json(tmp_path / ANSWER)
    assert (answer["id"], answer["result"]) == ("r-1", "failed")
    assert "complete" in answer["why"]
    assert (tmp_path / DONE).exists()
