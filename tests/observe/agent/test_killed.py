"""kill -9 of agent and server at random: what was acknowledged is there, once, and all is readable.

The agent acknowledges a sample when it is in the agent's buffer; the server when it is in its own.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from patience import LONG_S, free_port, until
from steward.model.frame import Frame
from steward.observe.intake import Intake
from steward.store.recording import Recording

PROGRAMS = Path(__file__).parent / "programs"
T0 = time.time() // 1000 * 1000 - 86_400
AT_LEAST = 11  # parcels that the agent has taken before a process is killed


@dataclass
class Trial:
    """An agent and a server, each started anew whenever it was killed."""

    folder: Path
    port: int = field(default_factory=free_port)
    runs: int = 0
    server: subprocess.Popen[bytes] | None = None
    agent: subprocess.Popen[bytes] | None = None

    def start_server(self) -> None:
        self.server = self._start("server.py", self.folder / "server", str(self.port))
        until(self._listens)

    def start_agent(self, run: str | None = None) -> None:
        if run is None:
            run, self.runs = str(self.runs), self.runs + 1
        url = f"http://127.0.0.1:{self.port}"
        self.agent = self._start("agent.py", self.folder / "agent", url, run)

    def kill(self, program: subprocess.Popen[bytes] | None) -> None:
        assert program is not None
        assert program.poll() is None, "it ended by itself"
        program.kill()
        program.wait()

    def close(self) -> None:
        for program in (self.server, self.agent):
            if program is not None and program.poll() is None:
                program.kill()
                program.wait()

    def parcels(self) -> int:
        return (self.folder / "said").read_bytes().count(b"\n")

    def acknowledged(self) -> set[tuple[float, str]]:
        lines = (self.folder / "said").read_text().split("\n")[:-1]
        message = [line.split() for line in lines]
        return {
            (T0 + 10 * int(number) + each, f"n1/gpu{run}")
            for run, number in message
            for each in range(10)
        }

    def _start(self, program: str, *args: Path | str) -> subprocess.Popen[bytes]:
        with (self.folder / "said").open("ab") as message:
            return subprocess.Popen(
                [sys.executable, PROGRAMS / program, *args],
                stdout=message,
                stderr=subprocess.DEVNULL,  # connections break when a process is killed
                env={**os.environ, "POLARS_MAX_THREADS": "1", "T0": str(T0)},
            )

    def _listens(self) -> bool:
        with closing(socket.socket()) as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0


def stored(folder: Path) -> Frame:
    """Return all that the server has, with what it has acknowledged and not yet stored."""
    with closing(Intake(folder / "intake")) as intake:
        assert [message for message in intake._spool.damage() if "stepped over" in message] == []
        recording = Recording(folder / "store")
        with closing(recording):
            while tables := intake.collect(T0).tables:
                for table in tables:
                    recording.telemetry.append(table)
            rows = recording.telemetry.read(from_s=0.0, to_s=T0 * 2)
            assert recording.damage() == ()
    return rows.filter(rows["gpu.busy_share"].is_not_null())


def run_trial(folder: Path, kills: list[str], dice: random.Random) -> None:
    trial = Trial(folder)
    try:
        trial.start_server()
        trial.start_agent()
        for name in kills:
            wanted = trial.parcels() + AT_LEAST
            until(lambda least=wanted: trial.parcels() >= least)  # type: ignore[misc]
            time.sleep(dice.uniform(0.0, 0.4))
            if name == "server":
                trial.kill(trial.server)
                trial.start_server()
            else:
                trial.kill(trial.agent)
                trial.start_agent()
        trial.kill(trial.agent)
        trial.start_agent("-")
        assert trial.agent is not None
        assert trial.agent.wait(LONG_S) == 0
        trial.kill(trial.server)
    finally:
        trial.close()

    rows = stored(folder / "server")
    found = list(rows.select("t_s", "entity").iter_rows())
    acknowledged = trial.acknowledged()
    assert len(acknowledged) > 100 * len(kills)
    assert acknowledged - set(found) == set()
    assert len(found) == len(set(found))  # none twice
    unacknowledged = set(found) - acknowledged  # in the buffer, but killed before it was printed
    assert len(unacknowledged) <= 10 * trial.runs
    wrong = (rows["gpu.busy_share"] * 1e6 - (rows["t_s"] - T0)).abs() > 1e-6
    assert rows.filter(wrong).height == 0


def test_nothing_acknowledged_is_lost_when_either_side_is_killed(tmp_path: Path) -> None:
    run_trial(tmp_path, ["server", "agent", "server"], random.Random(1))  # noqa: S311 - moments


@pytest.mark.real
def test_nothing_acknowledged_is_lost_in_many_kills(tmp_path: Path) -> None:
    dice = random.Random(2)  # noqa: S311 - moments to kill at
    kills = [dice.choice(["server", "agent"]) for _ in range(30)]

    run_trial(tmp_path, kills, dice)
