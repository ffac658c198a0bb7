"""A GPU whose job is idle is lent to another and called back: how long, within what was promised?

Jobs run on the local engine as in `steward up`, advanced by its thread. `beside`: the owner idles
and stays where it is. `saved`: a training by the three lines saves, stops and goes on afterwards.
`suspended` (on a GPU): an unmodified PyTorch process whose memory the driver moves to the host. The
borrower is a training by the three lines; it is called back at a random moment. The time counts
from the call-back until its processes are gone; what was promised is fixed before each loan.

In the end every owner must have what it has undisturbed, bit by bit. Without `--device cuda` the
jobs are small savers on a CPU slot that write and sync `--mib` each time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pwd
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from report import bar, finish, progress
from steward.act.jobs.controller import JobController
from steward.act.jobs.job_thread import advancing
from steward.clients.local_jobs.devices import JobDevices
from steward.clients.local_jobs.engine import LocalEngine
from steward.clients.local_jobs.suspension import Suspension
from steward.clock import WallClock
from steward.errors import StewardError
from steward.model.actions import CallBack, Lend
from steward.model.identity import DecisionId, GpuId, JobId, TenantId
from steward.model.job import JobShape
from steward.model.job_loan import JobLoan, LoanWay
from steward.model.managed_job import JobSpec, LifeState
from steward.store.jobs import JobStore

LONGEST_S = 240.0
SMALL = r"""
import hashlib, json, os, pathlib, sys, time
folder = pathlib.Path(os.environ["STEWARD_JOB_FOLDER"])
steps, mib = int(sys.argv[1]), int(sys.argv[2])
def put(name, record):
    draft = folder / (name + ".tmp")
    draft.write_text(json.dumps(record)); draft.rename(folder / name)
at, old, state, step = folder / "state", folder / "answer.json", b"begin", 0
if at.exists():
    with at.open("rb") as file:
        step = int.from_bytes(file.read(8), "big"); state = file.read(32)
seen = json.loads(old.read_text())["id"] if old.exists() else ""
(folder / "done.json").unlink(missing_ok=True)
put("can_save.json", {"can": True, "seconds": 0.1})
while step < steps:
    state = hashlib.sha256(state).digest(); step += 1
    time.sleep(0.01)
    try:
        request = json.loads((folder / "request.json").read_text())
    except FileNotFoundError:
        continue
    if request["id"] == seen:
        continue
    seen, began = request["id"], time.monotonic()
    draft = folder / "state.tmp"
    with draft.open("wb") as file:
        file.write(step.to_bytes(8, "big") + state + bytes(mib << 20))
        file.flush(); os.fsync(file.fileno())
    draft.rename(at)
    put("answer.json", {"id": seen, "result": "saved", "step": step, "checkpoint": str(at),
                        "bytes": mib << 20, "seconds": time.monotonic() - began})
    if request["do"] == "save-and-stop":
        sys.exit(0)
(folder / "learned").write_text(state.hex())
put("done.json", {"step": step})
"""
TRAINING = r"""
import hashlib, os, sys, time
import torch
from steward import training
steps, mib = int(sys.argv[1]), int(sys.argv[2])
torch.manual_seed(1)
torch.use_deterministic_algorithms(True)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Dropout(0.1)).to("cuda")
model.register_buffer("ballast", torch.zeros(mib * 262144, device="cuda"))
optimizer = torch.optim.AdamW(model.parameters())
job = training.attach(model, optimizer, loader=range(steps))
for _ in job.batches(epochs=1):
    loss = model(torch.rand(32, 64, device="cuda")).square().mean()
    loss.backward(); optimizer.step(); optimizer.zero_grad()
    time.sleep(0.01)
    job.step()
weights = b"".join(each.detach().cpu().numpy().tobytes() for each in model.parameters())
with open(os.path.join(os.environ["STEWARD_JOB_FOLDER"], "learned"), "w") as file:
    file.write(hashlib.sha256(weights).hexdigest())
"""
# Knows nothing of steward: computes when there is work, else waits with all its memory.
UNMODIFIED = r"""
import hashlib, os, pathlib, sys, time
import torch
folder, mib = pathlib.Path(os.environ["STEWARD_JOB_FOLDER"]), int(sys.argv[1])
torch.manual_seed(1)
weights = torch.randn(mib * 262144, device="cuda")
model = torch.nn.Linear(512, 512).to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
done = 0
(folder / "ready").touch()
while not (folder / "finish").exists():
    wanted = len(list(folder.glob("work-*")))
    if wanted == done:
        time.sleep(0.05)
        continue
    for _ in range(20):
        loss = model(weights[: 64 * 512].view(64, 512)).square().mean()
        loss.backward(); optimizer.step(); optimizer.zero_grad()
    torch.cuda.synchronize()
    done += 1
    (folder / f"did-{done}").touch()
