"""The gateway's sections: `[gateway]`, `[upstreams.NAME]`, `[deadline_classes.NAME]`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from steward.config.checked_values import check_not_blank, check_receiver_url, shown_host
from steward.config.section import Section
from steward.model.serving.requests import DeadlineClass

__all__ = ["ClassSettings", "GatewaySettings", "InstanceRole", "UpstreamSettings"]

Name = Annotated[str, AfterValidator(check_not_blank)]
InstanceRole = Literal["any", "interactive", "batch"]


class GatewaySettings(Section):
    """One address in front of model servers: `steward serve gateway`."""

    host: Name = Field(
        "127.0.0.1",
        description="the address to listen on; any but loopback needs a certificate, or "
        "`plain_http`",
    )
    port: int = Field(8788, ge=0, le=65535, description="0 takes any free port")
    tls_certificate: str = Field("", description="a file in PEM form; with it, HTTPS only")
    tls_key: str = Field("", description="the key of that certificate, if it is in another file")
    plain_http: bool = Field(
        default=False,
        description="allow plain HTTP from and to other machines: anyone in between can read it",
    )
    keys_file: str = Field(
        "", description="hashed API keys (`steward serve key`); empty lets everybody in"
    )
    anonymous: bool = Field(
        default=False, description="let other machines in although there are no keys"
    )
    open_status: bool = Field(
        default=False, description="answer `/metrics` and `/steward/v1/status` without a key"
    )
    policy: Name = Field("edf", description="the dispatcher; `steward serve policies` lists them")
    estimator: Name = Field(
        "learned-waits", description="what predicts waits; `none` predicts nothing"
    )
    local_limits: bool = Field(
        default=False,
        description="move each upstream's limit by local back-pressure, every 10 s: against the "
        "promised times between tokens; its configured limit is the most",
    )
    default_class: str = Field(
        "", description="of requests that name none; empty is the first of the classes"
    )
    max_queued: int = Field(
        100_000, ge=1, description="requests that wait at most; more are answered 429"
    )
    max_connections: int = Field(
        20_000, ge=1, description="client connections at most; more are answered 503"
    )
    body_limit_bytes: int = Field(
        32 * 2**20, ge=1024, description="larger requests are answered 413"
    )
    answer_limit_bytes: int = Field(
        256 * 2**20, ge=1024, description="larger answers, unless they are streamed, are a fault"
    )
    body_within_s: float = Field(60.0, gt=0, description="a request has to arrive in this time")
    connect_within_s: float = Field(5.0, gt=0, description="an upstream has to accept in this time")
    first_byte_within_s: float = Field(
        600.0, gt=0, description="an upstream has to begin its answer in this time"
    )
    stall_s: float = Field(60.0, gt=0, description="a stream without a byte for so long has failed")
    client_stall_s: float = Field(
        120.0, gt=0, description="a client that reads nothing for so long is disconnected"
    )
    retries: int = Field(
        2,
        ge=0,
        le=10,
        description="how often a request goes to an upstream again, where it is safe",
    )
    no_upstream_s: float = Field(
        30.0, ge=0, description="a request whose model no live upstream serves waits so long"
    )
    notice_every_s: float = Field(
        5.0,
        ge=0,
        description="streams that wait get a comment with place and expected wait; 0 sends none",
    )
    swap_after_s: float = Field(
        10.0,
        ge=0,
        description="of servers that share GPUs, a sleeping one that requests wait for is woken "
        "after so long while others are in use, and stays awake for as long",
    )
    health_every_s: float = Field(5.0, gt=0, description="from one health check to the next")
    metrics_every_s: float = Field(
        1.0, gt=0, description="from one look at an upstream's own metrics to the next"
    )
    breaker_failures: int = Field(
        3, ge=1, description="failures in a row after which an upstream gets no requests"
    )
    breaker_rest_s: float = Field(
        2.0, gt=0, description="how long at first; doubled up to 60 s while it keeps failing"
    )
    drain_s: float = Field(
        30.0, ge=0, description="at SIGTERM, what is there is finished for so long"
    )

    @property
    def url(self) -> str:
        """The address, once the port is known."""
        scheme = "https" if self.tls_certificate else "http"
        return f"{scheme}://{shown_host(self.host)}:{self.port}"


class UpstreamSettings(Section):
    """A model server that speaks OpenAI's API."""

    url: Annotated[str, AfterValidator(check_receiver_url)] = Field(
        ..., description="where it is, without `/v1`: `http://HOST:PORT`"
    )
    models: tuple[Name, ...] = Field(
        (), strict=False, description="what it serves; empty reads its `/v1/models`"
    )
    limit: int = Field(256, ge=1, description="requests in flight at most")
    max_waiting: int = Field(
        8, ge=1, description="of these, streams that have no token yet: they cannot be reordered"
    )
    role: InstanceRole = Field("any", description="the classes that it is kept for")
    kv_tokens: int = Field(524_288, ge=16, description="tokens that its KV cache holds")
    gpus: int = Field(1, ge=1, description="GPUs that it occupies")
    gpu_group: str = Field(
        "",
        description="servers of the same group share GPUs: one is awake, the others sleep (vLLM's "
        "`--enable-sleep-mode` with `VLLM_SERVER_DEV_MODE=1`)",
    )
    type: str = Field(
        "", description="the name of its `[instances.NAME]`, if steward started it to scale"
    )
    profile: str = Field(
        "", description="measured step times (CSV) for estimates; empty starts from an H200's"
    )
    api_key_env: str = Field(
        "", description="the environment variable with the key that it wants, if it wants one"
    )
    ca_file: str = Field("", description="certificates to trust; empty means the usual ones")
    draining: bool = Field(default=False, description="gets no more requests")


class ClassSettings(Section):
    """A deadline class: what its requests were promised."""

    rank: int = Field(0, description="smaller goes first where classes are served by rank")
    ttft_s: float | None = Field(None, gt=0, description="until the first token")
    itl_s: float | None = Field(None, gt=0, description="between tokens, on average")
    completion_s: float | None = Field(None, gt=0, description="until the last token")

    def as_class(self, name: str) -> DeadlineClass:
        """Return it as the model's type."""
        return DeadlineClass(
            name=name,
            rank=self.rank,
            ttft_s=self.ttft_s,
            itl_s=self.itl_s,
            completion_s=self.completion_s,
        )
