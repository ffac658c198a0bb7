"""`steward up`: the whole loop with its dashboard, on this machine or on a simulated cluster."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steward.cli.options import Config, Data, Json, chosen_site, now_s, read_draft
from steward.cli.output import is_terminal, print_lines, print_note, print_warnings, waiting
from steward.cli.site_processes import (
    end_with_stdin,
    site_processes,
    site_sockets,
    sites_lines,
)
from steward.errors import StewardError, unknown_name

if TYPE_CHECKING:
    from steward.config import Draft, Settings
    from steward.config.local_jobs import LocalJobRunner
    from steward.config.planning_loop import FollowRunner
    from steward.config.serving_loop import ServingRunner
    from steward.loop import Loop
    from steward.model.decision import Autonomy
    from steward.model.view import ClusterView
    from steward.service.job_outlook import Waits
    from steward.service.server import Listening
    from steward.sim.world import World

__all__ = ["up"]

DEMO_SPEED = 60.0
TURNS_BEHIND = 3.0  # the simulated time that one turn may take: what is rarely seen is not measured
FIRST_TURNS = 3
SCHEDULER_BUDGET = 1000  # GPUs that a scheduling policy may free in an hour
HOUR_S = 3600.0
ASKS_FIRST = "chem"  # the demo's tenant whose GPUs are lent only when a person approves
AUTONOMIES = ("observe", "advise", "approve", "auto")

Demo = Annotated[bool, typer.Option("--demo", help="Watch a simulated cluster, not this machine.")]
Speed = Annotated[
    float | None,
    typer.Option("--speed", metavar="N", help="With --demo: N times faster than life [60]."),
]
Seed = Annotated[
    int | None, typer.Option("--seed", help="With --demo: which simulated history [0].")
]
Host = Annotated[
    str | None, typer.Option("--host", metavar="ADDRESS", help="Where to listen [127.0.0.1].")
]
Port = Annotated[
    int | None,
    typer.Option("--port", min=0, max=65535, help="0 takes any free port [8787]."),
]
AutonomyName = Annotated[
    str | None,
    typer.Option(
        "--autonomy",
        metavar="LEVEL",
        help=f"How much steward may do by itself: {', '.join(AUTONOMIES)}.",
        autocompletion=lambda: list(AUTONOMIES),
    ),
]
PlainHttp = Annotated[
    bool | None,
    typer.Option(
        "--plain-http",
        help="Allow plain HTTP from other machines: anybody in between can read tokens.",
        show_default=False,
    ),
]
PolicyName = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="NAME",
        help="Let this scheduling policy decide which jobs start and stop, such as commons.",
    ),
]
NoBrowser = Annotated[bool, typer.Option("--no-browser", help="Do not open the dashboard.")]
UntilEof = Annotated[
    bool,
    typer.Option(
        "--until-eof",
        help="Stop when standard input ends: whatever started this one is gone.",
    ),
]
For = Annotated[
    float | None,
    typer.Option("--for", metavar="SECONDS", min=0, help="Stop after so many seconds."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What will run: settled before anything is opened."""

    settings: Settings
    speed: float
    demo: bool
    seed: int
    policy: str | None = None
    sites: Mapping[str, Path] = field(default_factory=dict)  # the socket of each
    config: Path | None = None
    draft: Draft | None = None  # of the main site; None for one of the others

    @property
    def folder(self) -> Path:
        return self.settings.store.path


