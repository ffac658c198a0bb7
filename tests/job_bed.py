"""A controller of jobs over real processes that can be killed and made anew."""

from __future__ import annotations

from pathlib import Path

from managed_jobs import text_of
from patience import until
from steward.act.jobs.controller import JobController
from steward.clients.local_jobs.engine import LocalEngine
from steward.model.identity import DecisionId, GpuId, JobId
from steward.model.managed_job import JobSpec, LifeState, ManagedJob
from steward.store.jobs import JobStore

SLOT = (GpuId("n1/cpu0"),)
SAVES = """
import json, os, pathlib, sys, time
folder = pathlib.Path(os.environ["STEWARD_JOB_FOLDER"])
def put(name, **record):
    (folder / (name + ".tmp")).write_text(json.dumps(record))
    (folder / (name + ".tmp")).rename(folder / name)
put("can_save.json", can=True, seconds=0.1)
(folder / "done.json").unlink(missing_ok=True)
at = folder / "state"
step = int(at.read_text()) if at.exists() else 0
old = folder / "answer.json"
seen = json.loads(old.read_text())["id"] if old.exists() else ""
while step < STEPS:
    step += 1
    time.sleep(0.01)
    try:
        request = json.loads((folder / "request.json").read_text())
    except FileNotFoundError:
        continue
    if request["id"] != seen:
        seen = request["id"]
        at.write_text(str(step))
        put("answer.json", id=seen, result="saved", step=step, checkpoint=str(at), bytes=1)
        if request["do"] == "save-and-stop":
            sys.exit(0)
put("done.json", step=step)
"""


class JobControllerBed:
    """A controller that can be killed and made anew on the same files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.t_s = 1000.0
        self.controller = self._made()

    def _made(self) -> JobController:
        engine = LocalEngine(self.folder / "jobs", grace_s=0.3)
        return JobController(JobStore(self.folder / "jobs.sqlite3"), engine)

    def restart(self) -> None:
        self.controller.store.close()
        self.controller = self._made()

    def submit(self, made: JobSpec) -> JobId:
        id_ = self.controller.store.submit((made,), self.t_s)[0].id
        self.advance()
        return id_

    def start(self, id_: JobId, decision: str = "d-1", gpus: tuple[GpuId, ...] = SLOT) -> None:
        self.controller.start(id_, gpus, decision=DecisionId(decision), t_s=self.t_s)

    def advance(self) -> None:
        self.t_s += 0.05
        self.controller.advance(self.t_s)

    def job(self, id_: JobId) -> ManagedJob:
        return self.controller.store.job(id_)

    def reaches(self, id_: JobId, *states: LifeState) -> ManagedJob:
        def there() -> bool:
            self.advance()
            return self.job(id_).state in states

        until(there, why=f"{[state.value for state in states]}")
        return self.job(id_)

    def log(self, id_: JobId) -> str:
        return text_of(self.folder / "jobs" / id_ / "work" / "output.log")


def states(job: ManagedJob) -> list[str]:
    return [each.state.value for each in job.events]
