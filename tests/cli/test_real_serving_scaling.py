"""The gateway, `steward up` and stand-in servers as processes: load rises, falls, steward dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from patience import LONG_S, free_port, until
from steward.clients.server_process import MARK

pytestmark = pytest.mark.real

STEWARD = [sys.executable, "-m", "steward"]


class Bed:
    """A gateway, and a steward that can be killed and started again on the same folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"http://127.0.0.1:{free_port()}"
        self.config = folder / "steward.toml"
        command = " ".join(
            [
                *STEWARD,
                *("serve", "stand-in", "--port", "{port}", "--model", "m", "--exact"),
                *("--max-sequences", "4", "--step-ms", "20"),
            ]
        )
        self.config.write_text(
            f"""
[loop]
autonomy = "auto"
[store]
folder = "{folder}/data"
[observe]
collectors = ["host"]
[learn]
miners = []
estimators = []
[decide]
policies = []
[rules]
on = false
[jobs]
enabled = false
[service]
port = 0
[gateway]
port = {self.url.rpartition(":")[2]}
health_every_s = 0.5
estimator = "none"
[serving]
gateway = "{self.url}"
scaler = "slack"
scaler_options = {{ memory_s = 10.0, idle_s = 2.0 }}
every_s = 0.5
dry_run = false
[instances.chat]
model = "m"
command = "{command}"
least = 1
most = 3
limit = 4
start_s = 3.0
stop_within_s = 5.0
"""
        )
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{words[0]}-{len(self.running)}.log").open("wb")
        made = subprocess.Popen(
            [*STEWARD, *words, "--config", str(self.config)], stdout=log, stderr=log
        )
        log.close()
        self.running.append(made)
        return made

    def steward(self) -> subprocess.Popen[bytes]:
        return self.start("up", "--no-browser")

    def status(self) -> dict[str, Any]:
        try:
            found = httpx.get(f"{self.url}/steward/v1/status", timeout=30.0).json()
        except httpx.HTTPError:
            return {"instances": []}
        return dict(found)

    def serving(self) -> list[str]:
        instances = self.status()["instances"]
        return sorted(each["name"] for each in instances if each["state"] == "serving")

    def ask(self, tokens: int = 100) -> int:
        body = {"model": "m", "prompt": "hello " * 20, "max_tokens": tokens}
        return httpx.post(f"{self.url}/v1/completions", json=body, timeout=300.0).status_code

    def stories(self) -> list[dict[str, Any]]:
        words = ["decisions", "list", "--json", "--config", str(self.config)]
        text = subprocess.run([*STEWARD, *words], capture_output=True, check=True).stdout
        return list(json.loads(text))

    def servers(self) -> Counter[str]:
        """Return how many leading processes there are of each instance, whoever knows of them."""
        found: Counter[str] = Counter()
        for process in Path("/proc").glob("[0-9]*"):
            pid = process.name
            try:
                environment = (process / "environ").read_bytes().split(b"\0")
                session = (process / "stat").read_bytes().rpartition(b") ")[2].split()[3]
                folder = str((process / "fd" / "1").readlink())
            except OSError:
                continue
            marks = [each for each in environment if each.startswith(MARK.encode() + b"=")]
            if marks and session == pid.encode() and folder.startswith(str(self.folder)):
                found[marks[0].decode().partition("=")[2].partition(":")[0]] += 1
        return found

    def end(self) -> None:
        for each in self.running:
            each.kill()
            each.wait()
        for file in self.folder.glob("data/serving/instances/*.json"):
            pid = json.loads(file.read_bytes()).get("pid")
            if pid is not None:
                with suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    made = Bed(tmp_path)
    try:
        yield made
    finally:
        made.end()


def test_instances_follow_the_load_and_none_is_orphaned_or_started_twice(bed: Bed) -> None:
    bed.start("serve", "gateway")
    until(lambda: "policy" in bed.status(), why="the gateway")
    first = bed.steward()
    until(lambda: bed.serving() == ["chat-1"], why="the least number of instances")

    answers: list[int] = []
    stop = threading.Event()

    def client() -> None:
        while not stop.is_set():
            answers.append(bed.ask())

    clients = [threading.Thread(target=client) for _ in range(40)]
    for each in clients:
        each.start()
    until(lambda: len(bed.servers()) > 1, why="a start by load")
    first.send_signal(signal.SIGKILL)  # in the middle of a start, as likely as not
    first.wait()
    again = bed.steward()
    until(lambda: len(bed.serving()) == 3, why="three instances")
    at_peak = bed.servers()

    stop.set()
    for each in clients:
        each.join(LONG_S)
    again.send_signal(signal.SIGKILL)
    again.wait()
    bed.steward()
    until(lambda: len(bed.serving()) == 1 and len(bed.servers()) == 1, why="drains")
    until(lambda: {each["state"] for each in bed.stories()} == {"done"}, why="the last receipt")

    assert at_peak == {"chat-1": 1, "chat-2": 1, "chat-3": 1}
    assert [*bed.servers()] == bed.serving()
    assert {*answers} == {200}
    types = [each["action"]["type"] for each in bed.stories()]
    assert types.count("start-instance") == 3
    assert types.count("drain-instance") == 2
