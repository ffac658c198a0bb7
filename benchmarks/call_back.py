"""Two trainings take turns on one GPU: how long is it from the call back until the GPU is free?

Both run as jobs of the local engine, each in its own process behind its shim, and save by the three
lines of `steward.training`. Whoever runs is called back at a random moment; the time counts from
the request until its processes are gone and, on a GPU, until the driver lists none of them. What
both have learned in the end must equal, bit by bit, what they learn when nobody disturbs them.

The promise to a job is what its own earlier call-backs give: once ten are known, the 95th
percentile of them and half as much again. It is made before each call back and judged after it.

`--device cuda` needs a GPU (its UUID goes to the job as CUDA_VISIBLE_DEVICES); `--gib` makes the
weights large enough for a save to take a while.
"""

from __future__ import annotations

import argparse
import os
import pwd
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from report import bar, finish, progress
from steward.act.jobs.controller import JobController
from steward.clients.local_jobs.engine import LocalEngine
from steward.clients.nvml import shared_registry
from steward.model.identity import DecisionId, GpuId, JobId, TenantId
from steward.model.job import JobShape
from steward.model.managed_job import JobSpec, LifeState
from steward.store.jobs import JobStore
from steward.training.protocol import CAN_SAVE

KNOWN = 10  # call-backs before the first promise
MARGIN = 1.5
GPU = GpuId("here/gpu0")
LONGEST_S = 300.0
TRAINING = r"""
import hashlib, os, sys, time
import torch
from steward import training

device, steps, mib, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
torch.manual_seed(seed)
torch.use_deterministic_algorithms(True)
side = 64
model = torch.nn.Sequential(torch.nn.Linear(side, side), torch.nn.Dropout(0.1)).to(device)
model.register_buffer("ballast", torch.zeros(mib * 262144, device=device))
optimizer = torch.optim.AdamW(model.parameters())
job = training.attach(model, optimizer, loader=range(steps))
for _ in job.batches(epochs=1):
    loss = model(torch.rand(32, side, device=device)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.005)
    job.step()
weights = b"".join(each.detach().cpu().numpy().tobytes() for each in model.parameters())
with open(os.path.join(os.environ["STEWARD_JOB_FOLDER"], "learned"), "w") as file:
    file.write(hashlib.sha256(weights).hexdigest())
"""


class Box:
    """One machine with one GPU (or slot) and its jobs."""

    def __init__(self, folder: Path, *, device: str) -> None:
        self.driver: Any = None
        uuids: dict[GpuId, str] = {}
        if device == "cuda":
            self.driver, uuids = _driver()
        self.engine = LocalEngine(folder / "jobs", grace_s=20.0, uuids=uuids)
        self.store = JobStore(folder / "jobs.sqlite3")
        self.jobs = JobController(self.store, self.engine)
        self.decisions = 0

    def submit(self, *argv: str) -> JobId:
        paths = os.pathsep.join(dict.fromkeys(each for each in sys.path if each))
        spec = JobSpec(
            argv=(sys.executable, "-c", TRAINING, *argv),
            folder="/",
            shape=JobShape(gpus=1),
            tenant=TenantId("lab"),
            user=pwd.getpwuid(os.getuid()).pw_name,
            uid=os.getuid(),
            gid=os.getgid(),
            environment=(
                ("PATH", os.environ["PATH"]),
                ("PYTHONPATH", paths),
                ("CUBLAS_WORKSPACE_CONFIG", ":4096:8"),
                ("LD_LIBRARY_PATH", os.environ.get("LD_LIBRARY_PATH", "")),
            ),
        )
        (job,) = self.store.submit([spec], time.time())
        self.until(job.id, LifeState.WAITING)
        return job.id

    def decision(self) -> DecisionId:
        self.decisions += 1
        return DecisionId(f"d-{self.decisions}")

    def start(self, job: JobId) -> None:
        (self.engine.work_folder(job) / CAN_SAVE).unlink(missing_ok=True)  # of the attempt before
        self.jobs.start(job, (GPU,), decision=self.decision(), t_s=time.time())

    def until(self, job: JobId, *states: LifeState) -> LifeState:
        end_s = time.monotonic() + LONGEST_S
        while (found := self.store.job(job).state) not in states:
            if time.monotonic() > end_s:
                log = self.engine.read_log(job, 0, 4000).decode(errors="replace")
                sys.exit(f"job {job} is {found.value} after {LONGEST_S:.0f} s: {log}")
            self.jobs.advance(time.time())
            time.sleep(0.01)
        return found

    def call_back(self, job: JobId) -> float | None:
        """Ask for the GPU; return how long it took until it was free, None if the job had ended."""
        asked_s = time.monotonic()
        self.jobs.preempt(job, decision=self.decision(), t_s=time.time(), why="called back")
        state = self.until(job, *ENDS, LifeState.PREEMPTED)
        while self.driver is not None and any(self.engine.owns(p) for p in self.driver.pids(0)):
            time.sleep(0.01)
        return time.monotonic() - asked_s if state is LifeState.PREEMPTED else None

    def can_save(self, job: JobId) -> bool:
        """Wait until a job that was started can save; False: it has ended before."""
        while not (self.engine.checkpointing(job).able and self.store.job(job).state.runs):
            self.jobs.advance(time.time())
            if self.store.job(job).state in ENDS:
                return False
            time.sleep(0.01)
        return True

    def learned(self, job: JobId) -> str:
        file = self.engine.work_folder(job) / "learned"
        if not file.exists():
            sys.exit(f"job {job} learned nothing: {self.engine.read_log(job, 0, 4000)!r}")
        return file.read_text()


