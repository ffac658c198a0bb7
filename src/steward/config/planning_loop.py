"""Builds the loop that follows jobs over all sites of a configuration."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

from steward.act.actuators.dry_run import DryRun
from steward.act.desk import Desk
from steward.act.guard import Guard
from steward.act.planning.actuator import PlanningActuator
from steward.act.planning.outcomes import MoveOutcomes
from steward.clients.kubernetes import Api, find_credentials
from steward.clients.kubernetes_jobs.engine import MANAGER, KubernetesJobs
from steward.clients.site_jobs.engines import KubernetesSite, LocalSite, SlurmSite
from steward.clients.site_jobs.site import EngineJobs, Site
from steward.clients.slurm.control import SlurmControl
from steward.clock import Clock
from steward.config.assemble import LEARNED, limits
from steward.config.loop_threads import LoopThreads
from steward.config.read import Draft
from steward.config.settings import Settings
from steward.decide.planning.follow_jobs import FollowJobs
from steward.decide.planning.moves import MoveRules
from steward.errors import PermanentError, StewardError
from steward.learn.estimators.applications.campaign_log import CampaignLog
from steward.loop import Loop
from steward.model.actions import StartCampaign
from steward.model.planning.view import PlanningView
from steward.observe.followed_sites import FollowedSite
from steward.observe.watch import Watch
from steward.planning.following.forecasts import no_waits
from steward.planning.following.state import PlanningState, Waits
from steward.stages import Stages
from steward.store.atomic import write_atomic
from steward.store.followed_jobs import FollowedJobs
from steward.store.journal import open_journal
from steward.store.learned import LearnedStates
from steward.store.recording import Recording

__all__ = [
    "FollowRunner",
    "assemble_planning",
    "campaigns_of",
    "followed_jobs",
    "planning_state",
    "policy_of",
    "sites_of",
]

FOLLOWED, CAMPAIGNS, FOLDER = "followed", "campaigns", "following"  # of the store


def followed_jobs(settings: Settings) -> FollowedJobs:
    """Return the records of followed jobs."""
    return FollowedJobs(settings.store.path / FOLLOWED)


def assemble_planning(
    draft: Draft, store: FollowedJobs, *, clock: Clock, waits: Waits = no_waits
) -> Loop[PlanningView]:
    """Return a loop that is ready to run. It shares the journal with the cluster's loop."""
    settings = draft.settings
    sites, folder = sites_of(draft), settings.store.path / FOLDER
    planning = settings.planning
    actuator = PlanningActuator(
        sites,
        store,
        save_within_s=planning.save_within_s,
        lost_after_s=planning.lost_after_s,
        campaigns=lambda action: _begin_campaign(action, draft),
    )
    stages = Stages(
        watch=Watch(
            [FollowedSite(each, store) for each in sites.values()],
            timeout_s=settings.observe.timeout_s,
        ),
        moment=planning_state(draft, store, list(sites), waits=waits),
        miners=(),
        estimators=(),
        detectors=(),
        policies=[policy_of(settings)],
        desk=Desk(
            Guard(limits(settings, speed=getattr(clock, "speed", 1.0))),
            DryRun() if planning.dry_run else actuator,
        ),
        verifier=MoveOutcomes(),
        domain="planning",
    )
    return Loop(
        stages,
        journal=open_journal(settings.store.journal_url),
        recording=Recording(folder, events=False),
        clock=clock,
        every_s=planning.every_s,
        learned=LearnedStates(folder / LEARNED, clock=clock),
    )


def planning_state(
    draft: Draft, store: FollowedJobs, endpoints: list[str], *, waits: Waits = no_waits
) -> PlanningState:
    """Return the state of the domain."""
    settings = draft.settings
    daily = {"": settings.planning.budget_usd_per_day}
    for name in settings.sites:
        daily[name] = draft.of_site(name).settings.planning.budget_usd_per_day
    daily[settings.site.name] = daily[""]
    budgets = {name: usd for name, usd in daily.items() if usd is not None}
    return PlanningState(store, endpoints, waits=waits, budgets=budgets)


def policy_of(settings: Settings) -> FollowJobs:
    """Return the policy with its limits."""
    planning = settings.planning
    return FollowJobs(
        rules=MoveRules(
            least_chance=planning.least_chance,
            cheaper_share=planning.cheaper_share,
            between_s=planning.move_every_s,
            lost_after_s=planning.lost_after_s,
        )
    )


# -- sites -------------------------------------------------------------------------------------


