"""Instances that are processes of this machine: a command on a free port, until it answers.

What was begun is written down before and after a process starts, and a process carries the mark of
its decision, so a steward that is killed at any point finds it again and starts none twice.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from steward.act.serving.fleet import FleetState, Order
from steward.act.serving.instance_records import InstanceRecords
from steward.clients.server_health import answers
from steward.clients.server_process import ServerProcess, find_marked, launch
from steward.errors import StewardError, TemporaryError
from steward.model.event import Availability

__all__ = ["Processes"]

LOG_BYTES = 2000  # of the end of a log, where it says why a server ended
_HOLDERS = ("{port}", "{name}", "{model}", "{gpus}")


class Processes:
    """Starts a command per instance. `{port}`, `{name}`, `{model}` and `{gpus}` are filled in."""

    name = "processes"

    def __init__(  # noqa: PLR0913 - what a site can say about its command
        self,
        command: str,
        *,
        folder: Path,
        host: str = "127.0.0.1",
        health: str = "/health",
        stop_within_s: float = 30.0,
        health_timeout_s: float = 2.0,
        devices: Sequence[str] = (),
    ) -> None:
        self._command = tuple(shlex.split(command))
        self._records = InstanceRecords(folder)
        self._host = host
        self._health = health
        self._stop_within_s = stop_within_s
        self._health_timeout_s = health_timeout_s
        self._devices = tuple(devices)

    def available(self) -> Availability:
        """Say whether there is such a command."""
        if not self._command or not shutil.which(self._command[0]):
            what = self._command[0] if self._command else "nothing"
            hint = "set `instances.NAME.command` to a program of this machine"
            return Availability(status="missing", reason=f"no program {what}", hint=hint)
        if "{port}" not in " ".join(self._command):
            hint = "add {port} to `instances.NAME.command`: each instance gets a port of its own"
            return Availability(status="missing", reason="its command takes no port", hint=hint)
        return Availability(status="ok", reason=f"runs {self._command[0]} on this machine")

    def start(self, order: Order, t_s: float) -> FleetState:
        """Begin a start unless it was begun, and look whether the server answers."""
        record = self._records.read(order.instance)
        if record is not None and not self._is_over(record):
            if record["state"] == "stopping":
                return FleetState(state="coming", text=f"{order.instance} is still ending")
            return self._looked_at(order, self._identified(order, record))
        if record is not None and record["decision"] == order.decision and "pid" in record:
            return FleetState(state="failed", text=self._ended(order.instance))
        return self._looked_at(order, self._begun(order, t_s))

    def stop(self, order: Order, t_s: float) -> FleetState:
        """End an instance: TERM, then KILL to whatever of it is left."""
        record = self._records.read(order.instance)
        if record is None or record["type"] != order.type:
            return FleetState(state="gone", text=f"{order.instance} does not run here")
        process = self._process(record)
        if process is None or not process.members():
            self._records.remove(order.instance)
            return FleetState(state="gone", text=f"{order.instance} has ended")
        if record["state"] != "stopping":
            record |= {"state": "stopping", "stopping_s": t_s}
            self._records.write(order.instance, record)
            process.send(signal.SIGTERM)
        elif t_s - record["stopping_s"] > self._stop_within_s:
            process.send(signal.SIGKILL)
        return FleetState(state="leaving", text=f"{order.instance} was told to end")

    # -- what runs -------------------------------------------------------------------------------

    def _begun(self, order: Order, t_s: float) -> dict[str, Any]:
        """Write down what is about to be started, start it, and write down what it became."""
        port = _free_port(self._host)
        record: dict[str, Any] = {
            "name": order.instance,
            "decision": order.decision,
            "type": order.type,
            "port": port,
            "state": "starting",
            "begun_s": t_s,
            "gpus": self._free_devices(order.gpus),
        }
        self._records.write(order.instance, record)
        try:
            process = launch(
                self._filled(order, port),
                mark=_mark(record),
                log=self._log(order.instance),
                environment=_environment(record["gpus"]),
            )
        except StewardError:
            self._records.remove(order.instance)
            raise
        record |= {"boot": process.boot, "pid": process.pid, "ticks": process.ticks}
        self._records.write(order.instance, record)
        return record

    def _identified(self, order: Order, record: dict[str, Any]) -> dict[str, Any]:
        """Add who it is to a record that was written before its process started."""
        if "pid" not in record:
            process = self._process(record)
            if process is not None:
                record |= {"boot": process.boot, "pid": process.pid, "ticks": process.ticks}
                self._records.write(order.instance, record)
        return record

    def _looked_at(self, order: Order, record: dict[str, Any]) -> FleetState:
        url = f"http://{self._host}:{record['port']}"
        process = self._process(record)
        if process is None or not process.runs:
            return FleetState(state="failed", text=self._ended(order.instance))
        if answers(url + self._health, timeout_s=self._health_timeout_s):
            return FleetState(state="ready", text=f"process {process.pid} answers", url=url)
        return FleetState(state="coming", text=f"process {process.pid} does not answer yet")

    @staticmethod
    def _process(record: dict[str, Any]) -> ServerProcess | None:
        if "pid" in record:
            return ServerProcess(boot=record["boot"], pid=record["pid"], ticks=record["ticks"])
        return find_marked(_mark(record))

    def _is_over(self, record: dict[str, Any]) -> bool:
        """Return whether a record is of something that has ended, itself and all it started.

        One that names no process is of a steward that ended before it could start or note one.
        """
        process = self._process(record)
        return process is None or not process.members()

    def _ended(self, name: str) -> str:
        log = self._log(name)
        try:
            tail = log.read_bytes()[-LOG_BYTES:].decode(errors="replace").strip()
        except OSError:
            tail = ""
        last = tail.splitlines()[-1] if tail else "it wrote nothing"
        return f"{name} ended before it answered: {last} ({log})"

    def _filled(self, order: Order, port: int) -> list[str]:
        values = (str(port), order.instance, order.model, str(order.gpus))
        words = list(self._command)
        for holder, value in zip(_HOLDERS, values, strict=True):
            words = [each.replace(holder, value) for each in words]
        return words

    def _log(self, name: str) -> Path:
        return self._records.folder / f"{name}.log"

    def _free_devices(self, count: int) -> list[str]:
        """Return GPUs that no other instance of this fleet has, where the site names them."""
        if not self._devices:
            return []
        records = [self._records.read(name) for name in self._records.names()]
        taken = {gpu for each in records if each is not None for gpu in each.get("gpus", ())}
        free = [each for each in self._devices if each not in taken]
        if len(free) < count:
            problem = f"{count} GPUs are needed, and {len(free)} of {len(self._devices)} are free"
            raise TemporaryError(problem, hint="an instance that drains frees its own")
        return free[:count]


def _mark(record: dict[str, Any]) -> str:
    return f"{record['name']}:{record['decision']}:{record['port']}"


def _environment(devices: Sequence[str]) -> dict[str, str]:
    chosen = {"CUDA_VISIBLE_DEVICES": ",".join(devices)} if devices else {}
    return {**os.environ, **chosen}


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
