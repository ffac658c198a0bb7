"""`POST /api/v1/ask`: a question in words, answered with sources. Changes nothing."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field

from steward.errors import StewardError
from steward.questions.asking import call_tool
from steward.questions.tools import TOOLS
from steward.service.api.replies import failures
from steward.service.failures import RefusedError
from steward.service.questions import Questions

__all__ = ["ask_routes"]

MOST_CHARACTERS = 20_000  # what is too long to be a question is answered so, not refused


class AskBody(BaseModel):
    """One question."""

    model_config = ConfigDict(extra="forbid")
    question: str = Field(max_length=MOST_CHARACTERS)


def ask_routes(questions: Questions) -> APIRouter:
    """Return the route."""
    routes = APIRouter(tags=["ask"])

    @routes.post("/ask", responses=failures())
    def ask(body: AskBody) -> dict[str, Any]:
        """Answer a question. `facts` have their `source`; `abstained` is true where none is known.

        Nothing is changed by it: what a person could do about it is in `proposals`.
        """
        return questions.ask(body.question).as_record()

    @routes.post("/ask/tools/{tool}", responses=failures(404))
    def call(
        tool: Annotated[str, Path(max_length=40)], arguments: dict[str, Any]
    ) -> dict[str, Any]:
        """Call one of the read-only tools, as assistants do by MCP.

        Texts that people, rules or logs wrote are withheld: a model would read them.
        """
        if tool not in TOOLS:
            hint = f"there are {', '.join(TOOLS)}"
            raise RefusedError(404, f"there is no tool '{tool}'", where="path.tool", hint=hint)
        try:
            return call_tool(questions.records(), tool, arguments).as_record()
        except StewardError as fault:
            raise RefusedError(422, fault.problem, where=fault.where, hint=fault.hint) from fault

    return routes
