"""What a stand-in server is started with."""

from __future__ import annotations

from dataclasses import dataclass, fields

from steward.errors import StewardError
from steward.model.serving.instance_type import H200_LLAMA_8B, InstanceType

__all__ = ["METRIC_DIALECTS", "FaultShares", "StandInSettings"]

METRIC_DIALECTS = ("vllm", "vllm-old", "sglang", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultShares:
    """Which share of requests goes wrong, by kind; drawn with the server's seed.

    `error` answers 500; `garbage` 200 with bytes that are no JSON; `reset` closes the connection
    hard, `cut` in order but too early, and `stall` sends no more, each half-way through an answer.
    """

    error: float = 0.0
    garbage: float = 0.0
    reset: float = 0.0
    cut: float = 0.0
    stall: float = 0.0

    def __post_init__(self) -> None:
        shares = {each.name: float(getattr(self, each.name)) for each in fields(self)}
        if min(shares.values()) < 0 or sum(shares.values()) > 1:
            given = ", ".join(f"{name} {share:g}" for name, share in shares.items())
            hint = "each share is from 0 to 1, and so is their sum"
            raise StewardError(f"shares of faults are {given}", where="stand-in server", hint=hint)

    def kind(self, draw: float) -> str:
        """Return the kind of fault for a number drawn from 0 to 1; "" is none."""
        for each in fields(self):
            draw -= getattr(self, each.name)
            if draw < 0:
                return each.name
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandInSettings:
    """How a stand-in behaves; `speed` 10 lets ten seconds of the model pass in one."""

    kind: InstanceType = H200_LLAMA_8B
    speed: float = 1.0
    seed: int = 0
    mean_output: int = 256  # tokens of an answer that no limit ends; drawn, log-normal
    exact: bool = False  # every answer has as many tokens as its request allows
    places: int = 8192  # requests at a time, running and waiting: more are answered 503
    most_tokens: int = 32_768  # prompt and answer
    prefix_block_tokens: int = 128  # 0: no prefix cache
    adapters: tuple[str, ...] = ()  # LoRA adapters that are loaded at the start
    api_key: str = ""
    metrics: str = "vllm"
    faults: FaultShares = FaultShares()
    fail_after: int | None = None  # the process dies when it gets one request more
