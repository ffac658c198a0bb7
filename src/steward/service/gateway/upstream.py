"""One model server: what it serves, what it has in flight, and whether it may get more."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field

from yarl import URL

from steward.config.gateway_settings import GatewaySettings, UpstreamSettings
from steward.model.serving.instance_type import InstanceType
from steward.model.serving.view import (
    ANY_CLASS,
    BATCH_ONLY,
    DRAINING,
    INTERACTIVE_ONLY,
    OFF,
    SERVING,
    STARTING,
    SWAPPING,
)
from steward.service.gateway.breaker import HALF_OPEN, OPEN, Breaker
from steward.service.gateway.call import UpstreamCall

__all__ = ["ROLES", "EngineLoad", "Upstream", "live_models"]

ROLES = {"any": ANY_CLASS, "interactive": INTERACTIVE_ONLY, "batch": BATCH_ONLY}
_SMOOTHING = 0.3  # of tokens per second
_BLOCKED_STEPS = 32.0  # without a first token: longer than `max_waiting` prompts before it need


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLoad:
    """What a server's own metrics say; None where it does not say it."""

    running: float | None = None
    waiting: float | None = None
    kv_share: float | None = None
    generated_tokens: float | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Upstream:
    """Its counts are the gateway's own; `load` is what the server says, up to a second old."""

    name: str
    settings: UpstreamSettings
    kind: InstanceType
    breaker: Breaker
    api_key: str = ""
    tls: ssl.SSLContext | bool = True
    models: tuple[str, ...] = ()
    limit: int = 0
    role: int = ANY_CLASS
    draining: bool = False
    reachable: bool | None = None  # None before the first health check
    asleep: bool = False  # another of its `gpu_group` has the GPUs
    asked: bool = False  # it has said whether it sleeps, since it was last unreachable
    changing: bool = False  # it falls asleep, or wakes up
    woken_s: float = 0.0
    paused_until_s: float = 0.0  # it answered 429
    in_flight: int = 0
    waiting: int = 0  # of these, streams without a token
    errors: int = 0
    answers: int = 0
    tokens: int = 0
    between_s: float = 0.0  # the time between tokens of streams, added up
    gaps: int = 0  # how many
    streaming: int = 0  # streams with a token
    steps: float = 0.0  # it made, as far as streams show: tokens for each that runs
    slots: int | None = None  # the most that ran at once while others waited inside
    tokens_per_s: float = 0.0
    load: EngineLoad = field(default_factory=EngineLoad)
    _urls: dict[str, URL] = field(default_factory=dict)
    _tokens_before: int = 0

    @staticmethod
    def of(
        name: str,
        settings: UpstreamSettings,
        gateway: GatewaySettings,
        *,
        kind: InstanceType,
        api_key: str = "",
        tls: ssl.SSLContext | bool = True,
    ) -> Upstream:
        """Return an upstream as it is configured, before anything is known about it."""
        return Upstream(
            name=name,
            settings=settings,
            kind=kind,
            breaker=Breaker(gateway),
            api_key=api_key,
            tls=tls,
            models=settings.models,
            limit=settings.limit,
            role=ROLES[settings.role],
            draining=settings.draining,
            asleep=bool(settings.gpu_group),  # until it was asked
        )

    def url(self, path: str) -> URL:
        """Return the address of a path; a configured URL may end in `/v1` or not."""
        found = self._urls.get(path)
        if found is None:
            base = self.settings.url.rstrip("/").removesuffix("/v1")
            found = self._urls[path] = URL(base + path)
        return found

    def headers_for(self, call: UpstreamCall) -> dict[str, str]:
        """Return the headers that a request is sent with: with this upstream's own key."""
        headers = {**call.headers, "Content-Type": call.content_type, "Accept-Encoding": "identity"}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        return headers

    @property
    def live(self) -> bool:
        """Return whether requests may go there, as far as it is known, once it is awake."""
        return not self.draining and self.breaker.state != OPEN and bool(self.models)

    @property
    def state(self) -> int:
        """Return the code of its state in a view: one that is down counts as starting."""
        if self.draining:
            return DRAINING
        if self.changing or self.asleep:
            return SWAPPING if self.changing else OFF
        return SERVING if self.live else STARTING

    @property
    def shown_state(self) -> str:
        """Return its state in a word."""
        if self.draining:
            return "draining"
        if self.breaker.state == OPEN or self.reachable is False:
            return "down"
        if self.changing or self.asleep:
            return "swapping" if self.changing else "asleep"
        return "serving" if self.models else "starting"

    def room(self, t_s: float) -> int:
        """Return how many more requests it may get now."""
        if not self.live or self.asleep or self.changing or t_s < self.paused_until_s:
            return 0
        limit = 1 if self.breaker.state == HALF_OPEN else self.limit
        if (self.load.waiting or 0.0) >= self.settings.max_waiting:
            return 0
        return max(0, min(limit - self.in_flight, self.settings.max_waiting - self.not_begun))

    @property
    def not_begun(self) -> int:
        """Return how many wait inside it: without a token, or beyond what it runs at once."""
        beyond = 0 if self.slots is None else self.in_flight - self.slots
        return max(self.waiting, beyond)

    def take_load(self, load: EngineLoad) -> None:
        """Take what its own metrics say, also about how many it runs at once."""
        self.load = load
        if load.running and (load.waiting or self.slots is not None):
            self.slots = max(self.slots or 0, int(load.running))

    def was_full(self, sent_steps: float) -> bool:
        """Return whether one that begins now waited for others to end, not for its prompt."""
        return self.steps - sent_steps >= _BLOCKED_STEPS

    def note_running(self, running: int) -> None:
        """Take in how many ran at once while others waited."""
        self.slots = max(self.slots or 0, running)

    def measure(self, elapsed_s: float) -> None:
        """Bring tokens per second up to date."""
        rate = (self.tokens - self._tokens_before) / elapsed_s
        self._tokens_before = self.tokens
        self.tokens_per_s += _SMOOTHING * (rate - self.tokens_per_s)


def live_models(upstreams: Sequence[Upstream]) -> set[str]:
    """Return the models that some upstream may get requests for."""
    return {model for each in upstreams if each.live for model in each.models}
