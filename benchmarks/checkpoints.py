"""Preempts real trainings at random moments and compares what they learned, bit by bit.

Each training is interrupted, resumed and interrupted again until it ends: by a request to save and
stop, by USR2 or TERM and SIGKILL once the checkpoint is there, or by SIGKILL at any moment (then it
loses what it did since its last checkpoint, and nothing else). Weights and buffers must equal those
of a training that nobody disturbed, and so must the next random numbers, which are counted apart.
The folder of a training that ended unequal is kept.

Modes whose packages are not installed are named in the result, not skipped in silence. Each
training is a process of its own, forked from one that has imported everything.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from report import bar, finish, progress
from small_training import MODES
from steward.training.checkpoints import faults_of
from steward.training.protocol import ANSWER, CAN_SAVE, SaveRequest, read_json

NEEDS = {"lightning": "lightning", "transformers": "transformers"}
WAYS = ("request", "usr2", "term", "kill")
# A signal that comes when the training has detached from signals, at its end, kills.
EXPECTED = (0, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGUSR2)
STEP_S = 0.01
LONGEST_S = 1800.0  # what hangs ends; a machine may be busy, or the benchmark suspended
fork = multiprocessing.get_context("fork")


class Run:
    """One start of a training: a process per rank."""

    def __init__(self, mode: str, folder: Path, *, step_s: float) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CAN_SAVE).unlink(missing_ok=True)
        size, meeting = (2, folder / f"meeting-{time.monotonic_ns()}") if mode == "ddp" else (1, "")
        self.processes = [
            fork.Process(target=_train, args=(mode, folder, step_s, rank, size, str(meeting)))
            for rank in range(size)
        ]
        for each in self.processes:
            each.start()

    @property
    def running(self) -> bool:
        """Return True while any rank runs."""
        return any(each.is_alive() for each in self.processes)

    def wait(self) -> list[int | None]:
        """Return the exit codes."""
        for each in self.processes:
            each.join(LONGEST_S)
        return [each.exitcode for each in self.processes]

    def send(self, number: signal.Signals) -> None:
        """Send a signal to all ranks."""
        for each in self.processes:
            if each.is_alive() and each.pid:
                os.kill(each.pid, number)


def _train(mode: str, folder: Path, step_s: float, rank: int, size: int, meeting: str) -> None:
    os.environ |= {"STEWARD_JOB_FOLDER": str(folder), "PAUSE_S": str(step_s)}
    if size > 1:
        os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank)}
        os.environ |= {"MEETING": f"file://{meeting}"}
    with (folder / f"log-{rank}").open("a") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    found = MODES[mode]()
    (folder / f"learning-{rank}").write_text(found)
    (folder / f"learning-{rank}").rename(folder / f"learned-{rank}-of-{size}")


def learned(folder: Path) -> list[list[str]]:
    """Return what each rank learned: a hash of its weights, and one of its next random numbers.

    Nothing until all ranks have ended: one of them may be killed when the other is through.
    """
    found = [each.read_text().split() for each in sorted(folder.glob("learned-*"))]
    complete = list(folder.glob(f"learned-*-of-{len(found)}"))
    return found if complete else []


def differing(found: list[list[str]], expected: list[list[str]]) -> list[str]:
    """Return what differs between two trainings: `weights`, `generators`, both or nothing."""
    if len(found) != len(expected):
        return ["weights", "generators"]
    both = zip(*(zip(*each, strict=True) for each in (found, expected)), strict=True)
    names = ("weights", "generators")
    return [name for name, (ours, theirs) in zip(names, both, strict=True) if ours != theirs]


def saved(folder: Path) -> set[Path]:
    """Return the complete checkpoints of a job."""
    places = [*folder.glob("checkpoints/step-*"), *folder.glob("output/checkpoint-*")]
    return {each for each in places if (each / "manifest.json").exists()}


def wait_for(run: Run, what: Any) -> bool:  # noqa: ANN401 - a function
    """Wait until something is true or the run ends; return True in the first case."""
    end_s = time.monotonic() + LONGEST_S
    while time.monotonic() < end_s:
        if what():
            return True
        if not run.running:
            return bool(what())
        time.sleep(0.002)
    raise TimeoutError(f"{run.folder}: neither ended nor saved within {LONGEST_S:.0f} s")


def preempt(run: Run, way: str, number: int, random_: random.Random) -> bool:
    """End a run at a random moment; return False if it was over before."""
    wait_for(run, (run.folder / CAN_SAVE).exists)
    time.sleep(random_.uniform(0.0, 30 * STEP_S))
    before = saved(run.folder)
    if way == "request":
        SaveRequest(id=f"r-{number}", do="save-and-stop").write(run.folder)
        run.wait()
        answer = run.folder / ANSWER
        return (
            answer.exists() and read_json(answer)["id"] == f"r-{number}" and not learned(run.folder)
        )
    if way != "kill":
        run.send(signal.SIGUSR2 if way == "usr2" else signal.SIGTERM)
        if not wait_for(run, lambda: saved(run.folder) - before):
            return False
    alive = run.running
    run.send(signal.SIGKILL)
    run.wait()
    return alive and not learned(run.folder)


def disturbed(mode: str, folder: Path, random_: random.Random) -> Counter[str]:
    """Train with interruptions; return how often each kind happened."""
    done: Counter[str] = Counter()
    for number in range(1, 100):
        way = random_.choice(WAYS if done.total() else WAYS[:3])
        run = Run(mode, folder, step_s=STEP_S)
        if preempt(run, way, number, random_):
            done[way] += 1
        elif learned(folder):
            break
        elif failed := [code for code in run.wait() if code not in EXPECTED]:
            log = (folder / "log-0").read_text()[-2000:]
            raise RuntimeError(f"{mode}, {way}: exit status {failed[0]}\n{log}")
        if damaged := [each for each in saved(folder) if faults_of(each)]:
            raise RuntimeError(f"{damaged[0]} is damaged")
        if done.total() >= 8:
            Run(mode, folder, step_s=0.0).wait()
            break
    return done


def campaign(mode: str, preemptions: int, seed: int) -> dict[str, Any]:
    """Disturb trainings of one mode until there were so many preemptions."""
    random_ = random.Random(f"{mode} {seed}")  # noqa: S311 - moments
    ways: Counter[str] = Counter()
    unequal: Counter[str] = Counter()
    trainings = 0
    place = Path(tempfile.mkdtemp(prefix=f"checkpoints-{mode}-"))
    reference = place / "reference"
    codes = Run(mode, reference, step_s=0.0).wait()
    expected = learned(reference)
    if any(codes) or not expected:
        raise RuntimeError(f"{mode}: failed undisturbed: {(reference / 'log-0').read_text()}")
    while ways.total() < preemptions:
        folder = place / str(trainings)
        ways += disturbed(mode, folder, random_)
        trainings += 1
        if differences := differing(learned(folder), expected):
            unequal.update(differences)
            progress(f"{folder}: unequal {' and '.join(differences)}; the folder is kept")
        else:
            shutil.rmtree(folder)
        progress(
            f"{mode}: {trainings} trainings, {ways.total()} preemptions,"
            f" {unequal['weights']} with unequal weights, {unequal['generators']} generators"
        )
    if not unequal:
        shutil.rmtree(place)
    return {
        "trainings": trainings,
        "preemptions": ways.total(),
        "ways": dict(ways),
        "unequal": unequal["weights"],
        "unequal_generators": unequal["generators"],
    }


def main() -> None:
    """Run every mode that can run here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="4 preemptions per mode, same code")
    parser.add_argument("--preemptions", type=int, default=45, help="per mode")
    parser.add_argument("--modes", default=",".join(MODES), help="which, separated by commas")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    wanted = options.modes.split(",")
    absent = [mode for mode in wanted if mode in NEEDS and not find_spec(NEEDS[mode])]
    for mode in wanted:
        if mode in NEEDS and mode not in absent:
            import_module(f"steward.training.{mode}")  # once, before the forks
    count = 4 if options.quick else options.preemptions
    modes = {mode: campaign(mode, count, options.seed) for mode in wanted if mode not in absent}
    total = sum(each["preemptions"] for each in modes.values())
    unequal = sum(each["unequal"] for each in modes.values())
    generators = sum(each["unequal_generators"] for each in modes.values())
    bars = [bar("unequal weights", unequal, "==", 0)]
    bars.append(bar("unequal generators", generators, "==", 0))
    if not options.quick:
        bars.append(bar("preemptions", total, ">=", 200))
    results = {
        "modes": modes,
        "not installed": absent,
        "seed": options.seed,
        "preemptions": total,
        "unequal": unequal,
        "unequal_generators": generators,
        "torch": torch.__version__,
    }
    finish("checkpoints", results, bars)


if __name__ == "__main__":
    main()
