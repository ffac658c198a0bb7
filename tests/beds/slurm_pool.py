"""A pool on a real Slurm: `steward up` as a process, borrowers that save, and owners that wait.

Jobs note in a file of their own when they begin, save and end, so that what happened is known
without believing Slurm or steward.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from beds.slurm import SlurmBed, slurm_bed
from factories import SAVES, job, tenants, view
from patience import LONG_S, until
from steward.clients.slurm.site_setup import site_setup
from steward.decide.scheduling.tenant_sharing.commons import Commons
from steward.learn.estimators.similar_jobs import SimilarJobs
from steward.model.identity import TenantId
from steward.model.job import JobShape, Tenant
from steward.model.outcome import Story
from steward.store.journal import open_journal

__all__ = ["Line", "Pool", "pool"]

OWNER, BORROWER = "bio", "vision"  # accounts of the bed
WHOLE_NODE = ("-N1", "--gres=gpu:8")
CONFIG = """\
[store]
folder = "{folder}"
[loop]
every_s = {every_s}
autonomy = "auto"
[observe]
collectors = ["slurm"]
timeout_s = 60.0
[learn]
miners = []
estimators = ["similar-jobs"]
[decide]
detectors = []
policies = ["commons"]
[act]
actuator = "slurm"
[guard]
disturbed_gpus_per_hour = 100000
disturbed_gpus_per_tenant_per_hour = 100000
[plugs.slurm]
conf = "{conf}"
every_s = {every_s}
timeout_s = 60.0
settle_s = 3.0
guarantees_from_limits = true
up_is_healthy = true
"""
BORROW = r"""#!/bin/bash
# borrow.sh LOG: counts, saves its count on USR2, and goes on from it
exec 9> "$1.lock"
echo $$ > "$1.pid"
flock -n 9 || echo "twice $EPOCHREALTIME 0" >> "$1"
n=$(cat "$1.saved" 2>/dev/null || echo 0)
trap 'echo $n > "$1.new"; mv "$1.new" "$1.saved"; echo "saved $EPOCHREALTIME $n" >> "$1"' USR2
echo "begin $EPOCHREALTIME $n" >> "$1"
while [ -e "$1.pid" ]; do n=$((n + 1)); sleep 0.2 9>&-; done  # until its folder is deleted
"""
OWN = r"""#!/bin/bash
# own.sh LOG SECONDS
echo "begin $EPOCHREALTIME 0" >> "$1"
sleep "$2"
echo "end $EPOCHREALTIME 0" >> "$1"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What a job wrote: `begin`, `saved`, `end` or, if it ran beside itself, `twice`."""

    what: str
    t_s: float
    count: int


@dataclass(kw_only=True)
class Pool:
    """A Slurm whose idle guarantees are lent, and the steward that calls them back."""

    bed: SlurmBed
    folder: Path
    every_s: float = 1.0
    _steward: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    # -- jobs ----------------------------------------------------------------------------------

    def borrow(self, name: str, *, save_s: int = 2, options: Sequence[str] = WHOLE_NODE) -> str:
        """Submit a job to the pool that holds its GPUs until it is called back."""
        how = ("-A", BORROWER, "-p", "pool", "--requeue", "--open-mode=append")
        mark = (f"--comment=steward:saves={save_s}",) if save_s else ()
        return self._submit("borrow.sh", (*how, *mark, *options), str(self.folder / name))

    def own(self, name: str, *, run_s: float, options: Sequence[str] = WHOLE_NODE) -> str:
        """Submit a job of the account that is guaranteed GPUs."""
        how = ("-A", OWNER, "-p", "gpu")
        return self._submit("own.sh", (*how, *options), str(self.folder / name), str(run_s))

    def _submit(self, script: str, options: Sequence[str], *arguments: str) -> str:
        path = self.folder / script
        return self.bed.run(
            "sbatch", "--parsable", "-o", "/dev/null", *options, str(path), *arguments
        )

    def lines(self, name: str) -> list[Line]:
        """Return what a job wrote so far."""
        path = self.folder / name
        cells = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return [Line(what=what, t_s=float(t), count=int(n)) for what, t, n in cells]

    def wrote(self, name: str, what: str, *, times: int = 1) -> Line:
        """Wait until a job has written something so many times, and return the last of it."""

        def found() -> Line | None:
            lines = [each for each in self.lines(name) if each.what == what]
            return lines[times - 1] if len(lines) >= times else None

        line = until(found, why=f"{what} of {name}")
        assert line is not None
        return line

    def lose(self, node: str, name: str) -> None:
        """Take a node away with the job on it, as a power failure does."""
        self.bed.stop(f"slurmd-{node}")
        job = int((self.folder / f"{name}.pid").read_text())
        step = Path(f"/proc/{job}/stat").read_text().rpartition(") ")[2].split()[1]
        os.kill(int(step), signal.SIGKILL)  # else it would tell the controller of the job's end
        os.kill(job, signal.SIGKILL)
        self.bed.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=power lost")

    def saved_state(self) -> None:
        """Wait until the controller has written what it knows now: a crash loses the rest."""
        now_s, state = time.time(), self.bed.folder / "state" / "job_state"
        self.bed.run("sbatch", "--hold", "-A", BORROWER, "--wrap", "true")  # else nothing is new
        until(lambda: state.exists() and state.stat().st_mtime > now_s, why="Slurm's state")

    def bring_back(self, node: str) -> None:
        """Start a node again that was lost."""
        conf = self.bed.env["SLURM_CONF"]
        self.bed.start(f"slurmd-{node}", "slurmd", "-D", "-f", conf, "-N", node)

    # -- steward -------------------------------------------------------------------------------

    @property
    def log(self) -> Path:
        return self.folder / "up.log"

    def up(self) -> None:
        """Start steward, or start it again."""
        config = self.folder / "steward.toml"
        config.write_text(
            CONFIG.format(
                folder=self.folder / "store",
                conf=self.bed.env["SLURM_CONF"],
                every_s=self.every_s,
            )
        )
        command = [sys.executable, "-m", "steward", "up", "--port", "0", "--no-browser"]
        with self.log.open("ab") as log:
            self._steward = subprocess.Popen(
                [*command, "--config", str(config)], stdout=log, stderr=log, env=self.bed.env
            )

    def kill(self) -> None:
        """End steward as a crash does, if it runs."""
        if self._steward is not None:
            self._steward.kill()
            self._steward.wait(LONG_S)
            self._steward = None

    def stories(self) -> list[Story]:
        """Return all decisions so far, oldest first."""
        path = self.folder / "store" / "journal.sqlite3"
        if not path.exists():
            return []
        with closing(open_journal(f"sqlite:///{path}", read_only_ok=True)) as journal:
            return [story for _, story in journal.stories()][::-1]

    def events(self, kind: str) -> list[str]:
        """Return what events of a kind are about, oldest first."""
        path = self.folder / "store" / "journal.sqlite3"
        with closing(open_journal(f"sqlite:///{path}", read_only_ok=True)) as journal:
            events = [entry.value for entry in journal.read(kinds=("event",))]
        return [each.subject for each in events if each.kind == kind]

    def story(self, type_: str, job: str) -> Story | None:
        """Return the newest decision of a type about a job."""
        found = (
            each
            for each in reversed(self.stories())
            if each.decision.action.type == type_ and each.decision.action.acts_on == job
        )
        return next(found, None)


def compile_kernels() -> None:
    """Compile what decides, however long that takes on a busy machine: then it is cached."""
    guaranteed = Tenant(id=TenantId("owner"), guaranteed_gpus=2)
    runs = job("j1", on=["n1/gpu0", "n1/gpu1"], checkpointing=SAVES)
    waits = job("j2", tenant=guaranteed.id, shape=JobShape(gpus=2))
    seen = view(jobs=[runs, waits], of=(guaranteed, *tenants()))
    estimator = SimilarJobs()
    estimator.learn(seen, outcomes=())
    decisions = Commons().decide(seen.with_forecasts(estimator.predict(seen)))
    assert [each.action.type for each in decisions] == ["preempt", "start"]


@contextmanager
def pool(*, guaranteed: int, every_s: float = 1.0) -> Iterator[Pool]:
    """Run a Slurm as `steward slurm setup --called-back-by steward` prints it, with its pool."""
    compile_kernels()
    setup = site_setup("22.05", nodes="n[1-4]", called_back_by="steward")
    with tempfile.TemporaryDirectory(prefix="steward-pool-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with slurm_bed(folder, conf=setup.slurm_conf) as bed:
            limit = f"GrpTRES=gres/gpu={guaranteed}"
            bed.run("sacctmgr", "-i", "modify", "account", OWNER, "set", limit)
            made = Pool(bed=bed, folder=folder / "pool", every_s=every_s)
            made.folder.mkdir()
            for script, text in (("borrow.sh", BORROW), ("own.sh", OWN)):
                (made.folder / script).write_text(text)
            try:
                yield made
            finally:
                made.kill()