def sites_of(draft: Draft) -> dict[str, Site]:
    """Return the endpoints that jobs can be submitted to, by name; the main one has none."""
    found = {"": _site("", draft.settings)}
    for name in draft.settings.sites:
        found[name] = _site(name, draft.of_site(name).settings)
    return {name: each for name, each in found.items() if each is not None}


def _site(name: str, settings: Settings) -> Site | None:
    match settings.jobs.engine:
        case "slurm":
            options = settings.plugs.get("slurm", {})
            slurm = SlurmControl(
                folder=str(options.get("folder", "")), conf=str(options.get("conf", ""))
            )
            return Site(name, SlurmSite(slurm))
        case "kubernetes":
            return Site(name, _kubernetes(settings))
        case _:
            return Site(name, LocalSite(settings.socket_path)) if settings.jobs.enabled else None


def _kubernetes(settings: Settings) -> EngineJobs:
    options = settings.plugs.get("kubernetes", {})
    access = find_credentials(
        str(options.get("kubeconfig", "")), context=str(options.get("context", ""))
    )
    if access is None:
        return _NoEngine("no cluster is configured: set plugs.kubernetes.kubeconfig")
    api = Api(access, timeout_s=float(options.get("timeout_s", 10.0)), manager=MANAGER)
    jobs = KubernetesJobs(
        api,
        namespace=str(options.get("namespace", "")) or access.namespace or "default",
        gpu_resource=settings.jobs.kubernetes_gpu,
        save_within_s=settings.jobs.save_within_s,
    )
    return KubernetesSite(jobs, image=settings.jobs.kubernetes_image)


class _NoEngine:
    """A site whose engine cannot be reached, whatever is asked of it."""

    saved_files = False

    def __init__(self, problem: str) -> None:
        self._problem = problem

    def submit(self, _: Any) -> str:  # noqa: ANN401 - as its port
        raise StewardError(self._problem)

    def show(self, _: str) -> Mapping[str, Any]:
        raise StewardError(self._problem)

    def change(self, _: str, __: str) -> None:
        raise StewardError(self._problem)

    def ping(self) -> None:
        raise StewardError(self._problem)


# -- campaigns ---------------------------------------------------------------------------------


def campaigns_of(settings: Settings) -> Path:
    """Return where campaigns are kept: one folder each."""
    return settings.store.path / CAMPAIGNS


def _begin_campaign(action: StartCampaign, draft: Draft) -> str:
    """Write a small campaign of an application and start it, as a process of its own."""
    folder = campaigns_of(draft.settings)
    log = CampaignLog(folder / action.application)
    if not log.begun:
        hint = "write one: docs/estimate_campaigns.md"
        raise PermanentError(f"{action.application} has no campaign here", hint=hint)
    number = 2
    while (folder / f"{action.application}-{number}").exists():
        number += 1
    name = f"{action.application}-{number}"
    small = {
        **log.definition,
        "name": name,
        "budget": {"cost_s": action.budget_s, "runs": action.runs, "full_runs": 1},
    }
    file = folder / f"{name}.yaml"
    write_atomic(file, json.dumps(small, indent=1).encode())
    config = ["--config", str(draft.file)] if draft.file is not None else []
    command = [sys.executable, "-m", "steward", "estimate", "campaign", str(file), *config]
    with (folder / f"{name}.log").open("ab") as out:
        subprocess.Popen(  # noqa: S603 - ourselves
            [*command, "--data", str(draft.settings.store.path)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    return f"campaign {name} was started: `steward estimate campaign {file} --status`"


# -- running -----------------------------------------------------------------------------------


class FollowRunner:
    """Follows jobs beside the cluster's loop, unless another process does."""

    def __init__(
        self, draft: Draft | None, *, clock: Clock | None = None, waits: Waits = no_waits
    ) -> None:
        self._draft, self._clock, self._waits = draft, clock, waits
        self._stack = ExitStack()
        self.problem = ""

    def __enter__(self) -> Self:
        draft, clock = self._draft, self._clock
        if draft is None or clock is None or not draft.settings.planning.follow:
            return self
        try:
            loop = self._stack.enter_context(following(draft, clock=clock, waits=self._waits))
        except StewardError as fault:
            self.problem = str(fault)
            return self
        self._stack.enter_context(LoopThreads([loop], name="planning-loop"))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


@contextmanager
def following(
    draft: Draft, *, clock: Clock, waits: Waits = no_waits
) -> Iterator[Loop[PlanningView]]:
    """Be the one process that follows the jobs of a store, with the loop that does."""
    store = followed_jobs(draft.settings)
    with store.locked():
        yield assemble_planning(draft, store, clock=clock, waits=waits)
