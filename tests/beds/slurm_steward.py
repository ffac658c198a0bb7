"""`steward up` as a process of its own that decides for the jobs of a real Slurm."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from beds.slurm import SlurmBed
from patience import LONG_S, until
from steward.clients.local_service import LocalService
from steward.errors import StewardError

__all__ = ["SlurmSteward"]

CONFIG = """\
[store]
folder = "{folder}"
[loop]
every_s = {every_s}
autonomy = "auto"
[observe]
collectors = ["slurm", "log-files"]
timeout_s = 60.0
[learn]
miners = []
estimators = ["similar-jobs", "tenant-use"]
[decide]
detectors = []
policies = {policies}
[act]
actuator = "slurm"
[guard]
disturbed_gpus_per_hour = 100000
disturbed_gpus_per_tenant_per_hour = 100000
[service]
requests_per_minute = 100000
[plugs.slurm]
conf = "{conf}"
every_s = {every_s}
settle_s = {settle_s}
timeout_s = 60.0
start_within_s = 30.0
lookback_s = 3600.0
up_is_healthy = true
[plugs.commons]
class_weight = 1.0  # Slurm's priorities are sums of factors, no classes
[plugs.treat]
drain_after_s = 0.0
[plugs.move-off-drained]
after_s = 3.0
[plugs.log-files]
paths = ["{log}"]
"""


class SlurmSteward:
    """A steward of the whole cluster, with guarantees by account."""

    def __init__(
        self,
        bed: SlurmBed,
        folder: Path,
        guarantees: Mapping[str, int],
        *,
        every_s: float = 1.0,
        policies: Sequence[str] = ("commons", "treat", "undrain-recovered"),
    ) -> None:
        self.folder = folder
        folder.mkdir()
        self.log = folder / "up.log"
        self.told = folder / "slurmctld-told.log"  # lines that steward takes for the controller's
        self.told.touch()
        self.pid = 0
        self._bed = bed
        self._process: subprocess.Popen[bytes] | None = None
        tenants = "".join(
            f"[tenants.{name}]\nguaranteed_gpus = {count}\n" for name, count in guarantees.items()
        )
        (folder / "steward.toml").write_text(
            CONFIG.format(
                folder=folder / "data",
                conf=bed.env["SLURM_CONF"],
                log=self.told,
                every_s=every_s,
                settle_s=1.5 * every_s,
                policies=[*policies],
            )
            + tenants
        )

    def up(self) -> None:
        """Start it and wait until it answers."""
        self.start()
        until(lambda: self.ask("decisions") is not None, why=f"steward up, see {self.log}")

    def start(self) -> None:
        """Start it without waiting."""
        command = [sys.executable, "-m", "steward", "up", "--port", "0", "--no-browser"]
        # With its bytecode kept, as where it is installed: a start takes half as long.
        environment = {**self._bed.env, "PYTHONPYCACHEPREFIX": str(self.folder.parent / "bytecode")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--config", str(self.folder / "steward.toml")],
                stdout=log,
                stderr=log,
                env=environment,
            )
        self.pid = self._process.pid

    def ask(self, *path: str, **query: Any) -> Any:
        """Return the answer of its API, or None while it has none."""
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text()[-3000:]
        try:
            return self.service.get(*path, query=query)
        except StewardError:
            return None

    @property
    def service(self) -> LocalService:
        return LocalService(self.folder / "data" / "steward.sock")

    def kill(self, number: int = signal.SIGKILL) -> None:
        """End it, if it runs."""
        if self._process is not None and self._process.poll() is None:
            os.kill(self._process.pid, number)
            self._process.wait(LONG_S)

    def journal(self, kind: str) -> list[tuple[Any, ...]]:
        """Return id, cause and body of the journal's entries of one kind."""
        path = self.folder / "data" / "journal.sqlite3"
        query = "SELECT id, cause, body FROM entries WHERE kind = ? ORDER BY seq"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            return database.execute(query, (kind,)).fetchall()
