"""What `steward estimate plan` reads: catalogues, run times, carbon of the hours ahead."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from steward.cli.estimate.gpus import calibrated_site
from steward.cli.estimate.live_queue import job_history, read_cluster
from steward.cli.options import read_draft, read_settings
from steward.cli.output import print_warnings, waiting
from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.model.planning.calibration import Calibration
    from steward.model.planning.catalog import Catalog, CatalogSite
    from steward.model.planning.outlook import Outlook
    from steward.model.planning.plan import Plan, PlanRequest, Range, Way
    from steward.planning.question import PlanQuestion
    from steward.planning.scripts.job import Script

__all__ = [
    "ApplicationAsked",
    "JobLike",
    "ModelAsked",
    "ScriptsAsked",
    "WaySources",
    "calibrations",
    "hours_ahead",
    "read_catalog",
    "waits_at",
    "waits_of_stewards",
]

_NOT_SEEN = "has ended where steward saw it: `steward estimate job` shows what is known"
_NAMED = 12  # of many names
_HOW = "give --run-time A100=2h..5h, or a MODEL with --batch and --items for GPUs that are known"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAsked:
    """A model, as `estimate model` takes it, and how much goes through it."""

    model: str
    batch: str
    items: float | None
    options: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLike:
    """Jobs that were seen before."""

    name: str
    user: str
    tenant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationAsked:
    """An application with a campaign, and its configuration."""

    name: str
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaySources:
    """Where run times come from, beside those that are given by hand; None or empty: not asked."""

    file: Path | None
    model: ModelAsked | Literal[""] | None
    like: JobLike | Literal[""] | None
    app: ApplicationAsked | Literal[""] | None
    config: Path | None
    data: Path | None

    def find(
        self, question: PlanQuestion, catalog: Catalog
    ) -> tuple[tuple[Way, ...], tuple[str, ...]]:
        """Return all ways, and what is to be said of them; none at all is an error."""
        from steward.planning.question import ways_by_hand
        from steward.planning.way_files import read_ways

        found = [*ways_by_hand(question, catalog), *(read_ways(self.file) if self.file else ())]
        notes: tuple[str, ...] = ()
        if self.model:
            more, notes = _ways_of_model(self.model, question, catalog, self)
            found += more
        if self.like:
            alike = _ways_like(self.like, question, catalog, self)
            notes += () if alike else (f"no job like '{self.like.name}' {_NOT_SEEN}",)
            found += alike
        if self.app:
            found += _ways_of_application(self.app, question, catalog, self)
        if not found:
            problem = "; ".join(notes) or "no run time is known"
            raise StewardError(problem, where="run times", hint=_HOW)
        return tuple(found), notes


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptsAsked:
    """Where scripts go, and what they run."""

    folder_of_scripts: Path
    command: str | None
    folder: str
    image: str
    account: str

    def check(self) -> None:
        """Refuse what cannot be written, before a plan is made."""
        self._argv()

    def write(self, plan: Plan, catalog: Catalog, *, most: int) -> tuple[Script, ...]:
        """Write a script for each choice."""
        from steward.planning.scripts.folder import scripts_of, write_scripts
        from steward.planning.scripts.job import Program

        program = Program(
            argv=self._argv(), folder=self.folder, image=self.image, account=self.account
        )
        made = scripts_of(plan, catalog, program, most=most)
        write_scripts(made, self.folder_of_scripts)
        return made

    def _argv(self) -> tuple[str, ...]:
        hint = "add --command 'python train.py'"
        try:
            argv = tuple(shlex.split(self.command or ""))
            shell = _shell_signs(self.command or "")
        except ValueError as fault:
            problem = f"the command cannot be read: {str(fault).lower()}"
            raise StewardError(problem, where="--command", hint="close every quote") from None
        if not argv:
            raise StewardError("what the scripts run is not said", where="--scripts", hint=hint)
        if shell:
            raise StewardError(
                f"the command holds {shell!r}, which only a shell reads",
                where="--command",
                hint="write it into a script, or as: bash -c '...'",
            )
        return argv


def _shell_signs(command: str) -> str:
    """Return the first sign outside quotes that a program cannot be given; empty: none."""
    words = shlex.shlex(command.strip(), posix=True, punctuation_chars="|&;<>()\n")
    words.whitespace, words.commenters, words.whitespace_split = " \t\r", "", True
    return next((each for each in words if each and not each.strip("|&;<>()\n")), "")


def read_catalog(
    paths: Sequence[Path], config: Path | None, data: Path | None
) -> tuple[Catalog, tuple[str, ...]]:
    """Return the catalogue of the configuration and of files as one, and where they differ."""
    from steward.config.catalog import read_catalog

    merged = read_catalog(read_settings(config, data), more=paths)
    if not merged.catalog.sites:
        raise StewardError(
            "no site is known",
            where="--catalog",
            hint="name a file or folder, or set planning.catalog; docs/catalog.md shows how one "
            "is written",
        )
    return merged.catalog, tuple(str(each) for each in merged.conflicts)


def _ways_of_model(
    asked: ModelAsked, question: PlanQuestion, catalog: Catalog, sources: WaySources
) -> tuple[tuple[Way, ...], tuple[str, ...]]:
    """Return the ways to put so many items through a model, and what is not known."""
    from steward.learn.estimators.model_graphs.answers import new_worker
    from steward.learn.estimators.model_graphs.question import ModelQuestion
    from steward.planning.texts import read_names, read_numbers
    from steward.planning.ways import ModelWork, ways_of_model

    if not asked.batch or asked.items is None:
        missing = "--batch" if not asked.batch else "--items"
        raise StewardError(
            f"missing option '{missing}'",
            where=asked.model,
            hint="as --batch 16,32 --items 1000000: items over all epochs",
        )
    batches = read_numbers(asked.batch, where="--batch")
    work = ModelWork(
        question=ModelQuestion(model=asked.model, batch=batches[0], **asked.options),
        items=asked.items,
        batches=batches,
        gpus=read_numbers(question.gpus, where="--gpus"),
        most_nodes=None if question.across_nodes else 1,
        gpu_models=read_names(question.gpu),
    )
    settings = read_settings(sources.config, sources.data)
    worker = new_worker()
    try:
        with waiting(f"estimating {asked.model}"):
            return ways_of_model(
                work, catalog, worker, calibrated=lambda gpu: calibrated_site(settings, gpu)
            )
    finally:
        if worker is not None:
            worker.close()


def _ways_like(
    like: JobLike, question: PlanQuestion, catalog: Catalog, sources: WaySources
) -> tuple[Way, ...]:
    """Return the ways that earlier jobs went."""
    from steward.config.assemble import learned_estimators
    from steward.model.identity import TenantId
    from steward.model.job import JobRequest, JobShape
    from steward.planning.texts import read_numbers
    from steward.planning.ways import ways_from_forecasts

    counts = read_numbers(question.gpus, where="--gpus", least=0)
    if any(counts) and not question.gpu:
        hint = "add --gpu with the model that those jobs ran on"
        raise StewardError("on which GPUs is not said", where=f"--like {like.name}", hint=hint)
    estimators, discarded = learned_estimators(read_settings(sources.config, sources.data))
    print_warnings(discarded)
    found: list[Way] = []
    for gpus in counts:
        asked = JobRequest(
            shape=JobShape(gpus=gpus),
            tenant=TenantId(like.tenant),
            user=like.user,
            name=like.name,
        )
        forecasts = [each for one in estimators for each in one.estimate(asked)]
        found += ways_from_forecasts(forecasts, gpu_model=question.gpu, gpus=gpus, catalog=catalog)
    return tuple(found)


def _ways_of_application(
    asked: ApplicationAsked, question: PlanQuestion, catalog: Catalog, sources: WaySources
) -> tuple[Way, ...]:
    """Return the way of an application in a configuration, by its campaign."""
    from steward.cli.estimate.application import campaign_folder, read_configuration
    from steward.cli.estimate.campaign import campaigns_folder
    from steward.learn.estimators.applications.runner import learned_application
    from steward.planning.texts import read_numbers
    from steward.planning.ways import ways_from_forecasts

    counts = read_numbers(question.gpus, where="--gpus", least=0)
    if len(counts) > 1 or (any(counts) and not question.gpu):
        raise StewardError(
            "on which GPUs it was measured is not said",
            where=f"--app {asked.name}",
            hint="add --gpu NAME --gpus N as they were in its campaign; without GPUs: --gpus 0",
        )
    learned = learned_application(
        campaign_folder(asked.name, campaigns_folder(sources.config, sources.data))
    )
    forecasts = learned.estimate(read_configuration(asked.parameters))
    return ways_from_forecasts(forecasts, gpu_model=question.gpu, gpus=counts[0], catalog=catalog)


def waits_of_stewards(
    catalog: Catalog, request: PlanRequest, config: Path | None, data: Path | None
) -> tuple[dict[str, Range], tuple[str, ...]]:
    """Return waits at sites of a request that a steward on this machine looks after."""
    from steward.decide.planning.candidates import sites_of

    counts = frozenset(way.gpus for way in request.ways)
    return waits_at(sites_of(request, catalog), counts, config, data)


def waits_at(
    sites: Sequence[CatalogSite], counts: frozenset[int], config: Path | None, data: Path | None
) -> tuple[dict[str, Range], tuple[str, ...]]:
    """Return waits at sites that a steward on this machine looks after, and what is missing."""
    if not any(site.steward_site for site in sites):
        return {}, ()
    from steward.service.queue_waits import live_waits

    def look(name: str) -> tuple[Any, Any]:
        return _steward_of(name, config, data)

    return live_waits(sites, counts, look)


def _steward_of(name: str, config: Path | None, data: Path | None) -> tuple[Any, Any]:
    """Return what a steward sees of its cluster, and the history that it has learnt."""
    from steward.config.assemble import learned_estimators

    draft = read_draft(config, data)
    main = name == draft.settings.site.name
    settings = (draft if main else draft.of_site(name)).settled()
    cluster = read_cluster(settings.socket_path)
    found, _ = learned_estimators(settings)
    return cluster, job_history(found, needed_by=name)


def calibrations(config: Path | None, data: Path | None) -> tuple[Calibration, ...]:
    """Return by how much plans were off, as jobs that were followed have shown."""
    from steward.store.followed_jobs import FollowedJobs

    folder = read_settings(config, data).store.path / "followed"
    return FollowedJobs(folder).plans.calibrations if folder.is_dir() else ()


def hours_ahead(
    carbon: Path | None, now_s: float, catalog: Catalog, config: Path | None, data: Path | None
) -> Outlook | None:
    """Return the carbon of the hours ahead, by the file that was named or that of the settings."""
    named = read_settings(config, data).planning.carbon
    path = carbon or (Path(named).expanduser() if named else None)
    return None if path is None else _read_hours(path, now_s, catalog)


def _read_hours(path: Path, now_s: float, catalog: Catalog) -> Outlook:
    """Return the carbon of the hours ahead, by region; it has to be that of a site."""
    from steward.planning.carbon_hours import carbon_ahead

    found = carbon_ahead(path, now_s)
    places = {name for site in catalog.sites for name in (site.name, site.region)} - {""}
    if places.isdisjoint(found.grams_by_hour):
        raise StewardError(
            f"no site is in a region of it: {', '.join(sorted(found.grams_by_hour)[:_NAMED])}",
            where=str(path),
            hint="name a site, or its `region` in the catalogue, in the file: "
            + (", ".join(sorted(places)[:_NAMED])),
        )
    return found
