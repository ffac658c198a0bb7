"""Sites that come and go, with jobs that count their steps, and the domain that follows them.

`FakeEngine` is an engine as `Site` sees it: it has jobs by token, runs what is not held, and is
silent while it is away; its jobs go on meanwhile.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steward.act.desk import CarriedOut, Desk
from steward.act.guard import Guard, Limits
from steward.act.planning.actuator import PlanningActuator
from steward.act.planning.outcomes import MoveOutcomes
from steward.clients.site_jobs.site import Order, Site, UnknownJobError
from steward.decide.planning.follow_jobs import FollowJobs
from steward.decide.planning.moves import MoveRules
from steward.errors import StewardError, TemporaryError
from steward.model.decision import Autonomy, Choice, Decision
from steward.model.event import Observation
from steward.model.outcome import Outcome
from steward.model.planning.catalog import (
    Basis,
    Catalog,
    CatalogSite,
    Charging,
    Engine,
    Queue,
)
from steward.model.planning.followed import FollowedJob, RunState, SiteRun
from steward.model.planning.plan import PlanRequest, Range, Way
from steward.model.planning.view import PlanningView
from steward.planning.following.state import PlanningState
from steward.store.followed_jobs import FollowedJobs, Program

T0 = 1.79e9
STEPS = 100


def spread(mid: float, factor: float = 1.3) -> Range:
    return Range(low=mid / factor, mid=mid, high=mid * factor)


@dataclass
class FakeJob:
    """One job of an engine. `kept_step` is what its newest checkpoint holds."""

    id: str
    order: Order
    folder: Path
    held: bool
    step: float = 0.0
    state: str = "waiting"
    began_s: float | None = None
    ended_s: float | None = None
    kept_step: int = -1
    starts: int = 0


@dataclass
class FakeEngine:
    """An engine whose jobs do `steps_per_s`; `away` is whether nobody can reach it."""

    name: str
    folder: Path
    steps_per_s: float = 0.01
    away: bool = False
    refuses: bool = False
    saves: bool = True
    answers: bool = True  # requests to save
    saved_files: bool = True
    ends_by_itself: bool = False  # in the moment in which it is cancelled
    files: bool = True  # of its jobs can be seen, also while it is away
    reports: float = 1.0  # what a job says is done, over what is
    jobs: dict[str, FakeJob] = field(default_factory=dict)  # by token
    now_s: float = T0

    def submit(self, order: Order) -> str:
        self.ping()
        if order.token not in self.jobs:
            if self.refuses:
                raise StewardError("it takes nothing more")
            id_ = f"{self.name}-{len(self.jobs) + 1}"
            folder = self.folder / id_
            folder.mkdir(parents=True)
            text = order.launcher.read_text()
            made = FakeJob(id=id_, order=order, folder=folder, held=order.hold)
            made.state = "held" if order.hold else "waiting"
            made.step = float(_begun_with(text))
            self.jobs[order.token] = made
        return self.jobs[order.token].id

    def show(self, job: str) -> Mapping[str, Any]:
        self.ping()
        found = self._of(job)
        return {
            "id": job,
            "state": found.state,
            "job_folder": str(found.folder),
            "can_save": self.saves and found.state == "running",
            "attempts": [{"began_s": found.began_s, "ended_s": found.ended_s}],
        }

    def change(self, job: str, what: str) -> None:
        self.ping()
        found = self._of(job)
        if what == "save":
            if self.answers:
                write_checkpoint(found.folder, int(found.step), self.now_s)
                found.kept_step = int(found.step)
        elif what == "release":
            found.held, found.state = False, "waiting" if found.state == "held" else found.state
        elif found.state in ("held", "waiting", "running"):
            found.state, found.ended_s = "cancelled", self.now_s
            if self.ends_by_itself:  # in the same moment: it is refused, as Slurm does
                raise StewardError("it is cancelled: it is over")

    def ping(self) -> None:
        if self.away:
            raise TemporaryError("no answer", where=self.name)

    def forget(self, token: str) -> None:
        self.jobs.pop(token)

    def advance(self, now_s: float) -> None:
        """Let jobs run until then, whether anybody reaches this engine or not."""
        for job in self.jobs.values():
            if job.state == "waiting":
                job.state, job.began_s = "running", self.now_s
                job.starts += 1
            if job.state != "running":
                continue
            job.step += self.steps_per_s * (now_s - self.now_s)
            if job.step >= STEPS:
                job.state, job.ended_s = "finished", now_s
            if not self.files:
                (job.folder / "progress.json").unlink(missing_ok=True)
                continue
            said = min(job.step * self.reports, STEPS - 1)
            record = {"step": said, "steps": STEPS, "written_s": now_s}
            (job.folder / "progress.json").write_text(json.dumps(record))
        self.now_s = now_s

    def _of(self, id_: str) -> FakeJob:
        for job in self.jobs.values():
            if job.id == id_:
                return job
        raise UnknownJobError("no such job", where=id_)


def _begun_with(launcher: str) -> int:
    """Return the step of the checkpoint that a launcher begins with."""
    for line in launcher.splitlines():
        if line.startswith("set -- "):
            return int(line.rpartition("step-")[2].strip("'\""))
    return 0


def write_checkpoint(folder: Path, step: int, t_s: float, *, damaged: bool = False) -> Path:
    """Write a checkpoint as `steward.training` does."""
    path = folder / "checkpoints" / f"step-{step:06d}"
    path.mkdir(parents=True, exist_ok=True)
    content = f"weights at {step}".encode()
    (path / "rank-00000.pt").write_bytes(b"x" * len(content) if damaged else content)
    part = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    manifest = {"format": 1, "step": step, "created_s": t_s, "files": {"rank-00000.pt": part}}
    (path / "manifest.json").write_text(json.dumps(manifest))
    return path


def catalog(names: Iterable[str], usd: Mapping[str, float] | None = None) -> Catalog:
    prices = usd or {}
    return Catalog(
        sites=tuple(
            CatalogSite(
                name=name,
                engine=Engine.LOCAL,
                steward_site=name,
                queues=(
                    Queue(
                        name="q",
                        cores_per_node=8,
                        memory_bytes_per_node=1 << 36,
                        gpus_per_node=2,
                        gpu_model=f"G{name}",
                        nodes=4,
                        charging=Charging(basis=Basis.GPU_S, rate=prices.get(name, 1.0)),
                    ),
                ),
            )
            for name in names
        )
    )


class World:
    """Engines, records and the domain; `restart` is what a kill -9 of steward leaves."""

    def __init__(
        self,
        folder: Path,
        speeds: Mapping[str, float],
        *,
        usd: Mapping[str, float] | None = None,
        autonomy: Autonomy = Autonomy.AUTO,
        lost_after_s: float = 900.0,
    ) -> None:
        self.t_s = T0
        self.folder, self.autonomy, self.lost_after_s = folder, autonomy, lost_after_s
        self.engines = {
            name: FakeEngine(name=name, folder=folder / name, steps_per_s=speed)
            for name, speed in speeds.items()
        }
        self.catalog = catalog(speeds, usd)
        self.decisions: list[Decision] = []
        self.done: list[CarriedOut] = []
        self.faults: list[Any] = []
        self.outcomes: list[Outcome] = []
        self.restart()

    def restart(self) -> None:
        """Begin anew with what is on disk. Open decisions are those of the policy: none is kept."""
        self.store = FollowedJobs(self.folder / "followed")
        sites = {name: Site(name, engine) for name, engine in self.engines.items()}
        self.sites = sites
        self.actuator = PlanningActuator(sites, self.store, lost_after_s=self.lost_after_s)
        self.state = PlanningState(self.store, list(sites))
        self.policy = FollowJobs(
            rules=MoveRules(between_s=0.0, lost_after_s=self.lost_after_s), check_after_s=900.0
        )
        limits = Limits(
            autonomy=self.autonomy,
            disturbed_gpus_per_hour=10_000,
            disturbed_gpus_per_tenant_per_hour=10_000,
            disturbed_per_job_per_day=10_000,
        )
        self.desk = Desk(Guard(limits), self.actuator)
        self.verifier = MoveOutcomes()

    def submit(
        self,
        id_: str = "p-1",
        *,
        site: str,
        planned_s: float | Mapping[str, float],
        deadline_s: float | None = None,
        name: str = "",
    ) -> FollowedJob:
        """Submit a job of one way for each site, to one of them."""
        of = planned_s if isinstance(planned_s, Mapping) else dict.fromkeys(self.engines, planned_s)
        ways = {
            name: Way(
                gpu_model=f"G{name}",
                gpus=1,
                run_s=spread(each),
                watts=Range(low=1, mid=1, high=1),
            )
            for name, each in of.items()
        }
        request = PlanRequest(
            name=name or f"app-{id_}",
            ways=tuple(ways.values()),
            now_s=self.t_s,
            deadline_s=None if deadline_s is None else self.t_s + deadline_s,
            saves=True,
        )
        run = SiteRun(
            site=site,
            queue="q",
            way=ways[site],
            expected_run_s=ways[site].run_s,
            submitted_s=self.t_s,
            endpoint=site,
            token=f"{id_}-0",
            usd_per_h=self.catalog.site(site).queues[0].charging.rate,
        )
        job = FollowedJob(id=id_, name=request.name, request=request, runs=(run,), steps=STEPS)
        program = Program(argv=("train",), folder=str(self.folder), environment={"A": "1"})
        self.store.add(job, program, self.catalog)
        order = Order(
            token=run.token, name=job.name, launcher=self.store.launcher(id_, 0, checkpoint=""),
            argv=("train",), environment={}, folder="/", options={}, hold=False,
        )  # fmt: skip
        self.store.note_submitted(id_, self.engines[site].submit(order))
        return self.store.job(id_)

    def look(self) -> PlanningView:
        for site in self.sites.values():
            report = site.report(self.store.jobs(), self.t_s)
            self.state.fold(Observation(site_reports=(report,)))
        return self.state.view(self.t_s)

    def turn(
        self, passed_s: float = 10.0, choices: Iterable[Choice] = (), *, act: bool = True
    ) -> PlanningView:
        """Let time pass and take one turn of the loop."""
        self.t_s += passed_s
        for engine in self.engines.values():
            engine.advance(self.t_s)
        view = self.look()
        found = self.policy.decide(view)
        self.decisions += found
        self.desk.receive(found, tuple(choices), view, listed=True)
        for result in self.desk.carry_out(self.t_s) if act else ():
            if isinstance(result, CarriedOut):
                self.done.append(result)
                self.verifier.begin(result.decision, result.receipt, view)
            else:
                self.faults.append(result)
        self.outcomes += [outcome for _, outcome in self.verifier.follow(view)]
        self.state.reserve(self.desk.reserved(view))
        return view

    def turns(self, seconds: float, every_s: float = 10.0) -> PlanningView:
        view = self.state.view(self.t_s)
        for _ in range(int(seconds / every_s)):
            view = self.turn(every_s)
        return view

    def job(self, id_: str = "p-1") -> FollowedJob:
        return self.store.job(id_)

    def running(self, id_: str = "p-1") -> list[str]:
        """Return the engines where copies of a job run now."""
        return [
            name
            for name, engine in self.engines.items()
            for token, job in engine.jobs.items()
            if token.rpartition("-")[0] == id_ and job.state == "running"
        ]

    def copies(self, id_: str = "p-1") -> list[FakeJob]:
        return [
            job
            for engine in self.engines.values()
            for token, job in engine.jobs.items()
            if token.rpartition("-")[0] == id_
        ]


__all__ = ["STEPS", "T0", "FakeEngine", "RunState", "World", "spread", "write_checkpoint"]
