"""The language model of `[ask]`."""

from __future__ import annotations

from steward.clients.chat_models import ChatModel
from steward.clients.web import Endpoint
from steward.config.ask_settings import AskSettings
from steward.config.forward import secret_in
from steward.errors import StewardError

__all__ = ["chat_model"]


def chat_model(settings: AskSettings) -> ChatModel | None:
    """Return the model that is configured; None without one."""
    if not settings.model_url:
        return None
    faults: list[str] = []
    token = secret_in("ask.token_file", settings.token_file, faults)
    if faults:
        raise StewardError("; ".join(faults), hint="correct this file, or leave it out")
    endpoint = Endpoint(
        url=settings.model_url,
        token=token,
        ca=settings.ca_file,
        timeout_s=settings.within_s,
        plain_http=settings.plain_http,
    )
    return ChatModel(endpoint, model=settings.model or "default", timeout_s=settings.within_s)
