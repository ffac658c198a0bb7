"""Builds the loop that scales model servers, and runs it beside the one of the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from steward.act.actuators.dry_run import DryRun
from steward.act.desk import Desk
from steward.act.guard import Guard
from steward.act.serving.actuator import ServingActuator, ServingPlan
from steward.act.serving.deployment import Deployment
from steward.act.serving.fleet import Fleet
from steward.act.serving.outcomes import ServingVerifier
from steward.act.serving.processes import Processes
from steward.act.serving.slurm_servers import SlurmServers
from steward.act.serving.webhook import Webhook
from steward.clients.gateway import GatewayClient
from steward.clients.kubernetes.api import Api
from steward.clients.kubernetes.credentials import find_credentials
from steward.clients.slurm.control import SlurmControl
from steward.clock import Clock
from steward.config.assemble import LEARNED, limits
from steward.config.loop_threads import LoopThreads
from steward.config.serving_settings import InstanceSettings
from steward.config.settings import Settings
from steward.decide.serving import SCALERS
from steward.decide.serving.scale_instances import ScaleInstances
from steward.errors import StewardError
from steward.learn.step_profiles import instance_types
from steward.loop import Loop
from steward.model.serving.instance_type import H200_LLAMA_8B, InstanceType, StepTimes
from steward.model.serving.moment import ScalableType, ServingMoment
from steward.model.serving.state import ServingState
from steward.observe.serving_gateway import ServingGateway
from steward.observe.watch import Watch
from steward.ports import Scaler
from steward.registry import resolve
from steward.stages import Stages
from steward.store.journal import open_journal
from steward.store.learned import LearnedStates
from steward.store.recording import Recording

__all__ = [
    "ServingRunner",
    "assemble_serving",
    "fleets_of",
    "gateway_of",
    "scalable_of",
    "scaler_of",
]

FOLDER = "serving"  # of the store: instances that were begun, and what this loop learned


def assemble_serving(settings: Settings, *, clock: Clock) -> Loop[ServingMoment]:
    """Return a loop that is ready to run. It shares the journal with the cluster's loop."""
    serving, folder = settings.serving, settings.store.path / FOLDER
    scaler = scaler_of(settings)
    actuator = DryRun() if serving.dry_run else actuator_of(settings)
    stages = Stages(
        watch=Watch([ServingGateway(gateway_of(settings))], timeout_s=settings.observe.timeout_s),
        moment=ServingState(
            [scalable_of(name, each) for name, each in settings.instances.items()],
            tenant=serving.tenant,
            stale_after_s=serving.stale_after_s,
            prompt_tokens=serving.prompt_tokens,
        ),
        miners=(),
        estimators=(),
        detectors=(),
        policies=[ScaleInstances(scaler=scaler, down_s=serving.down_s)],
        desk=Desk(Guard(limits(settings, speed=getattr(clock, "speed", 1.0))), actuator),
        verifier=ServingVerifier(),
        domain="serving",
    )
    return Loop(
        stages,
        journal=open_journal(settings.store.journal_url),
        recording=Recording(folder, events=False),
        clock=clock,
        every_s=serving.every_s or scaler.every_s,
        learned=LearnedStates(folder / LEARNED, clock=clock),
    )


def actuator_of(settings: Settings) -> ServingActuator:
    """Return what starts, stops and sets the instances that may be scaled."""
    plans = {
        name: ServingPlan(
            fleet=fleet,
            start_within_s=settings.instances[name].start_within_s,
            drain_within_s=settings.instances[name].drain_within_s,
            limit=settings.instances[name].limit,
            kv_tokens=settings.instances[name].kv_tokens,
        )
        for name, fleet in fleets_of(settings).items()
    }
    return ServingActuator(gateway_of(settings), plans)


def fleets_of(settings: Settings) -> dict[str, Fleet]:
    """Return what starts instances, by type."""
    return {name: _fleet(name, each, settings) for name, each in settings.instances.items()}


def gateway_of(settings: Settings) -> GatewayClient:
    """Return a client of the gateway, with the key that may change its instances."""
    serving = settings.serving
    key = _secret(serving.key_file, "serving.key_file")
    return GatewayClient(
        serving.gateway, key=key, plain_http=serving.plain_http, ca=serving.ca_file
    )


