"""The gateways that the dashboard shows: `[serving]`."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from steward.config.checked_values import check_receiver_url
from steward.config.section import Section

__all__ = ["ServingSettings"]


class ServingSettings(Section):
    """Gateways whose queues, instances and waits the page Serving shows."""

    urls: tuple[Annotated[str, AfterValidator(check_receiver_url)], ...] = Field(
        (), strict=False, description="where they are: `http://HOST:PORT`, without `/v1`"
    )
    token_file: str = Field(
        "", description="a file that holds an API key of them and nothing else; empty sends none"
    )
    ca_file: str = Field(
        "", description="certificates to trust, in PEM form; empty means the usual authorities"
    )
    plain_http: bool = Field(
        default=False,
        description="allow plain HTTP to another machine: anyone in between can read it",
    )
    every_s: float = Field(2.0, ge=0.5, description="from one look at each of them to the next")