every = [*(each.detach() for each in model.parameters()), weights]
sums = [hashlib.sha256(each.cpu().numpy().tobytes()).hexdigest() for each in every]
(folder / "learned").write_text(" ".join(sums) + f" {done}")
"""
IDLE = "import time; time.sleep(100000)"


class Box:
    """One machine with one GPU or slot, its jobs, and what was seen of it."""

    def __init__(self, folder: Path, *, device: str, most_s: float) -> None:
        self.devices = JobDevices.find(slots=0 if device == "cuda" else 1, node="here")
        self.gpu = next(iter(self.devices.uuids), GpuId("here/cpu0"))
        self.engine = LocalEngine(folder / "jobs", grace_s=10.0, uuids=self.devices.uuids)
        self.store = JobStore(folder / "jobs.sqlite3")
        self.jobs = JobController(self.store, self.engine)
        self.suspension = Suspension(self.engine, self.devices.memory)
        self.jobs.lending.suspender = self.suspension
        self.jobs.lending.is_lost = self.devices.is_lost
        self.numbers = 0
        self.end_s = time.monotonic() + most_s

    def id(self) -> DecisionId:
        self.numbers += 1
        return DecisionId(f"d-{self.numbers}")

    def submit(self, code: str, *argv: object, requeue: bool = False) -> JobId:
        paths = os.pathsep.join(dict.fromkeys(each for each in sys.path if each))
        spec = JobSpec(
            argv=(sys.executable, "-c", code, *map(str, argv)),
            folder="/",
            shape=JobShape(gpus=1),
            tenant=TenantId("lab"),
            user=pwd.getpwuid(os.getuid()).pw_name,
            uid=os.getuid(),
            gid=os.getgid(),
            requeue=requeue,
            environment=(
                ("PATH", os.environ["PATH"]),
                ("PYTHONPATH", paths),
                ("CUBLAS_WORKSPACE_CONFIG", ":4096:8"),
                ("LD_LIBRARY_PATH", os.environ.get("LD_LIBRARY_PATH", "")),
            ),
        )
        (job,) = self.store.submit([spec], time.time())
        self.until(lambda: self.state(job.id) is LifeState.WAITING, f"{job.id} waits")
        return job.id

    def start(self, job: JobId) -> None:
        self.jobs.start(job, (self.gpu,), decision=self.id(), t_s=time.time())
        self.until(lambda: self.state(job) is not LifeState.STARTING, f"{job} runs")

    def state(self, job: JobId) -> LifeState:
        return self.store.job(job).state

    def until(self, ask: Callable[[], object], what: str) -> None:
        end_s = time.monotonic() + LONGEST_S
        while not ask():
            if time.monotonic() > end_s:
                logs = {x.id: self.engine.read_log(x.id, 0, 2000) for x in self.store.open()}
                sys.exit(f"waited {LONGEST_S:.0f} s for: {what}; {logs}; {self.jobs.faults}")
            time.sleep(0.01)

    def able(self, job: JobId) -> None:
        """Wait until a job that runs has told that it can save."""
        file = self.engine.work_folder(job) / "can_save.json"
        self.until(lambda: file.exists() or self.state(job).ended, f"{job} can save")

    def lend(self, owner: JobId, borrower: JobId, way: LoanWay) -> tuple[JobLoan, float]:
        """Lend, and return the loan and how long it took until the borrower ran."""
        (self.engine.work_folder(borrower) / "can_save.json").unlink(missing_ok=True)
        action = Lend(gpus=(self.gpu,), owner=owner, borrower=borrower, way=way)
        asked_s = time.monotonic()
        loan = self.jobs.lending.lend(action, decision=self.id(), t_s=time.time())
        self.until(lambda: self.loan(loan).phase in ("lent", "over"), f"{loan.id} is lent")
        if self.loan(loan).failed:
            sys.exit(f"not lent: {self.loan(loan).failed}")
        took_s = time.monotonic() - asked_s
        self.able(borrower)
        return self.loan(loan), took_s

    def call_back(self, loan: JobLoan) -> JobLoan:
        action = CallBack(loan=loan.id, gpus=loan.gpus, owner=loan.owner, borrower=loan.borrower)
        self.jobs.lending.call_back(action, decision=self.id(), t_s=time.time(), why="benchmark")
        self.until(lambda: self.loan(loan).is_over, f"{loan.id} is over")
        return self.loan(loan)

    def loan(self, loan: JobLoan) -> JobLoan:
        found = self.store.loans.find(loan.id)
        assert found is not None
        return found

    def learned(self, job: JobId) -> str:
        file = self.engine.work_folder(job) / "learned"
        self.until(file.exists, f"{job} has learned: {self.engine.read_log(job, 0, 2000)!r}")
        return file.read_text()


class Telemetry:
    """Memory and use of the GPU, twice a second."""

    def __init__(self, box: Box) -> None:
        self.rows: list[dict[str, Any]] = []
        self._box = box
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        if box.devices.driver is not None:
            self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.5):
            held = self._box.devices.memory(self._box.gpu)
            self.rows.append({"t_s": time.time(), "bytes_by_process": held})

    def stop(self) -> list[dict[str, Any]]:
        self._stop.set()
        return self.rows


def main() -> None:
    """Lend and call back, way by way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--ways", default="")
    parser.add_argument("--call-backs", type=int, default=60, help="of each way")
    parser.add_argument("--mib", type=int, default=16, help="that a borrower saves")
    parser.add_argument("--owner-mib", type=int, default=4096, help="on the GPU, if suspended")
    parser.add_argument("--most-s", type=float, default=1500.0, help="of each way")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", help="a file for loans, telemetry and events")
    told = parser.parse_args()
    ways: list[Any] = told.ways.split(",") if told.ways else ["beside", "saved"]
    if told.device == "cuda" and not told.ways:
        ways.append("suspended")
    chance = random.Random(told.seed)  # noqa: S311
    results: dict[str, Any] = {"device": told.device}
    with tempfile.TemporaryDirectory() as name:
        box = Box(Path(name), device=told.device, most_s=told.most_s)
        telemetry = Telemetry(box)
        with advancing(box.jobs, WallClock()):
            for way in ways:
                box.end_s = time.monotonic() + told.most_s
                results[way] = one_way(box, way, told, chance)
                progress(f"{way}: {json.dumps(results[way])}")
        record(told.record, box, telemetry.stop())
    _finish(results, ways, told)


