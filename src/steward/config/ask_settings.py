"""The section `[ask]`: a language model that helps with questions."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from steward.config.checked_values import check_optional_receiver_url
from steward.config.section import Section

__all__ = ["AskSettings"]

Url = Annotated[str, AfterValidator(check_optional_receiver_url)]


class AskSettings(Section):
    """Questions in words. Without a model they are read by a grammar."""

    model_url: Url = Field(
        "",
        description="a language model: Ollama as `http://127.0.0.1:11434`, or an OpenAI-compatible "
        "server as `http://gpu01:8000/v1`; empty means none",
    )
    model: str = Field("", description="its name there, as `qwen3:14b`")
    token_file: str = Field("", description="a file with the token that it asks for")
    ca_file: str = Field("", description="certificates to trust instead of the usual ones")
    plain_http: bool = Field(
        default=False, description="allow plain HTTP to a model on another machine"
    )
    within_s: float = Field(
        60.0, gt=0, strict=False, description="seconds for planning and writing one answer"
    )