ENDS = (LifeState.FINISHED, LifeState.FAILED, LifeState.LOST)


def _driver() -> tuple[Any, dict[GpuId, str]]:
    driver = shared_registry().acquire().driver
    return driver, {GPU: driver.device(0).uuid}


def main() -> None:
    """Undisturbed, then in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--call-backs", type=int, default=110)
    parser.add_argument("--mib", type=int, default=16, help="of weights that learn nothing")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most-s", type=float, default=3000.0, help="stop calling back after this")
    told = parser.parse_args()
    chance = random.Random(told.seed)  # noqa: S311
    steps = str(told.call_backs * 60)
    with tempfile.TemporaryDirectory() as name:
        box = Box(Path(name), device=told.device)
        trainings = [(told.device, steps, str(told.mib), str(seed)) for seed in (1, 2)]
        plain = [box.submit(*each) for each in trainings]
        for job in plain:
            box.start(job)
            box.until(job, *ENDS)
        progress("undisturbed runs have ended")
        turns = [box.submit(*each) for each in trainings]
        took, kept = take_turns(box, turns, told, chance)
        for job in turns:
            if box.store.job(job).state not in ENDS:
                box.start(job)
                box.until(job, *ENDS)
        unequal = sum(
            box.learned(one) != box.learned(other) for one, other in zip(plain, turns, strict=True)
        )
        attempts = [len(box.store.job(job).attempts) for job in turns]
    every = sorted(each for some in took for each in some)
    results = {
        "device": told.device,
        "weights_mib": told.mib,
        "call_backs": len(every),
        "attempts": attempts,
        "call_back_p50_s": float(np.percentile(every, 50)),
        "call_back_p95_s": float(np.percentile(every, 95)),
        "call_back_max_s": every[-1],
        "promises": len(kept),
        "promises_kept": sum(kept),
        "unequal": unequal,
    }
    bars = [
        bar("call-backs", len(every), ">=", min(told.call_backs, 100)),
        bar("share of promises kept", sum(kept) / max(len(kept), 1), ">=", 0.95),
        bar("unequal results", unequal, "<=", 0),
    ]
    finish("call_back", results, bars)


def take_turns(
    box: Box, turns: list[JobId], told: argparse.Namespace, chance: random.Random
) -> tuple[list[list[float]], list[bool]]:
    """Let the jobs run in turn, each called back at a random moment."""
    took: list[list[float]] = [[], []]
    kept: list[bool] = []
    end_s = time.monotonic() + told.most_s
    for turn in range(told.call_backs):
        mine = took[turn % 2]
        job = turns[turn % 2]
        if time.monotonic() > end_s or box.store.job(job).state in ENDS:
            break
        box.start(job)
        if not box.can_save(job):
            continue
        time.sleep(chance.uniform(0.0, 0.5))
        promise_s = MARGIN * float(np.percentile(mine, 95)) if len(mine) >= KNOWN else None
        needed_s = box.call_back(job)
        if needed_s is None:
            continue
        if promise_s is not None:
            kept.append(needed_s <= promise_s)
        mine.append(needed_s)
        if turn % 10 == 9:
            progress(f"{turn + 1} turns, the last took {needed_s:.2f} s")
    return took, kept


if __name__ == "__main__":
    main()