def one_way(
    box: Box, way: LoanWay, told: argparse.Namespace, chance: random.Random
) -> dict[str, Any]:
    """Lend and call back again and again; compare what the owner has with an undisturbed run."""
    owner, expected = make_owner(box, way, told)
    code = TRAINING if told.device == "cuda" else SMALL
    borrower = box.submit(code, 1_000_000, told.mib, requeue=True)
    loans: list[JobLoan] = []
    lent_s: list[float] = []
    back_s: list[float] = []
    for _ in range(told.call_backs):
        if time.monotonic() > box.end_s or box.state(owner).ended:
            break
        loan, took_s = box.lend(owner, borrower, way)
        lent_s.append(took_s)
        time.sleep(chance.uniform(0.0, 0.5))
        loans.append(box.call_back(loan))
        free_s, over_s = loans[-1].free_s or 0.0, loans[-1].over_s or 0.0
        back_s.append(over_s - free_s)
        if len(loans) % 10 == 0:
            progress(f"{way}: {len(loans)} call-backs, the last {loans[-1].took_s:.2f} s")
    equal = end_owner(box, way, owner) == expected
    box.jobs.cancel(borrower, t_s=time.time(), why="the benchmark is over")
    took = [each.took_s or 0.0 for each in loans]
    kept = [(each.took_s or 0.0) <= each.promised_s for each in loans]
    results: dict[str, Any] = {
        "call_backs": len(loans),
        "took_p50_s": float(np.percentile(took, 50)),
        "took_p95_s": float(np.percentile(took, 95)),
        "took_max_s": max(took),
        "promised_first_s": loans[0].promised_s,
        "promised_last_s": loans[-1].promised_s,
        "promises_kept": sum(kept),
        "lent_p50_s": float(np.percentile(lent_s, 50)),
        "owner_back_p50_s": float(np.percentile(back_s, 50)),
        "owner_back_p95_s": float(np.percentile(back_s, 95)),
        "owner_equal": equal,
    }
    for kind in ("suspend", "resume"):
        known = box.store.loans.measured(owner, kind)
        if known:
            gib = [each.size_bytes / 2**30 for each in known]
            results[kind] = {
                "gib": round(float(np.mean(gib)), 2),
                "p50_s": float(np.percentile([each.seconds for each in known], 50)),
                "p95_s": float(np.percentile([each.seconds for each in known], 95)),
            }
    return results


