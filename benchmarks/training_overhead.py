"""What checkpoints in three lines cost a training: per step, and per save.

`job.step()` is called after steps that do nothing, in a job folder, with progress written once a
second. A save is timed from the step boundary until the next step can run on the device: including
the copies that are queued before it. Beside it, on the same tensors and disk: `torch.save` with
fsync, and the asynchronous save of torch.distributed.checkpoint (DCP).
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # so that results can be equal

import torch

from report import bar, finish, progress
from steward import training
from steward.training.protocol import ANSWER, SaveRequest

MOST_STEP_S, MOST_BLOCKED_S = 50e-6, 0.5
GIB = 2**30


def sync(device: str) -> None:
    """Wait for everything that is queued on the device."""
    if device == "cuda":
        torch.cuda.synchronize()


def attach(folder: Path, model: Any, optimizer: Any = None) -> training.TrainingJob:
    """Attach with a job folder of its own."""
    os.environ["STEWARD_JOB_FOLDER"] = str(folder)
    return training.attach(model, optimizer)


def step_cost(folder: Path, device: str, count: int) -> dict[str, float]:
    """Return how long `job.step()` takes: all of them, with those that write progress."""
    model = torch.nn.Linear(8, 8).to(device)
    job = attach(folder, model)
    loss = torch.ones((), device=device)
    took = []
    for _ in range(count):
        began_s = time.perf_counter()
        job.step(loss=loss, samples=8)
        took.append(time.perf_counter() - began_s)
    job.close()
    return _microseconds(took)


def _microseconds(took: list[float]) -> dict[str, float]:
    took = sorted(took)
    return {
        "mean_us": round(1e6 * statistics.fmean(took), 2),
        "p50_us": round(1e6 * took[len(took) // 2], 2),
        "p99_us": round(1e6 * took[int(0.99 * len(took))], 2),
        "max_us": round(1e6 * took[-1], 2),
    }


def _rank(rank: int, folder: Path, count: int, queue: Any) -> None:
    torch.set_num_threads(1)
    meeting = f"file://{folder}/meeting"
    torch.distributed.init_process_group("gloo", meeting, rank=rank, world_size=2)
    job = attach(folder, torch.nn.Linear(8, 8))
    took = []
    for _ in range(count):
        time.sleep(0.002)  # a step: the gathering of the last one ends meanwhile
        began_s = time.perf_counter()
        job.step(loss=0.5)
        took.append(time.perf_counter() - began_s)
    job.close()
    queue.put((rank, _microseconds(took)))


def two_ranks(folder: Path, count: int) -> dict[str, float]:
    """Return the cost per step of rank 0 of two, with gloo on this machine."""
    spawn = multiprocessing.get_context("spawn")
    folder.mkdir()
    queue = spawn.Queue()
    ranks = [spawn.Process(target=_rank, args=(each, folder, count, queue)) for each in range(2)]
    for each in ranks:
        each.start()
    found = dict(queue.get() for _ in ranks)
    for each in ranks:
        each.join()
    return dict(found[0])


def weights(size_bytes: int, device: str) -> Any:
    """Return a module with that many bytes in 16 parameters."""
    side = size_bytes // 16 // 4 // 1024
    return torch.nn.ParameterList(torch.rand(side, 1024, device=device) for _ in range(16))


def ours(folder: Path, model: Any, device: str, repeats: int) -> dict[str, Any]:
    """Return blocking and total times of saves on request."""
    job = attach(folder, model)
    began_s = time.perf_counter()
    job.step()
    job.step()
    job._buffers.wait()  # noqa: SLF001 - pinned memory, allocated in the background
    prepared_s = time.perf_counter() - began_s
    blocked, whole = [], []
    for number in range(repeats):
        SaveRequest(id=f"r-{number}", do="save").write(folder)
        sync(device)
        began_s = time.perf_counter()
        job.step()
        sync(device)
        blocked.append(time.perf_counter() - began_s)
        answer = job._save.wait()  # type: ignore[union-attr]  # noqa: SLF001 - the save just begun
        if answer.result != "saved":
            raise RuntimeError(answer.why)
        whole.append(answer.seconds)
    job.close()
    return {
        "prepared_in_background_s": prepared_s,
        "blocked_first_s": blocked[0],
        "blocked_s": statistics.median(blocked[1:]),
        "complete_s": statistics.median(whole[1:]),
    }


def while_writing(folder: Path, model: Any, device: str) -> dict[str, float]:
    """Return how long a step of matrix products takes beside a write, and without."""
    job = attach(folder, model)
    side = 4096 if device == "cuda" else 256
    matrix = torch.rand(side, side, device=device)

    def step_s() -> float:
        began_s = time.perf_counter()
        for _ in range(20):
            torch.mm(matrix, matrix)
        sync(device)
        return time.perf_counter() - began_s

    for _ in range(20):
        step_s()
    alone = [step_s() for _ in range(100)]
    SaveRequest(id="beside", do="save").write(folder)
    job.step()
    sync(device)
    beside = []
    while job._save.running:  # type: ignore[union-attr]  # noqa: SLF001
        beside.append(step_s())
    job.close()
    if not beside:
        return {}
    return {
        "step_alone_s": statistics.median(alone),
        "step_beside_s": statistics.median(beside),
        "slowdown_share": statistics.fmean(beside) / statistics.fmean(alone) - 1,
    }


def trained(folder: Path, device: str, leave_at: int) -> Any:
    """Train 30 steps with dropout; or leave after a save at a step. Return weights and noise."""
    torch.manual_seed(7)
    layers = [torch.nn.Linear(512, 512), torch.nn.Dropout(0.2), torch.nn.BatchNorm1d(512)]
    model = torch.nn.Sequential(*layers * 2, torch.nn.Linear(512, 1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    job = attach(folder, model, optimizer)
    while job.steps < 30:
        inputs = torch.rand(64, 512, device=device)
        optimizer.zero_grad()
        loss = (model(inputs) ** 2).mean()
        loss.backward()
        optimizer.step()
        if job.steps + 1 == leave_at:
            SaveRequest(id=f"at-{leave_at}", do="save").write(folder)
        job.step(loss=loss)
        if job.steps == leave_at:
            with torch.no_grad():  # the copies are still queued: they must not see this
                for each in model.parameters():
                    each.zero_()
            break
    job.close()
    weights = [each.detach().double().flatten() for each in model.state_dict().values()]
    return torch.cat([*weights, torch.rand(4, device=device).double()])


def equality(folder: Path, device: str, count: int) -> dict[str, int]:
    """Interrupt a training on the device in many places; count results that differ in any bit."""
    torch.use_deterministic_algorithms(mode=True)
    undisturbed, unequal, unsaved = trained(folder / "undisturbed", device, 0), 0, 0
    for number in range(count):
        for leave_at in (1 + number, 16 + number % 14):
            trained(folder / str(number), device, leave_at)
            answer = json.loads((folder / str(number) / ANSWER).read_text())
            unsaved += answer["result"] != "saved"
        unequal += not torch.equal(trained(folder / str(number), device, 0), undisturbed)
    torch.use_deterministic_algorithms(mode=False)
    return {"preemptions": 2 * count, "unequal": unequal, "unsaved": unsaved}


def plain_save(folder: Path, model: Any, device: str) -> dict[str, float]:
    """Return the time of torch.save with fsync, which blocks until the end."""
    sync(device)
    began_s = time.perf_counter()
    with (folder / "plain.pt").open("wb") as file:
        torch.save(model.state_dict(), file)
        file.flush()
        written_s = time.perf_counter() - began_s
        os.fsync(file.fileno())
    return {"blocked_s": written_s, "with_fsync_s": time.perf_counter() - began_s}


def distributed_checkpoint(
    folder: Path, model: Any, *, device: str, repeats: int, cached: bool
) -> dict[str, float]:
    """Return blocking and total times of DCP's async_save.

    As it comes, or with the pinned staging buffers that it can keep between saves (`cached`).
    """
    import torch.distributed.checkpoint as dcp  # noqa: PLC0415

    backend = "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"
    meeting = f"file://{folder}/meeting-{cached}"
    torch.distributed.init_process_group(backend, meeting, rank=0, world_size=1)
    more: dict[str, Any] = {}
    if cached:
        more["storage_writer"] = dcp.FileSystemWriter(str(folder), cache_staged_state_dict=True)
    blocked, whole = [], []
    try:
        for number in range(repeats):
            place = str(folder / f"dcp-{number}")
            sync(device)
            began_s = time.perf_counter()
            future: Any = dcp.async_save({"m": model.state_dict()}, checkpoint_id=place, **more)
            sync(device)
            blocked.append(time.perf_counter() - began_s)
            getattr(future, "upload_completion", future).result()
            whole.append(time.perf_counter() - began_s)
            shutil.rmtree(place)
    finally:
        torch.distributed.destroy_process_group()
    return {
        "blocked_first_s": blocked[0],
        "blocked_s": statistics.median(blocked[1:]),
        "complete_s": statistics.median(whole[1:]),
    }


def attempt(name: str, do: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what a rival measured, or why it did not run: that is a result, too."""
    progress(name)
    gc.collect()
    try:
        return do()
    except Exception as fault:  # noqa: BLE001 - of another program
        return {"failed": f"{type(fault).__name__}: {fault}"[:300]}


