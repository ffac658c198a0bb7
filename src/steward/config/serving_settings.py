"""The sections of scaling: `[serving]` and `[instances.NAME]`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from steward.config.checked_values import (
    check_not_blank,
    check_optional_receiver_url,
    check_receiver_url,
)
from steward.config.section import Section

__all__ = ["InstanceSettings", "ServingSettings"]

Name = Annotated[str, AfterValidator(check_not_blank)]
OptionalUrl = Annotated[str, AfterValidator(check_optional_receiver_url)]


class ServingSettings(Section):
    """How many model servers there are: decided by `steward up`, beside the gateway."""

    gateway: OptionalUrl = Field(
        "", description="the gateway to watch, as `http://127.0.0.1:8788`; empty means none"
    )
    shown: tuple[Annotated[str, AfterValidator(check_receiver_url)], ...] = Field(
        (),
        strict=False,
        description="more gateways that the page Serving shows, by the same key; nothing is "
        "decided about them",
    )
    key_file: str = Field(
        "", description="a file with an API key of it that may change instances, and nothing else"
    )
    ca_file: str = Field(
        "", description="certificates to trust instead of the usual ones, of all these gateways"
    )
    plain_http: bool = Field(
        default=False, description="allow plain HTTP to a gateway or webhook on another machine"
    )
    scaler: Name = Field(
        "slack", description="what decides how many there are; `steward serve policies` lists them"
    )
    scaler_options: dict[str, float | int | bool] = Field(
        default_factory=dict, description="options of the scaler, as `fewest = 1`"
    )
    every_s: float | None = Field(
        None, gt=0, description="seconds from one decision to the next; the scaler's own if unset"
    )
    dry_run: bool = Field(
        default=True, description="write down what would be done, and start and stop nothing"
    )
    tenant: Name = Field(
        "serving",
        description="whose GPUs instances run on: `[tenants.NAME]` sets its autonomy and guarantee",
    )
    stale_after_s: float = Field(
        60.0, gt=0, description="nothing is decided while the gateway has been silent for so long"
    )
    down_s: float = Field(
        120.0, gt=0, description="an instance that has not answered for so long is taken away"
    )
    prompt_tokens: int = Field(
        512, ge=1, description="usual length of a prompt: the gateway's counts do not say it"
    )


class InstanceSettings(Section):
    """A type of model server that may be started and stopped."""

    fleet: Literal["processes", "slurm", "kubernetes", "webhook"] = Field(
        "processes", description="what starts it"
    )
    model: Name = Field(..., description="the model that it serves")
    gpus: int = Field(1, ge=0, description="GPUs of one instance; 0 for a server without any")
    least: int = Field(0, ge=0, description="so many are always kept")
    most: int = Field(1, ge=1, description="never more than so many")
    limit: int = Field(256, ge=1, description="requests in flight at most, for one instance")
    kv_tokens: int = Field(524_288, ge=16, description="tokens that its KV cache holds")
    profile: str = Field(
        "",
        description="a CSV of its measured step times, as `steward serve simulate --profile` reads "
        "it; without it scalers count with those of an 8B model on one H200",
    )
    start_s: float = Field(
        60.0, gt=0, description="from a start to its first answer: counted against deadlines"
    )
    start_within_s: float = Field(
        900.0, gt=0, description="an instance that does not answer by then is stopped again"
    )
    drain_within_s: float = Field(
        600.0, ge=0, description="what is in flight so long after a drain is cut off"
    )
    health: str = Field("/health", description="a path that answers 200 once it serves")
    command: str = Field(
        "",
        description="processes: the program, without a shell; {port}, {name}, {model} and {gpus} "
        "are filled in, as `vllm serve m --port {port}`",
    )
    devices: tuple[str, ...] = Field(
        (),
        strict=False,
        description="processes: GPUs to share out by CUDA_VISIBLE_DEVICES; empty sets nothing",
    )
    stop_within_s: float = Field(30.0, gt=0, description="processes: from TERM to KILL")
    script: str = Field("", description="slurm: the batch script of one instance")
    options: tuple[str, ...] = Field(
        (), strict=False, description="slurm: options for sbatch, as `--account=serving`"
    )
    deployment: str = Field("", description="kubernetes: the Deployment to scale")
    namespace: Name = Field("default", description="kubernetes: where that is")
    kubeconfig: str = Field("", description="kubernetes: a kubeconfig; empty finds one")
    port: int = Field(8000, ge=1, le=65535, description="kubernetes: where its pods listen")
    url: OptionalUrl = Field("", description="webhook: who is told")
    secret_file: str = Field(
        "", description="webhook: a file with the secret that requests are signed with"
    )
