"""Everything that a site can set, with its default and what it means. One TOML table per section.

The descriptions here are the reference: `scripts/make_reference.py` prints them.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from steward.config.ask_settings import AskSettings
from steward.config.batch_settings import BatchSettings
from steward.config.checked_values import (
    check_folder,
    check_journal_url,
    check_named_once,
    check_network,
    check_not_blank,
    check_optional_file,
    check_optional_receiver_url,
    check_receiver_url,
    shown_host,
)
from steward.config.gateway_settings import ClassSettings, GatewaySettings, UpstreamSettings
from steward.config.message_settings import MessageSettings
from steward.config.planning_settings import PlanningSettings
from steward.config.section import Section
from steward.config.serving_settings import InstanceSettings, ServingSettings
from steward.model.identity import TenantId
from steward.model.job import Tenant
from steward.model.site import Assumptions, Autonomy, Mode

__all__ = [
    "AccessSettings",
    "ActSettings",
    "AgentSettings",
    "DecideSettings",
    "ForwardFormat",
    "ForwardSettings",
    "GuardSettings",
    "JobsSettings",
    "LearnSettings",
    "LoopSettings",
    "ObserveSettings",
    "PlanningSettings",
    "RulesSettings",
    "SavingsSettings",
    "ServiceSettings",
    "Settings",
    "SiteSettings",
    "StoreSettings",
    "TenantSettings",
]

LocalRole = Literal["viewer", "operator", "admin"]
Plugs = Annotated[tuple[str, ...], AfterValidator(check_named_once)]
Name = Annotated[str, AfterValidator(check_not_blank)]


class SiteSettings(Section):
    """What this installation is called."""

    name: Name = Field("this-machine", description="shown on pages and in reports")


class LoopSettings(Section):
    """How often steward looks, and how much it may do by itself."""

    every_s: float = Field(10.0, gt=0, description="seconds from one turn to the next")
    autonomy: Autonomy = Field(
        Autonomy.ADVISE,
        strict=False,
        description="what may be done without a person: nothing (`observe`), advice (`advise`), "
        "what a person approves (`approve`), or anything within the guard's budgets (`auto`)",
    )


class ObserveSettings(Section):
    """What is looked at, and when silence counts."""

    collectors: Plugs = Field(
        ("cgroups", "host", "kernel-log", "marks", "nvml", "processes"),
        strict=False,
        description="the sources that are read every turn; those that are not here are left out",
    )
    sample_every_s: float = Field(
        1.0,
        ge=0.01,
        description="seconds from one sample of a GPU or host to the next; 0.1 is the "
        "shortest that all sources follow",
    )
    timeout_s: float = Field(
        5.0, gt=0, description="a collector that takes longer is left behind for this turn"
    )
    quiet_share: float = Field(
        0.05, ge=0, le=1, description="below this busy share, a GPU's owner does not use it"
    )
    stale_after_s: float = Field(
        120.0,
        gt=0,
        description="a sensor without samples for so long is stale; at least `loop.every_s`",
    )


class LearnSettings(Section):
    """Which miners and estimators learn from observations."""

    miners: Plugs = Field(("idle-habits",), strict=False, description="find what keeps happening")
    estimators: Plugs = Field(
        ("quiet-phases", "idle-spells"),
        strict=False,
        description="estimate what cannot be measured directly",
    )


class DecideSettings(Section):
    """Which detectors and policies run."""

    detectors: Plugs = Field(
        ("gpu-idle-while-allocated",), strict=False, description="turn a moment into findings"
    )
    policies: Plugs = Field(
        ("lend-idle", "treat", "undrain-recovered"),
        strict=False,
        description="turn findings and forecasts into decisions",
    )


class RulesSettings(Section):
    """Which rules run over lines, samples and events."""

    on: bool = Field(default=True, description="run rules at all")
    packs: bool = Field(default=True, description="run the rules that come with steward")
    paths: tuple[Annotated[str, AfterValidator(check_folder)], ...] = Field(
        (), strict=False, description="more rules: files, or folders of them"
    )
    mode: Mode = Field(
        Mode.STRICT,
        strict=False,
        description="`strict` as rules are meant, or `preq` as preq runs them",
    )
    disabled: tuple[Name, ...] = Field(
        (), strict=False, description="ids of rules that do not run, as `STW-GPU-0022`"
    )
    sources: dict[str, str] = Field(
        default_factory=dict,
        description="what rules call a source of lines, by the unit, file or container that "
        'writes it: `"*/train-*.log" = "cre.log.training"`; `*` stands for anything',
    )
    prometheus: Annotated[str, AfterValidator(check_optional_receiver_url)] = Field(
        "",
        description="a Prometheus that metric terms query for nodes that are not observed here, "
        "as `https://HOST:9090`; empty means none",
    )
    prometheus_token_file: str = Field(
        "", description="a file that holds a token for it and nothing else"
    )
    prometheus_ca_file: str = Field(
        "", description="certificates to trust, in PEM form; empty means the usual authorities"
    )
    prometheus_plain_http: bool = Field(
        default=False, description="allow plain HTTP to a Prometheus on another machine"
    )


class ActSettings(Section):
    """Which engine carries out decisions."""

    actuator: Name = Field("dry-run", description="the engine that decisions are carried out on")


class JobsSettings(Section):
    """Jobs that are submitted to steward and run on this machine."""

    engine: Literal["local", "slurm", "kubernetes"] = Field(
        "local", description="where `steward jobs` submits to and looks, unless --engine says it"
    )
    kubernetes_image: str = Field(
        "", description="the image of jobs on Kubernetes, unless --image says it"
    )
    kubernetes_gpu: str = Field(
        "nvidia.com/gpu", min_length=1, description="what GPUs are called on Kubernetes"
    )
    enabled: bool = Field(default=True, description="accept and run jobs: `steward jobs submit`")
    slots: int | None = Field(
        None,
        ge=0,
        le=4096,
        description="CPU slots for jobs without GPUs; unset means one per core on a machine "
        "without GPUs, and none on one with GPUs",
    )
    folder: str = Field(
        "",
        description="where jobs keep checkpoints and logs; users must be able to reach it if "
        "steward runs as root; empty means `jobs` in the store folder",
    )
    log_max_bytes: int = Field(
        2**30, ge=1024, description="size limit of a job's log; further output is dropped"
    )
    max_open_per_account: int = Field(
        20_000,
        ge=1,
        description="jobs and tasks of arrays of one account that are not over; more are refused",
    )
    grace_s: float = Field(
        30.0, ge=0, description="from TERM to KILL when a job is ended or reaches its time limit"
    )
    save_within_s: float = Field(
        300.0, gt=0, description="how long a job has to save before it is left running"
    )
    tenants: dict[Name, Name] = Field(
        default_factory=dict,
        description='the tenant of an account: `ann = "bio"`; others are tenants of their own',
    )
    token_accounts: dict[Name, Name] = Field(
        default_factory=dict,
        description="the account as which the owner of a token runs jobs; without it, jobs are "
        "submitted on this machine only",
    )


class GuardSettings(Section):
    """How much may change per time, and when to stop by itself."""

    disturbed_gpus_per_hour: int = Field(
        64, ge=0, description="GPUs in use that decisions may lend, free or drain in an hour"
    )
    disturbed_gpus_per_tenant_per_hour: int = Field(
        32, ge=0, description="the same, for any one tenant"
    )
    disturbed_per_job_per_day: int = Field(
        48,
        ge=0,
        description="how often one job may be lent, stopped, moved or resized by decisions in a "
        "day; what a person approves is not refused",
    )
    started_gpus_per_hour: int | None = Field(
        None, ge=0, description="GPUs that jobs may be started on in an hour; unset means no limit"
    )
    answer_within_s: float = Field(
        4 * 3600.0,
        gt=0,
        description="how long people have to answer a request for approval, in real time; what "
        "is still needed then is requested again",
    )
    cool_down_s: float = Field(
        600.0, ge=0, description="how long a job is left alone after a loan of its GPUs ended"
    )
    breaker_outcomes: int = Field(
        20,
        ge=2,
        description="how many of the newest outcomes the circuit breaker looks at; half will do",
    )
    breaker_share: float = Field(
        0.25,
        ge=0,
        le=1,
        description="it opens when they surely (by two standard errors) brought less than this "
        "part of what was predicted",
    )
    breaker_rest_s: float = Field(1800.0, ge=0, description="how long it then stays open")


class TenantSettings(Section):
    """One group that shares the cluster."""

    weight: float = Field(
        1.0, gt=0, description="its part of the GPUs that no tenant is guaranteed"
    )
    guaranteed_gpus: int = Field(0, ge=0, description="GPUs that are its own")
    autonomy: Autonomy | None = Field(
        None,
        strict=False,
        description="a ceiling for what may be done to this tenant's GPUs; unset means "
        "`loop.autonomy`, which also decides about starting its waiting jobs",
    )


class StoreSettings(Section):
    """Where steward remembers, and for how long."""

    folder: Annotated[str, AfterValidator(check_folder)] = Field(
        "~/.local/share/steward",
        description="journal, telemetry and tokens are kept here; a relative path starts at the "
        "folder that steward was started in",
    )
    journal: Annotated[str, AfterValidator(check_journal_url)] = Field(
        "",
        description="where the journal is; empty means SQLite in the folder, "
        "`postgresql://USER:PASSWORD@HOST:PORT/DATABASE` a PostgreSQL server",
    )
    keep_days: float = Field(
        30.0, gt=0, description="telemetry older than this is removed; its summaries stay longer"
    )
    keep_10s_days: float = Field(
        180.0, gt=0, description="how long means and extremes of 10 seconds are kept"
    )
    keep_5min_days: float = Field(
        1825.0, gt=0, description="how long means and extremes of 5 minutes are kept"
    )
    flush_every_s: float = Field(
        30.0, gt=0, description="samples are on disk at the latest after this time"
    )

    @property
    def path(self) -> Path:
        """The folder, with `~` resolved."""
        return Path(self.folder).expanduser()

    @property
    def journal_url(self) -> str:
        """Where the journal is, whether or not it was set."""
        return self.journal or f"sqlite:///{self.path.absolute() / 'journal.sqlite3'}"

    @property
    def telemetry_folder(self) -> Path:
        """Where the samples are."""
        return self.path / "telemetry"

    @property
    def demo_marker(self) -> Path:
        """The file that marks a folder whose data are simulated; it names the simulated site."""
        return self.path / "simulated"

    @property
    def tokens_file(self) -> Path:
        """Where the hashes of the access tokens are."""
        return self.path / "tokens.json"


class ServiceSettings(Section):
    """The address of the dashboard and the API."""

    host: Name = Field(
        "127.0.0.1",
        description="the address to listen on; any but loopback needs a certificate, or "
        "`plain_http`",
    )
    port: int = Field(8787, ge=0, le=65535, description="0 takes any free port")
    tls_certificate: str = Field(
        "", description="a file in PEM form; with it, the service accepts HTTPS only"
    )
    tls_key: str = Field("", description="the key of that certificate, if it is in another file")
    plain_http: bool = Field(
        default=False,
        description="allow plain HTTP from other machines: anyone in between can read tokens",
    )
    trusted_proxies: tuple[Annotated[str, AfterValidator(check_network)], ...] = Field(
        (),
        strict=False,
        description="addresses or networks of reverse proxies whose X-Forwarded-For and "
        "X-Forwarded-Proto are trusted, as `127.0.0.1` or `10.0.0.0/8`",
    )
    socket: str = Field(
        "",
        description="a Unix socket for people on this machine; empty means `steward.sock` in the "
        "store folder",
    )
    open_metrics: bool = Field(default=False, description="serve `/metrics` without a token")
    requests_per_minute: int = Field(
        600, ge=1, description="per person or program; more are answered 429"
    )
    max_connections: int = Field(
        1024,
        ge=8,
        description="open at once; fewer where storage needs the file descriptors",
    )
    body_limit_bytes: int = Field(65536, ge=1, description="larger requests are answered 413")
    upload_limit_bytes: int = Field(
        64 * 2**20,
        ge=1,
        description="the same for traces that are sent to the lab, and for pushed telemetry; a "
        "submitted job has at most 8 MiB",
    )
    otlp_grpc_port: int = Field(
        0, ge=0, le=65535, description="where OTLP over gRPC is taken, as 4317; 0 means nowhere"
    )

    @property
    def url(self) -> str:
        """The address of the dashboard, once the port is known."""
        scheme = "https" if self.tls_certificate else "http"
        return f"{scheme}://{shown_host(self.host)}:{self.port}"


class AccessSettings(Section):
    """Roles of people who have an account on the machine that steward runs on.

    They are recognised by the kernel on the Unix socket. The account that runs steward and root
    are administrators. Everybody else, and everybody from elsewhere, needs a token.
    """

    users: dict[Name, LocalRole] = Field(
        default_factory=dict, description='the role of an account: `ann = "operator"`'
    )
    group: str = Field("", description="the Unix group whose members may connect to the socket")
    group_role: LocalRole = Field(
        "viewer", description="the role of members of that group that `users` does not name"
    )


class AgentSettings(Section):
    """An agent that sends what its machine does to a server: `steward observe agent`."""

    server: str = Field("", description="where to send to: `https://HOST:PORT`")
    token_file: str = Field(
        "", description="a file that holds a token of role `agent` and nothing else"
    )
    ca_file: str = Field(
        "", description="certificates to trust, in PEM form; empty means the usual authorities"
    )
    plain_http: bool = Field(
        default=False,
        description="allow plain HTTP to another machine: anyone in between can read it",
    )
    node: str = Field("", description="what this machine is called; empty means its host name")
    collectors: Plugs = Field(
        (), strict=False, description="the sources that are read; empty means all that work here"
    )
    every_s: float = Field(1.0, ge=0.01, description="seconds from one sample to the next")
    send_every_s: float = Field(10.0, ge=0.1, description="seconds from one parcel to the next")
    folder: str = Field(
        "", description="where parcels wait for the server; empty means `agent` in `store.folder`"
    )
    buffer_bytes: int = Field(
        2**30,
        ge=2**16,
        description="its size limit; beyond it the oldest are dropped and reported as a gap",
    )


class ForwardFormat(Enum):
    """The protocol of a receiver."""

    REMOTE_WRITE = "remote-write"
    OTLP_HTTP = "otlp-http"
    OTLP_GRPC = "otlp-grpc"


class ForwardSettings(Section):
    """A receiver that `steward up` and `steward observe agent` send all they observe to."""

    format: ForwardFormat = Field(
        ForwardFormat.REMOTE_WRITE, strict=False, description="the protocol of the receiver"
    )
    url: Annotated[str, AfterValidator(check_receiver_url)] = Field(
        "",
        description="where it is: for remote write the whole address, as "
        "`https://HOST:9090/api/v1/write`; for OTLP `https://HOST:4318` or, by gRPC, "
        "`https://HOST:4317`",
    )
    token_file: str = Field("", description="a file that holds a token and nothing else")
    user: str = Field("", description="a user name, for receivers with HTTP basic authentication")
    password_file: str = Field("", description="a file that holds that password and nothing else")
    ca_file: str = Field(
        "", description="certificates to trust, in PEM form; empty means the usual authorities"
    )
    plain_http: bool = Field(
        default=False, description="allow plain HTTP to a receiver on another machine"
    )
    metrics: tuple[str, ...] = Field(
        (), strict=False, description="what to send, as `gpu.*`; empty means all metrics"
    )
    lines: bool = Field(default=False, description="send log lines too; only OTLP can")


class SavingsSettings(Section):
    """What turns GPU-hours into money, energy and carbon."""

    price_per_gpu_hour: float = Field(2.5, ge=0, description="what a GPU costs per hour")
    currency: Name = Field("USD", description="of that price")
    host_watts_per_gpu: float = Field(
        150.0, ge=0, description="the part of a host that one GPU keeps powered"
    )
    power_usage_effectiveness: float = Field(
        1.4, ge=1, description="power drawn by the building per power drawn by the machines"
    )
    co2_kg_per_kwh: float = Field(0.4, ge=0, description="of the electricity that is used")
    carbon: Annotated[str, AfterValidator(check_optional_file)] = Field(
        "",
        description="CSV of region, hour_utc, grams_per_kwh: what was saved in hours that it has "
        "counts with their carbon, by kind of decision",
    )
    region: str = Field("", description="of that file; empty where it has one only")

    @property
    def assumptions(self) -> Assumptions:
        """The same figures as the model's type."""
        return Assumptions(**self.model_dump(exclude={"carbon", "region"}))


