"""Builds the loop that the settings describe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from steward.act.actuators import ACTUATORS
from steward.act.desk import Desk
from steward.act.guard import Guard, Limits
from steward.act.verify import ClusterVerifier
from steward.clients.prometheus import PrometheusServer
from steward.clients.query_worker import QueryWorker
from steward.clock import Clock
from steward.config.forward import targets_of
from steward.config.local_jobs import LocalJobRunner
from steward.config.plugs import POLICIES, own_options
from steward.config.rulebook import endpoint_of, read_standings, running
from steward.config.settings import RulesSettings, Settings, StoreSettings
from steward.decide.rules import DETECTORS
from steward.decide.rules.live import RuleRecogniser
from steward.decide.rules.metric import compile_metric
from steward.errors import StewardError
from steward.health.live import FaultRecogniser
from steward.inspection.series.prometheus_fallback import MOST_SERIES, compile_with_fallback
from steward.inspection.series.recorded_meter import RecordedMeter
from steward.learn.estimators import ESTIMATORS
from steward.learn.patterns import MINERS
from steward.loop import Loop
from steward.model.actions import Action
from steward.model.decision import Autonomy
from steward.model.event import Observation
from steward.model.frame import Frame
from steward.model.identity import TenantId
from steward.model.moment import Moment
from steward.model.rules import RuleStanding
from steward.model.view import ClusterView
from steward.observe.collectors import COLLECTORS
from steward.observe.forwarding import Forwarder
from steward.observe.intake import Intake
from steward.observe.logs.live_entries import LiveEntries
from steward.observe.receive import Decoders
from steward.observe.watch import Watch
from steward.ports import Actuator, Collector, Estimator, KeepsFiles, Learner, Recogniser
from steward.registry import resolve
from steward.stages import Stages
from steward.store.journal import open_journal
from steward.store.learned import LearnedStates
from steward.store.recording import Recording

__all__ = ["assemble", "learned_estimators", "limits"]

P = TypeVar("P")
GIVE_BACK = "give-back"
FAULT_POLICY = "climb-ladder"  # decides about nodes whose faults are found
LEARNED = "learned"  # folder of the store


def assemble(
    settings: Settings,
    *,
    clock: Clock,
    collectors: Sequence[Collector] | None = None,
    actuator: Actuator[Action] | None = None,
    jobs: LocalJobRunner | None = None,
) -> Loop[ClusterView]:
    """Return a loop that is ready to run. A simulated world brings both ends with it.

    With `jobs`, this machine is an engine: its collector and actuator join the site's.
    """
    if jobs is not None:
        settings, actuator = jobs.scheduling(settings), jobs.actuator
    observe = settings.observe
    make = _Maker(settings.plugs)
    store = settings.store
    recording = _recording(store)
    meter = RecordedMeter(recording.telemetry)
    limit = limits(settings, speed=getattr(clock, "speed", 1.0))
    if jobs is not None:  # whoever submitted a job asked for its start
        limit = replace(limit, start_autonomy=Autonomy.AUTO)
    guard = Guard(limit, meter)
    intake = _intake(settings, recording) if collectors is None else None
    targets = targets_of(settings) if collectors is None else ()  # made-up samples stay here
    forwarding = Forwarder(targets) if targets else None
    standings = read_standings(settings.rules, store.path, detectors=settings.decide.detectors)
    questions = _questions(settings.rules) if collectors is None and running(standings) else None
    stages = Stages(
        watch=Watch(
            (
                *make.all("collector", observe.collectors, COLLECTORS),
                *((jobs.collector,) if jobs is not None else ()),
                intake,
            )
            if intake is not None
            else collectors or (),
            timeout_s=observe.timeout_s,
            gap_after_s=observe.stale_after_s,
            sample_every_s=observe.sample_every_s,
            tenants=settings.tenant_values,
            join_lines=LiveEntries().join,
        ),
        moment=Moment(quiet_share=observe.quiet_share, stale_after_s=observe.stale_after_s),
        miners=make.all("miner", settings.learn.miners, MINERS),
        estimators=make.all("estimator", settings.learn.estimators, ESTIMATORS),
        detectors=make.all("detector", settings.decide.detectors, DETECTORS),
        recognisers=(
            *_recognisers(standings, settings.rules, questions),
            *([FaultRecogniser()] if FAULT_POLICY in settings.decide.policies else ()),
        ),
        policies=make.all("policy", _with_returns(settings.decide.policies), POLICIES),
        desk=Desk(guard, actuator or _engine(make, settings)),
        verifier=ClusterVerifier(
            quiet_share=observe.quiet_share, stale_after_s=observe.stale_after_s, meter=meter
        ),
    )
    stages.moment.fold(Observation(tenants=settings.tenant_values))
    loop = Loop(
        stages,
        journal=open_journal(store.journal_url),
        recording=recording,
        clock=clock,
        every_s=settings.loop.every_s,
        intake=intake,
        forwarding=forwarding,
        rules=standings,
        questions=questions,
        learned=LearnedStates(settings.store.path / LEARNED, clock=clock),
    )
    if jobs is not None:
        loop.wake = jobs.wake
    return loop


def _engine(make: _Maker, settings: Settings) -> Actuator[Action]:
    made = make.one("actuator", settings.act.actuator, ACTUATORS)
    if isinstance(made, KeepsFiles):
        made.keep_in(settings.store.path / settings.act.actuator)
    return made


def limits(settings: Settings, *, speed: float = 1.0) -> Limits:
    """Return what the guard has to hold to. People answer in real time, however fast a clock is."""
    ceilings = {
        TenantId(name): tenant.autonomy
        for name, tenant in settings.tenants.items()
        if tenant.autonomy is not None
    }
    guard = settings.guard.model_dump()
    guard["answer_within_s"] *= speed
    return Limits(autonomy=settings.loop.autonomy, tenant_autonomy=ceilings, **guard)


def learned_estimators(
    settings: Settings,
) -> tuple[tuple[Estimator[ClusterView], ...], tuple[str, ...]]:
    """Return the estimators that are configured or have learned here, and why states do not fit.

    Only reads: a steward that runs here goes on writing to the same folder.
    """
    learned = LearnedStates(settings.store.path / LEARNED, read_only=True)
    saved = [name for name in learned.names() if name in ESTIMATORS]
    names = tuple(dict.fromkeys((*settings.learn.estimators, *saved)))
    made = _Maker(settings.plugs).all("estimator", names, ESTIMATORS)
    found = [learned.restore(each) for each in made if isinstance(each, Learner)]
    return made, tuple(why for why in found if why)


def _questions(settings: RulesSettings) -> QueryWorker | None:
    if not settings.prometheus:
        return None
    return QueryWorker(PrometheusServer(endpoint_of(settings), most_series=MOST_SERIES))


def _intake(settings: Settings, recording: Recording) -> Intake:
    def stored(metrics: Sequence[str], from_s: float, to_s: float) -> Frame:
        return recording.telemetry.read(metrics=metrics, from_s=from_s, to_s=to_s)

    intake = Intake(settings.store.path / "intake", read_stored=stored)
    intake.decoders.update(Decoders().by_kind)
    return intake


def _recording(store: StoreSettings) -> Recording:
    return Recording(
        store.path,
        flush_every_s=store.flush_every_s,
        keep_days=store.keep_days,
        keep_tiers_days=(store.keep_10s_days, store.keep_5min_days),
        events=False,  # the journal has them
    )


def _recognisers(
    standings: Sequence[RuleStanding], settings: RulesSettings, questions: QueryWorker | None
) -> tuple[Recogniser[ClusterView], ...]:
    rules = running(standings)
    if not rules:
        return ()
    metrics = compile_with_fallback(questions) if questions is not None else compile_metric
    recogniser = RuleRecogniser(
        rules, mode=settings.mode, sources=settings.sources, compile_metric=metrics
    )
    return (recogniser,)


def _with_returns(policies: Sequence[str]) -> tuple[str, ...]:
    """Put the policy that ends loans first: loans end whatever policies a site configured."""
    return (GIVE_BACK, *(name for name in policies if name != GIVE_BACK))


class _Maker:
    """Makes plugs by name, each with its own options."""

    def __init__(self, options: Mapping[str, Mapping[str, object]]) -> None:
        self._options = options

    def one(self, kind: str, name: str, table: Mapping[str, Callable[..., P]]) -> P:
        make = resolve(kind, name, table)
        try:
            return make(**own_options(kind, name, self._options.get(name, {})))
        except TypeError as fault:
            raise StewardError(
                f"{kind} '{name}' cannot be made with these options: {fault}",
                where=f"[plugs.{name}]",
                hint="`steward config check` names the options that it takes",
            ) from fault

    def all(
        self, kind: str, names: Sequence[str], table: Mapping[str, Callable[..., P]]
    ) -> tuple[P, ...]:
        return tuple(self.one(kind, name, table) for name in names)