def make_owner(box: Box, way: str, told: argparse.Namespace) -> tuple[JobId, str]:
    """Start an owner, and return what it should have in the end."""
    if way == "suspended":
        refused = ""
        owner = box.submit(UNMODIFIED, told.owner_mib)
        box.start(owner)
        box.until((box.engine.work_folder(owner) / "ready").exists, "the owner is ready")
        refused = box.suspension.refusal(box.store.job(owner))
        if refused:
            sys.exit(f"it cannot be suspended: {refused}")
        return owner, ""
    if way == "beside":
        owner = box.submit(IDLE)
        box.start(owner)
        return owner, "runs"
    code, each = (TRAINING, 60) if told.device == "cuda" else (SMALL, 100)
    steps = each * told.call_backs
    plain = box.submit(code, steps, 4)
    box.start(plain)
    box.until(lambda: box.state(plain).ended, "the undisturbed owner ended")
    owner = box.submit(code, steps, 4)
    box.start(owner)
    box.able(owner)
    return owner, box.learned(plain)


def end_owner(box: Box, way: str, owner: JobId) -> str:
    """Let an owner end, and return what it has; of a suspended one, if it equals a new one's."""
    if way == "beside":
        found = "runs" if box.state(owner).runs else box.state(owner).value
        box.jobs.cancel(owner, t_s=time.time(), why="the benchmark is over")
        box.until(lambda: box.state(owner).ended, "the owner ended")
        return found
    if way == "saved":
        box.until(lambda: box.state(owner).ended, "the owner ended")
        return box.learned(owner)
    disturbed = work_and_finish(box, owner)
    fresh = box.submit(UNMODIFIED, int(box.store.job(owner).spec.argv[-1]))
    box.start(fresh)
    box.until((box.engine.work_folder(fresh) / "ready").exists, "the second owner is ready")
    return "" if work_and_finish(box, fresh) == disturbed else "unequal"


def work_and_finish(box: Box, owner: JobId) -> str:
    """Give an unmodified owner three pieces of work, and return what it has in the end."""
    folder = box.engine.work_folder(owner)
    for number in range(1, 4):
        (folder / f"work-{number}").touch()
        box.until((folder / f"did-{number}").exists, f"piece {number} of work")
    (folder / "finish").touch()
    box.until(lambda: box.state(owner).ended, "the owner ended")
    return box.learned(owner)


def record(path: str | None, box: Box, rows: list[dict[str, Any]]) -> None:
    """Write what happened, for a fixture."""
    if path is None:
        return
    loans = [
        {
            "id": each.id,
            "owner": each.owner,
            "borrower": each.borrower,
            "way": each.way,
            "promised_s": each.promised_s,
            "took_s": each.took_s,
            "size_bytes": each.size_bytes,
            "notes": [[note.t_s, note.text] for note in each.notes],
        }
        for each in box.store.loans.newest(10_000)
    ]
    lives = {
        job.id: [[each.t_s, each.state.value, each.why] for each in job.events]
        for job in box.store.newest(100)
    }
    text = json.dumps({"loans": loans, "jobs": lives, "telemetry": rows})
    Path(path).write_text(text, encoding="utf-8")
    progress(f"{path}: {len(text)} bytes, sha256 {hashlib.sha256(text.encode()).hexdigest()[:12]}")


def _finish(results: dict[str, Any], ways: list[str], told: argparse.Namespace) -> None:
    total = sum(results[way]["call_backs"] for way in ways)
    kept = sum(results[way]["promises_kept"] for way in ways)
    unequal = sum(not results[way]["owner_equal"] for way in ways)
    least = 1 if told.device == "cuda" else min(100, told.call_backs * len(ways))
    bars = [
        bar("call-backs", total, ">=", least),
        bar("share of promises kept", kept / max(total, 1), ">=", 0.95),
        bar("owners with other results than undisturbed", unequal, "<=", 0),
    ]
    finish("lending", results, bars)


if __name__ == "__main__":
    try:
        main()
    except StewardError as fault:
        sys.exit(str(fault))
