"""One request for a model server as the gateway's queue holds it, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["Caller", "Submitter", "UpstreamCall", "UpstreamReply", "Usage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who sends requests: the owner of an API key, or everybody where no keys are configured."""

    name: str = ""  # of the key; "" without keys
    tenant: str = ""  # shares of tokens are kept by tenant; the key's name unless it names one
    deadline_class: str = ""  # of requests that name none; "" is the gateway's default
    admin: bool = False  # may drain, add and remove upstreams


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamCall:
    """A request to send to some upstream that serves its model. The body goes out as it is."""

    path: str  # as `/v1/chat/completions`
    body: bytes  # JSON
    model: str
    stream: bool = False
    deadline_class: str = ""  # a name; "" is the gateway's default
    deadline_in_s: float | None = None  # from now on, instead of the class's first promise
    tenant: str = ""
    request_id: str = ""  # "" makes one
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)  # to send along


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one request as its upstream counted them."""

    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamReply:
    """A whole answer. Failures are answers too: `status` is 4xx or 5xx, `body` an error object."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)  # others of the upstream's answer
    request_id: str = ""
    upstream: str = ""  # "" if it never was sent to one
    waited_s: float = 0.0  # in the gateway's queue
    usage: Usage | None = None


class Submitter(Protocol):
    """The queue of the gateway, as anything but its HTTP side uses it: a batch worker."""

    async def submit(self, call: UpstreamCall) -> UpstreamReply:
        """Wait in the queue, send, and return the answer; `call.stream` has to be False.

        Cancelling the awaiting task takes the request out of the queue or aborts it upstream.
        Raises nothing else: what goes wrong is in the reply.
        """
        ...
