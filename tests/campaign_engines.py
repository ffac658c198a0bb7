"""Engines for campaigns in tests: one that computes, one of real processes that outlive a kill."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from generated_runs import law_s
from steward.learn.estimators.applications.campaign_log import CampaignLog
from steward.learn.estimators.applications.runner import CampaignRunner, JobLook
from steward.model.campaign import Campaign, Parameter

__all__ = ["ComputedEngine", "ProcessEngine", "run_campaign"]

_SHIM = """
import json, os, pathlib, subprocess, sys, time
folder = pathlib.Path(sys.argv[1])
began = time.monotonic()
code = subprocess.run(sys.argv[2:]).returncode
draft = folder / "ended.tmp"
draft.write_text(json.dumps({"code": code, "seconds": time.monotonic() - began}))
draft.rename(folder / "ended")
"""


class ComputedEngine:
    """Jobs that are over when they are looked at; `fails` says which, by their arguments."""

    poll_s = 0.001

    def __init__(self, fails: frozenset[str] = frozenset()) -> None:
        self.tokens: dict[str, Sequence[str]] = {}
        self.submissions = 0
        self.most_open = 0
        self._fails = fails
        self._open: set[str] = set()

    def submit(
        self, argv: Sequence[str], options: Mapping[str, str], *, name: str, token: str
    ) -> str:
        self.submissions += 1
        self.tokens[token] = argv
        self._open.add(token)
        self.most_open = max(self.most_open, len(self._open))
        return token

    def look(self, job: str) -> JobLook:
        _, n, steps, mode = self.tokens[job]
        self._open.discard(job)
        if self._fails & {n, steps, mode}:
            return JobLook(over=True, seconds=0.1, why="exit status 3")
        taken = law_s({"n": int(n), "steps": int(steps), "mode": mode})
        return JobLook(over=True, finished=True, seconds=taken, memory_bytes=1e6 * int(n))


class ProcessEngine:
    """Processes of a session of their own; the folder of a token is made once, so is its process.

    Each start adds a line to the file `starts`.
    """

    poll_s = 0.02

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)

    def submit(
        self, argv: Sequence[str], options: Mapping[str, str], *, name: str, token: str
    ) -> str:
        job = self._folder / token
        try:
            job.mkdir()
        except FileExistsError:
            return token
        with (self._folder / "starts").open("a") as starts:
            starts.write(f"{token}\n")
        shim = [sys.executable, "-c", _SHIM, str(job), *argv]
        subprocess.run(["setsid", "sh", "-c", '"$@" &', "sh", *shim], check=True, cwd="/")
        return token

    def look(self, job: str) -> JobLook:
        try:
            ended = json.loads((self._folder / job / "ended").read_text())
        except FileNotFoundError:
            return JobLook(over=False)
        code = int(ended["code"])
        return JobLook(
            over=True, finished=code == 0, seconds=ended["seconds"], why=f"exit status {code}"
        )


def run_campaign(folder: Path) -> str:
    """Run a small campaign of real processes, in a process that a test kills."""
    log = CampaignLog(folder / "campaign")
    with log.locked():
        return CampaignRunner(sleeping(), log, ProcessEngine(folder / "jobs")).run()


def sleeping() -> Campaign:
    """Return a campaign of processes that sleep."""
    code = "import time; time.sleep(0.02 + {n} * 0.002)"
    return Campaign(
        name="sleep",
        command=(sys.executable, "-c", code),
        parameters=(Parameter(name="n", full=(100,), small=(5, 10, 20, 40)),),
        work=("n",),
        most_runs=8,
        most_full_runs=1,
        concurrency=2,
        width=0.001,
        budget_s=60.0,
    )


if __name__ == "__main__":
    run_campaign(Path(os.environ["CAMPAIGN_FOLDER"]))