class Settings(Section):
    """All sections. A key that is not set has the default given here."""

    site: SiteSettings = SiteSettings()
    loop: LoopSettings = LoopSettings()
    observe: ObserveSettings = ObserveSettings()
    learn: LearnSettings = LearnSettings()
    decide: DecideSettings = DecideSettings()
    rules: RulesSettings = RulesSettings()
    planning: PlanningSettings = PlanningSettings()
    act: ActSettings = ActSettings()
    jobs: JobsSettings = JobsSettings()
    guard: GuardSettings = GuardSettings()
    tenants: dict[Name, TenantSettings] = Field(
        default_factory=dict, description="one table per tenant: `[tenants.NAME]`"
    )
    store: StoreSettings = StoreSettings()
    service: ServiceSettings = ServiceSettings()
    access: AccessSettings = AccessSettings()
    agent: AgentSettings = AgentSettings()
    forward: dict[Name, ForwardSettings] = Field(
        default_factory=dict, description="one table per receiver: `[forward.NAME]`"
    )
    messages: dict[Name, MessageSettings] = Field(
        default_factory=dict,
        description="one table per receiver of messages to people: `[messages.NAME]`",
    )
    gateway: GatewaySettings = GatewaySettings()
    batches: BatchSettings = BatchSettings()
    upstreams: dict[Name, UpstreamSettings] = Field(
        default_factory=dict, description="one table per model server: `[upstreams.NAME]`"
    )
    deadline_classes: dict[Name, ClassSettings] = Field(
        default_factory=dict,
        description="one table per class: `[deadline_classes.NAME]`; without any, `interactive` "
        "(10 s to the first token, 0.2 s between tokens) and `batch` (an hour)",
    )
    serving: ServingSettings = ServingSettings()
    instances: dict[Name, InstanceSettings] = Field(
        default_factory=dict,
        description="one table per type of model server that may be scaled: `[instances.NAME]`",
    )
    savings: SavingsSettings = SavingsSettings()
    ask: AskSettings = AskSettings()
    plugs: dict[Name, dict[str, Any]] = Field(
        default_factory=dict, description="options of one plug by its name: `[plugs.NAME]`"
    )
    sites: dict[Name, dict[str, Any]] = Field(
        default_factory=dict,
        description="one more engine with a steward of its own: `[sites.NAME.SECTION]` has the "
        "sections of this file, as `[sites.a.plugs.slurm]`; what it leaves out is as here, but "
        "jobs of this machine, name, port, socket, store folder and journal are never shared",
    )

    @property
    def socket_path(self) -> Path:
        """The Unix socket on which local users reach a running steward."""
        chosen = self.service.socket or self.store.path / "steward.sock"
        return Path(chosen).expanduser().absolute()

    @property
    def jobs_folder(self) -> Path:
        """Where jobs keep what is theirs."""
        return Path(self.jobs.folder or self.store.path / "jobs").expanduser().absolute()

    @property
    def tenant_values(self) -> tuple[Tenant, ...]:
        """The tenants as the model's type."""
        return tuple(
            Tenant(id=TenantId(name), weight=each.weight, guaranteed_gpus=each.guaranteed_gpus)
            for name, each in self.tenants.items()
        )
