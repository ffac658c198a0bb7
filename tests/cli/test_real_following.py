"""Jobs of a plan over a real Slurm and a local engine: moved in time, and not lost with a site."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from beds.slurm import SlurmBed, slurm_bed
from patience import LONG_S, until
from steward.clients.site_health import ask_health
from steward.model.site import SiteState

pytestmark = pytest.mark.real

CONFIG = """\
[loop]
every_s = 0.5
autonomy = "auto"
[observe]
collectors = []
timeout_s = 30.0
[learn]
miners = []
estimators = []
[jobs]
enabled = false
[planning]
every_s = 1.0
lost_after_s = 15.0
move_every_s = 600.0
catalog = ["{folder}/sites.yaml"]
[sites.hpc.jobs]
engine = "slurm"
[sites.hpc.plugs.slurm]
conf = "{folder}/slurm.conf"
[sites.box.act]
actuator = "local"
[sites.box.jobs]
enabled = true
slots = 2
"""
SITES = """\
sites:
  - name: cluster
    engine: slurm
    steward_site: hpc
    source: {text: by hand, as_of: 2026-11-01}
    queues:
      - {name: PARTITION, cores_per_node: 4, memory_per_node: 1 GB,
         charging: {basis: core-hour, rate: 1}}
  - name: workstation
    engine: local
    steward_site: box
    source: {text: by hand, as_of: 2026-11-01}
    queues:
      - {name: q, cores_per_node: 4, memory_per_node: 1 GB, charging: {basis: core-hour, rate: 9}}
"""
TRAIN = """\
import os, sys, time
from steward import training


class Counter:
    seen = []
    def state_dict(self):
        return {"seen": self.seen}
    def load_state_dict(self, state):
        self.seen = state["seen"]


steps, pause_s = int(sys.argv[1]), float(sys.argv[2])
counter = Counter()
job = training.attach(counter=counter, every_s=5)
begun = job.steps
while job.steps < steps:
    time.sleep(pause_s if "SLURM_JOB_ID" in os.environ else 0.02)
    counter.seen = [*counter.seen, job.steps + 1]
    job.step()
whole = counter.seen == list(range(1, steps + 1))
with open(sys.argv[3], "a") as out:
    out.write(f"{whole} from {begun}\\n")
"""
STEPS = 600


class Bed:
    """A `steward up` over both sites, which can be killed and started again."""

    def __init__(self, slurm: SlurmBed) -> None:
        self.slurm, self.folder = slurm, slurm.folder
        self.out = self.folder / "out.txt"
        partition = slurm.run("sinfo", "--noheader", "--format=%R").split()[0]
        (self.folder / "sites.yaml").write_text(SITES.replace("PARTITION", partition))
        (self.folder / "steward.toml").write_text(CONFIG.format(folder=self.folder))
        (self.folder / "train.py").write_text(TRAIN)

    def command(self, *words: str) -> list[str]:
        where = ("--config", str(self.folder / "steward.toml"), "--data", str(self.folder / "data"))
        at = words.index("--") if "--" in words else len(words)
        return [sys.executable, "-m", "steward", *words[:at], *where, *words[at:]]

    @contextmanager
    def up(self) -> Iterator[subprocess.Popen[bytes]]:
        command = self.command("up", "--port", "0", "--no-browser", "--json")
        with (self.folder / "up.log").open("ab") as log:
            program = subprocess.Popen(command, stdout=log, stderr=log, env=self.slurm.env)
        try:
            box = self.folder / "data" / "sites" / "box" / "steward.sock"
            until(lambda: ask_health("box", box).state is SiteState.FINE, why="the box")
            yield program
        finally:
            program.kill()
            program.wait()

    def asked(self, *words: str) -> str:
        done = subprocess.run(
            self.command(*words), env=self.slurm.env, capture_output=True, text=True, check=False,
            cwd=self.folder,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def submit(self, *, pause_s: float, planned: str, deadline: str) -> str:
        plan = self.asked(
            "estimate", "plan", "--run-time", f"cpu={planned}", "--deadline", deadline, "--saves",
            "--save-time", "1s", "--sites", "cluster,workstation", "--wait", "cluster=1s",
            "--name", "count", "--json",
        )  # fmt: skip
        (self.folder / "plan.json").write_text(plan)
        assert json.loads(plan)["front"][0]["site"] == "cluster"
        train = (str(self.folder / "train.py"), str(STEPS), str(pause_s), str(self.out))
        made = self.asked(
            "jobs", "submit", "--plan", str(self.folder / "plan.json"), "--steps", str(STEPS),
            "--json", "--", sys.executable, *train,
        )  # fmt: skip
        return str(json.loads(made)["followed"])

    def job(self, id_: str) -> dict[str, Any]:
        return dict(json.loads(self.asked("jobs", "plans", id_, "--json")))

    def runs(self, id_: str) -> list[tuple[str, str]]:
        return [(each["site"], each["state"]) for each in self.job(id_)["runs"]]


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    with slurm_bed(tmp_path, nodes=("n1",)) as slurm:
        yield Bed(slurm)


@pytest.mark.timeout(10 * LONG_S)
def test_a_job_that_would_be_late_is_moved_with_its_checkpoint_over_a_kill_and_is_in_time(
    bed: Bed,
) -> None:
    with bed.up() as program:
        id_ = bed.submit(pause_s=1.0, planned="60s..90s", deadline="420s")
        until(lambda: len(bed.runs(id_)) > 1, why="it is moved")
        program.send_signal(signal.SIGKILL)  # in the middle of the move, or right after
        program.wait()
    with bed.up():
        until(lambda: bed.job(id_)["end"] is not None, why="it ends")

    job = bed.job(id_)
    assert job["end"] == "completed"
    assert [each["site"] for each in job["runs"]] == ["cluster", "workstation"]
    assert job["runs"][1]["from_share"] > 0
    [line] = bed.out.read_text().splitlines()  # once
    assert line.startswith("True from ")
    assert line != "True from 0"
    assert job["ended_s"] < job["deadline_s"]


@pytest.mark.timeout(10 * LONG_S)
def test_a_job_of_a_site_that_is_lost_goes_on_elsewhere_and_its_copy_is_ended(bed: Bed) -> None:
    with bed.up():
        id_ = bed.submit(pause_s=0.5, planned="250s..400s", deadline="900s")
        until(lambda: bed.runs(id_)[0][1] == "running", why="it runs")
        time.sleep(12)  # it saves every five seconds
        stopped = [bed.slurm.daemons["slurmctld"].pid, *_trainings(bed)]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            until(lambda: bed.job(id_)["end"] is not None, why="it ends elsewhere")
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
        until(lambda: bed.runs(id_)[0][1] == "stopped", why="its copy is ended")

    job = bed.job(id_)
    assert job["end"] == "completed"
    assert [each["site"] for each in job["runs"]] == ["cluster", "workstation"]
    assert job["runs"][1]["from_share"] > 0
    [line] = bed.out.read_text().splitlines()
    assert line.startswith("True from ")
    assert line != "True from 0"


def _trainings(bed: Bed) -> list[int]:
    """Return the processes of the training."""
    mark = str(bed.folder / "train.py").encode()
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            words = (each / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if mark in words and b"submit" not in words:
            found.append(int(each.name))
    return found