def scaler_of(settings: Settings) -> Scaler:
    """Return the scaler with its options."""
    name, options = settings.serving.scaler, settings.serving.scaler_options
    make = resolve("scaler", name, SCALERS)
    try:
        return make(**options)
    except TypeError as fault:
        problem = f"scaler '{name}' cannot be made with these options: {fault}"
        hint = "its options are in docs/serving/scaling.md"
        raise StewardError(problem, where="[serving.scaler_options]", hint=hint) from fault


def scalable_of(name: str, settings: InstanceSettings) -> ScalableType:
    """Return what scalers know of a type: its limits, how fast it works, how many there may be."""
    if settings.least > settings.most:
        problem = f"at least {settings.least} are kept, and at most {settings.most} may be"
        raise StewardError(problem, where=f"[instances.{name}]", hint="let `most` be larger")
    kind = InstanceType(
        name=name,
        model=settings.model,
        step_times=_step_times(name, settings),
        gpus=settings.gpus,
        kv_tokens=settings.kv_tokens,
        max_sequences=settings.limit,
        max_batched_tokens=max(8192, 2 * settings.limit),
        start_s=settings.start_s,
        swap_s=settings.start_s,
    )
    return ScalableType(type=kind, fleet=settings.fleet, least=settings.least, most=settings.most)


def _step_times(name: str, settings: InstanceSettings) -> StepTimes:
    """Return how long steps take: as measured, or an 8B model's on one H200."""
    if not settings.profile:
        return H200_LLAMA_8B.step_times
    file = Path(settings.profile).expanduser()
    kinds = instance_types([file], H200_LLAMA_8B)
    fitting = [each for each in kinds if each.model == settings.model]
    if not fitting and len(kinds) > 1:
        measured = ", ".join(each.model for each in kinds)
        problem = f"{file} measured {measured}, not {settings.model}"
        hint = "name the model as the profile does, or give a profile of it alone"
        raise StewardError(problem, where=f"[instances.{name}] profile", hint=hint)
    return (fitting or kinds)[0].step_times


def _fleet(name: str, instance: InstanceSettings, settings: Settings) -> Fleet:
    folder = settings.store.path.absolute() / FOLDER / "instances"
    match instance.fleet:
        case "processes":
            return Processes(
                instance.command,
                folder=folder,
                health=instance.health,
                stop_within_s=instance.stop_within_s,
                devices=instance.devices,
            )
        case "slurm":
            return SlurmServers(
                instance.script,
                slurm=_slurm(settings),
                folder=folder,
                options=instance.options,
                health=instance.health,
            )
        case "kubernetes":
            return _deployment(instance, gateway_of(settings))
        case "webhook":
            secret = _secret(instance.secret_file, f"instances.{name}.secret_file")
            return Webhook(instance.url, secret=secret, plain_http=settings.serving.plain_http)


def _slurm(settings: Settings) -> SlurmControl:
    options: Mapping[str, object] = settings.plugs.get("slurm", {})
    return SlurmControl(folder=str(options.get("folder", "")), conf=str(options.get("conf", "")))


def _deployment(instance: InstanceSettings, gateway: GatewayClient) -> Deployment:
    def known_urls() -> frozenset[str]:
        return frozenset(each.url.rstrip("/") for each in gateway.snapshot(0.0).servers)

    def connect() -> Api | None:
        access = find_credentials(instance.kubeconfig)
        return None if access is None else Api(access)

    return Deployment(
        instance.deployment,
        connect=connect,
        known_urls=known_urls,
        namespace=instance.namespace,
        port=instance.port,
    )


def _secret(file: str, where: str) -> str:
    if not file:
        return ""
    try:
        return Path(file).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as fault:
        problem = f"the file cannot be read: {getattr(fault, 'strerror', '') or fault}"
        raise StewardError(problem, where=f"{where}: {file}", hint="name another file") from fault


class ServingRunner(LoopThreads):
    """Runs the loop of a gateway, while the block lasts."""

    @classmethod
    def open(cls, settings: Settings, *, clock: Clock) -> Self:
        """Return a runner; one that runs nothing where no gateway is named."""
        loops = [assemble_serving(settings, clock=clock)] if settings.serving.gateway else []
        return cls(loops)

    def __init__(self, loops: Sequence[Loop[ServingMoment]]) -> None:
        super().__init__(loops, name="serving-loop")