def up(  # noqa: PLR0913 - a command's options are its parameters
    *,
    demo: Demo = False,
    speed: Speed = None,
    seed: Seed = None,
    host: Host = None,
    port: Port = None,
    plain_http: PlainHttp = None,
    autonomy: AutonomyName = None,
    policy: PolicyName = None,
    stop_after_s: For = None,
    no_browser: NoBrowser = False,
    until_eof: UntilEof = False,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Run the loop and its dashboard until stopped.

    Without --demo it watches this machine with the collectors that the configuration names, and
    runs one more process for each of its sites.
    """
    service = {"host": host, "port": port, "plain_http": plain_http}
    draft = read_draft(config, data)
    plan = _Plan(
        settings=_settings(draft, service, demo=demo, autonomy=autonomy, policy=policy, data=data),
        speed=_speed(speed, demo=demo),
        demo=demo,
        seed=_seed(seed, demo=demo),
        policy=policy,
        sites={} if demo else site_sockets(draft),
        config=draft.file,
        draft=None if chosen_site() else draft,
    )
    if until_eof:
        end_with_stdin()
    _check_address(plan.settings)
    with _alone(plan.folder):
        _keep_apart(plan)
        _run(plan, stop_after_s=stop_after_s, open_browser=not no_browser, as_json=as_json)


def _run(plan: _Plan, *, stop_after_s: float | None, open_browser: bool, as_json: bool) -> None:
    if plan.demo:
        print_note("starting; the first time on a machine, this compiles for a minute or more")
    with waiting("starting"):
        from steward.service import serve

        world, loop, jobs = _assembled(plan)
    print_warnings(
        (*loop.journal.damage(), *loop.recording.damage(), *_unusable_tokens(plan.settings))
    )
    if jobs is not None and not _schedules_at_once():
        print_note("the first job on a machine waits a minute or two: what schedules is compiled")
    try:
        before = _saved_before(loop, plan.settings)
        with (
            _serving(plan),
            _following(plan),
            _messages(plan, loop),
            site_processes(plan.sites, config=plan.config, folder=plan.folder) as sites,
        ):
            serve(
                loop,
                plan.settings,
                truth=None
                if world is None
                else (lambda: before + world.truth().gained_gpu_s / HOUR_S),
                speed=plan.speed,
                open_browser=open_browser and _has_screen(),
                stop_after_s=stop_after_s,
                announce=_announcing(plan, as_json=as_json),
                jobs=jobs,
                sites=sites.healths,
                waits=_waits(plan),
            )
    except StewardError:  # it never began to serve, so it has not closed the loop either
        loop.close()
        raise
    finally:
        if jobs is not None:
            jobs.store.close()
    print_note(f"stopped after {loop.status.turns} turns; the data is in {plan.folder}")


def _serving(plan: _Plan) -> ServingRunner:
    """Return what scales model servers; nothing in a demo, whose world has none."""
    from steward.clock import WallClock
    from steward.config.serving_loop import ServingRunner

    return ServingRunner([]) if plan.demo else ServingRunner.open(plan.settings, clock=WallClock())


def _waits(plan: _Plan) -> Waits | None:
    """Return what asks the stewards of sites for their queues; a demo's has no others."""
    from steward.cli.jobs.following import ask_queues

    return None if plan.demo else ask_queues(plan.config, plan.folder)


def _following(plan: _Plan) -> FollowRunner:
    """Return what follows jobs over all sites: the main steward's business, and never a demo's."""
    from steward.cli.jobs.following import queue_waits
    from steward.clock import WallClock
    from steward.config.planning_loop import FollowRunner

    if plan.demo or plan.draft is None:
        return FollowRunner(None)
    waits = queue_waits(plan.config, plan.folder)
    draft = replace(plan.draft, settings=plan.settings)
    return FollowRunner(draft, clock=WallClock(), waits=waits)


def _messages(plan: _Plan, loop: Loop[ClusterView]) -> AbstractContextManager[object]:
    """Return what tells people what happens; people who watch a demo are told nothing."""
    from steward.clock import WallClock
    from steward.config.messages import message_runner

    if plan.demo or not plan.settings.messages:
        return nullcontext()
    return message_runner(plan.settings, loop.journal, lambda: loop.view, WallClock())


def _schedules_at_once() -> bool:
    from steward.compiled import is_compiled, is_plain

    return is_plain() or is_compiled("driver.plan_starts_and_stops*")


def _unusable_tokens(settings: Settings) -> list[str]:
    """Return what is wrong with the token file: without it each request would be refused."""
    from steward.store.tokens import Tokens

    try:
        Tokens(settings.store.tokens_file).list()
    except StewardError as fault:
        return [f"{fault}; every token is refused until it is mended: {fault.hint}"]
    return []


# -- what to run -------------------------------------------------------------------------------


def _settings(
    draft: Draft,
    service: Mapping[str, object],
    *,
    demo: bool,
    autonomy: str | None,
    policy: str | None,
    data: Path | None,
) -> Settings:
    """Return the settings with what the command line says; plugs are checked here, all at once."""
    from steward.config import SettingsError
    from steward.config.plugs import plug_mistakes

    mistakes = (*draft.mistakes, *plug_mistakes(draft))
    if mistakes:
        raise SettingsError(mistakes, where=draft.where)
    settings = draft.settings
    level = _autonomy(autonomy, draft, demo=demo)
    store: dict[str, Any] = {}
    more: dict[str, Any] = {} if policy is None else _scheduling(policy, settings)
    if demo:  # never beside real data, and never into a real site's database
        store = {"folder": str(data or _demo_folder(settings.store.path)), "journal": ""}
        more |= _demo_site(draft)
    return settings.model_copy(
        update={
            **more,
            "loop": settings.loop.model_copy(update={"autonomy": level}),
            "store": settings.store.model_copy(update=store),
            "service": settings.service.model_copy(
                update={key: value for key, value in service.items() if value is not None}
            ),
        }
    )


def _autonomy(given: str | None, draft: Draft, *, demo: bool) -> Autonomy:
    from steward.model.decision import Autonomy

    if given is not None:
        if given not in AUTONOMIES:
            raise unknown_name("autonomy level", given, AUTONOMIES, where="--autonomy")
        return Autonomy(given)
    unset = draft.origin(("loop", "autonomy")) == "default"
    return Autonomy.AUTO if demo and unset else draft.settings.loop.autonomy


def _demo_site(draft: Draft) -> dict[str, Any]:
    """Name the simulated site, and let one tenant want to be asked: people see both ways."""
    from steward.config.settings import SiteSettings, TenantSettings
    from steward.model.decision import Autonomy

    chosen: dict[str, Any] = {}
    if draft.origin(("site", "name")) == "default":
        chosen["site"] = SiteSettings(name="demo")
    if not draft.settings.tenants:
        chosen["tenants"] = {ASKS_FIRST: TenantSettings(autonomy=Autonomy.APPROVE)}
    return chosen


def _scheduling(policy: str, settings: Settings) -> dict[str, Any]:
    """Add a scheduling policy and the estimators that it relies on."""
    from steward.config.plugs import schedulers

    if policy not in (there := schedulers()):
        raise unknown_name("scheduling policy", policy, there, where="--policy")
    policies = dict.fromkeys((policy, *settings.decide.policies))  # who can start needs no loan
    # both forecast run times, and the last one named would count
    runs = "job-history" if "job-history" in settings.learn.estimators else "similar-jobs"
    estimators = dict.fromkeys((*settings.learn.estimators, runs, "tenant-use"))
    return {
        # a scheduler disturbs as a matter of course: the cautious default is for lending
        "guard": settings.guard.model_copy(
            update={
                key: max(getattr(settings.guard, key), SCHEDULER_BUDGET)
                for key in ("disturbed_gpus_per_hour", "disturbed_gpus_per_tenant_per_hour")
            }
        ),
        "decide": settings.decide.model_copy(update={"policies": tuple(policies)}),
        "learn": settings.learn.model_copy(update={"estimators": tuple(estimators)}),
    }


def _demo_folder(store: Path) -> Path:
    """Name a new folder: two simulated histories in one journal would be nobody's history."""
    return store / "demo" / datetime.now(tz=UTC).astimezone().strftime("%Y%m%d-%H%M%S")


def _speed(given: float | None, *, demo: bool) -> float:
    if given is None:
        return DEMO_SPEED if demo else 1.0
    if not demo:
        raise StewardError(
            "only a simulated cluster can run faster than life",
            where="--speed",
            hint="add --demo, or leave --speed out",
        )
    if not 0 < given <= 100_000:
        raise StewardError(
            f"the speed is {given:g}", where="--speed", hint="use a number from above 0 to 100000"
        )
    return given


def _seed(given: int | None, *, demo: bool) -> int:
    if given is not None and not demo:
        problem = "only a simulated cluster has another history"
        raise StewardError(problem, where="--seed", hint="add --demo, or leave --seed out")
    if given is not None and given < 0:
        raise StewardError(f"the seed is {given}", where="--seed", hint="use 0 or more")
    return given or 0


# -- what has to be there first ----------------------------------------------------------------


def _check_address(settings: Settings) -> None:
    from steward.config.doctor import address_taken
    from steward.config.exposure import check_exposure

    check_exposure(settings.service)
    host, port = settings.service.host, settings.service.port
    taken = address_taken(host, port)
    if taken:
        raise StewardError(
            f"cannot listen there: {taken}",
            where=f"{host}:{port}",
            hint="perhaps steward runs already; choose another port with --port (0: any free one)",
        )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder: two loops on one store would each act without knowing of the other."""
    from steward.store.atomic import make_folder

    try:
        make_folder(folder)
        _close_to_others(folder)
        handle = os.open(folder / "steward.lock", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        lock = os.fdopen(handle, "a+", encoding="utf-8")
    except OSError as fault:
        raise StewardError(
            f"the store folder cannot be used: {(fault.strerror or str(fault)).lower()}",
            where=str(folder),
            hint="name a folder that you may write to with --data or store.folder",
        ) from fault
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as fault:
            lock.seek(0)
            raise StewardError(
                f"steward runs on this folder already (process {lock.read().strip() or 'unknown'})",
                where=str(folder),
                hint="stop that one, or name another folder with --data",
            ) from fault
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        before = os.umask(0o077)  # whatever is written below the folder is for its owner
        try:
            yield
        finally:
            os.umask(before)


def _close_to_others(folder: Path) -> None:
    """Take write access to the store folder from others: they could plant tokens in it."""
    mode = folder.stat().st_mode
    if mode & 0o022 and not mode & 0o1000:  # a sticky folder, such as /tmp, is nobody's store
        folder.chmod(mode & 0o755 & ~0o022)
        print_note(f"{folder} could be written to by others; now only by its owner")


def _keep_apart(plan: _Plan) -> None:
    """Refuse to write a simulated history and a real one into the same folder."""
    marker = plan.settings.store.demo_marker
    used = (plan.folder / "journal.sqlite3").exists()
    if used and marker.exists() != plan.demo:
        holds = "a simulated cluster" if marker.exists() else "a real site"
        raise StewardError(
            f"the data here is of {holds}",
            where=str(plan.folder),
            hint="name another folder with --data" + ("" if plan.demo else ", or add --demo"),
        )
    if plan.demo:
        marker.write_text(plan.settings.site.name)


def _saved_before(loop: Loop[ClusterView], settings: Settings) -> float:
    """Return the GPU-hours of earlier runs: a new simulated world does not know of them."""
    from steward.store.journal_summary import JournalSummary

    summary = JournalSummary(loop.journal, settings.savings.assumptions)
    summary.catch_up()
    return summary.savings.gpu_hours.mid


def _assembled(plan: _Plan) -> tuple[World | None, Loop[ClusterView], LocalJobRunner | None]:
    from steward.clock import ScaledClock, WallClock
    from steward.config.assemble import assemble

    if not plan.demo:
        from steward.config.local_jobs import LocalJobRunner

        live = WallClock()
        jobs = LocalJobRunner.open(plan.settings, clock=live)
        return None, assemble(plan.settings, clock=live, jobs=jobs), jobs
    from steward.sim.scenario import demo
    from steward.sim.world import World

    start_s = _demo_start_s(plan)
    scenario = replace(demo(), starts_jobs=plan.policy is None)
    world = World(scenario, seed=plan.seed, start_s=start_s)
    most_s = TURNS_BEHIND * plan.settings.loop.every_s
    clock = ScaledClock(start_s=start_s, speed=plan.speed, paused=True, most_s=most_s)
    loop = assemble(plan.settings, clock=clock, collectors=(world,), actuator=world)
    for _ in range(FIRST_TURNS):  # they compile what is used for the first time on this machine
        loop.turn()
        clock.skip(plan.settings.loop.every_s)
    clock.start()
    return world, loop, None


def _demo_start_s(plan: _Plan) -> float:
    """Start now, or after what the folder holds already: an earlier demo ran ahead of life."""
    from steward.store.journal import open_journal

    journal = open_journal(plan.settings.store.journal_url)
    try:
        print_warnings(journal.damage())  # whoever opens it first repairs it, and knows
        present_s = now_s(journal)
    finally:
        journal.close()
    every_s = plan.settings.loop.every_s
    start_s = present_s + (every_s if present_s > time.time() else 0.0)
    return every_s * ceil(start_s / every_s)  # in step with the samples


# -- what to say -------------------------------------------------------------------------------


def _announcing(plan: _Plan, *, as_json: bool) -> Callable[[Listening], None]:
    settings = plan.settings

    def announce(reached: Listening) -> None:
        if as_json:
            _print_line(
                {
                    "url": reached.url,
                    "token": reached.token,
                    "login_url": reached.login_url,
                    "data": str(plan.folder),
                    "autonomy": settings.loop.autonomy.value,
                    "demo": plan.demo,
                    "speed": plan.speed,
                    "pid": os.getpid(),
                }
            )
            return
        watched = "a simulated cluster" if plan.demo else "this machine"
        faster = f", {plan.speed:g} times faster than real time" if plan.demo else ""
        print_lines(
            [
                f"steward watches {watched}{faster}",
                *_dashboard(reached),
                f"  data       {plan.folder}",
                f"  autonomy   {settings.loop.autonomy.value}{_exceptions(settings)}",
                f"  decisions  steward decisions list --data {plan.folder}",
                *sites_lines(plan.sites),
                "  stop       Ctrl-C",
            ]
        )
        sys.stdout.flush()

    return announce


def _dashboard(reached: Listening) -> list[str]:
    """Print the link that logs in to people only: what a service manager reads ends up in logs."""
    if not is_terminal():
        return [f"  dashboard  {reached.url}"]
    return [
        f"  dashboard  {reached.login_url}",
        "             (this link works once, within ten minutes; then `steward token new NAME`)",
    ]


def _exceptions(settings: Settings) -> str:
    """Name the tenants for whom less is allowed."""
    asked = [
        f"{name}: {each.autonomy.value}" for name, each in settings.tenants.items() if each.autonomy
    ]
    return f" ({', '.join(asked)})" if asked else ""


def _print_line(value: Mapping[str, object]) -> None:
    import json

    typer.echo(json.dumps(value))
    sys.stdout.flush()


def _has_screen() -> bool:
    """Open a browser only for a person with a screen: a text browser would take the terminal."""
    screen = sys.platform == "darwin" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    return sys.stdout.isatty() and screen
