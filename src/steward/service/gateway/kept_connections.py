"""Whether a request went out on a connection that had been used before."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

from aiohttp import ClientSession, TraceConfig
from aiohttp.tracing import TraceConnectionReuseconnParams

__all__ = ["ConnectionUse", "use_tracing"]


@dataclass(slots=True)
class ConnectionUse:
    """Given along with a request; true once it got a kept connection."""

    kept: bool = False


def use_tracing() -> TraceConfig:
    """Return what a session needs for `ConnectionUse` to be filled."""
    config = TraceConfig()
    config.on_connection_reuseconn.append(_note)
    return config


async def _note(
    session: ClientSession, context: SimpleNamespace, params: TraceConnectionReuseconnParams
) -> None:
    del session, params
    use = context.trace_request_ctx
    if isinstance(use, ConnectionUse):
        use.kept = True