def main() -> None:
    """Measure on the device and compare with the bars."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--gib", type=float, help="size of a save; 4 on cuda, 0.25 on cpu")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, same code")
    options = parser.parse_args()
    device = options.device
    size_bytes = int((options.gib or (4 if device == "cuda" else 0.25)) * GIB)
    count, repeats = (5_000, 3) if options.quick else (200_000, 4)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        progress("job.step()")
        alone = step_cost(folder / "steps", device, count)
        progress("job.step() of two ranks")
        ranks = two_ranks(folder / "ranks", 300 if options.quick else 2000)
        progress("equality")
        equal = equality(folder / "equal", device, 3 if options.quick else 14)
        model = weights(size_bytes, device)
        progress("a save")
        save = ours(folder / "save", model, device, repeats)
        beside = while_writing(folder / "beside", model, device)
        shutil.rmtree(folder / "save")
        shutil.rmtree(folder / "beside")
        rival = partial(distributed_checkpoint, folder, model, device=device, repeats=repeats)
        results = {
            "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
            "torch": torch.__version__,
            "save_gib": size_bytes / GIB,
            "step": alone,
            "step of two ranks": ranks,
            "interrupted trainings": equal,
            "save": save,
            "steps while writing": beside,
            "torch.save": attempt("torch.save", lambda: plain_save(folder, model, device)),
            **{
                f"DCP async_save{', pinned buffers kept' * cached}": attempt(
                    "DCP", partial(rival, cached=cached)
                )
                for cached in ((False, True) if device == "cuda" else (False,))
            },
        }
    bars = [bar("mean cost of job.step() in s", alone["mean_us"] * 1e-6, "<", MOST_STEP_S)]
    bars.append(bar("unequal results", equal["unequal"], "==", 0))
    bars.append(bar("requests without a checkpoint", equal["unsaved"], "==", 0))
    if device == "cuda":
        bars.append(bar("blocking time of a save in s", save["blocked_s"], "<", MOST_BLOCKED_S))
    finish("training_overhead", results, bars)


if __name__ == "__main__":
    main()
