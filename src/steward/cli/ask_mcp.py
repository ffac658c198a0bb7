"""`steward ask serve-mcp`: where its records come from, and how it is served."""

from __future__ import annotations

from typing import Literal

from steward.config.settings import Settings
from steward.errors import StewardError

__all__ = ["serve_mcp"]


def serve_mcp(
    settings: Settings, *, transport: Literal["stdio", "http"], host: str, port: int
) -> None:
    """Serve the tools until it is ended: those of the steward that runs here, else of its store."""
    from steward.clients.local_service import LocalService

    try:
        from steward.service.mcp_tools import serve_http, serve_stdio, tools_of_service
    except ModuleNotFoundError as fault:
        hint = "pip install 'steward[ask]'"
        raise StewardError(f"{fault.name} is not installed", where="ask", hint=hint) from fault
    tools = tools_of_service(LocalService(settings.socket_path), settings)
    if transport == "stdio":
        serve_stdio(tools)
    else:
        serve_http(tools, settings, host=host, port=port)
