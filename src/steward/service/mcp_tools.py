"""The read-only tools for other assistants, by the Model Context Protocol: stdio and HTTP.

What people, rules or logs wrote is withheld: an assistant's model would read it. Needs the extra
`ask`.
"""

from __future__ import annotations

import hmac
import json
import secrets
import sys
from collections.abc import Callable
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from starlette.types import ASGIApp, Receive, Scope, Send

from steward import __version__
from steward.clients.local_service import LocalService
from steward.clients.transport_rule import is_loopback
from steward.config.settings import Settings
from steward.errors import StewardError
from steward.questions.tools import TOOLS
from steward.service.questions import Questions, resting_questions
from steward.store.tokens import Role, Tokens

__all__ = ["CallTool", "mcp_server", "serve_http", "serve_stdio", "tools_of_service"]

CallTool = Callable[[str, dict[str, Any]], dict[str, Any]]
ASK = "ask"
_ASK = types.Tool(
    name=ASK,
    title="Ask",
    description="Ask a question in English about this site's jobs, GPUs, findings, decisions, "
    "savings or rules. Answers are computed from records, with sources.",
    input_schema={
        "type": "object",
        "properties": {"question": {"type": "string", "maxLength": 1000}},
        "required": ["question"],
        "additionalProperties": False,
    },
    annotations=types.ToolAnnotations(
        title="Ask", read_only_hint=True, destructive_hint=False, open_world_hint=False
    ),
)
_TEMPLATES = (
    ("steward://decision/{id}", "decision", "A decision with its reason, deed and outcome"),
    ("steward://finding/{id}", "finding", "A finding with its evidence"),
)


def tools_of_service(service: LocalService, settings: Settings) -> CallTool:
    """Return what calls a tool: of the steward that runs here, else over its store."""
    rest: list[Questions] = []

    def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        path = ("ask",) if name == ASK else ("ask", "tools", name)
        found = service.post(*path, body=arguments)
        if found is not None:
            return _of_answer(found) if name == ASK else found
        if not rest:
            rest.append(_resting(settings))
        return call_here(rest[0], name, arguments)

    return call


def call_here(questions: Questions, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call a tool in this process."""
    from steward.questions.asking import answer_by_grammar, call_tool  # noqa: PLC0415 - a large room

    if name == ASK:
        question = str(arguments.get("question", ""))
        return _of_answer(answer_by_grammar(questions.records(), question).as_record())
    return call_tool(questions.records(), name, arguments).as_record()


def _resting(settings: Settings) -> Questions:
    import time  # noqa: PLC0415 - beside the only place that needs it

    from steward.store.journal import open_journal  # noqa: PLC0415 - only without a service

    journal = open_journal(settings.store.journal_url, read_only_ok=True)
    return resting_questions(settings, journal, time.time())


def _of_answer(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer as a tool's reply, without texts that others wrote."""
    text, facts = answer["answer"], []
    for fact in answer["facts"]:
        if fact["unit"] == "text" and fact["text"]:
            hidden = f"(text withheld, see {fact['link'] or fact['source']})"
            text = text.replace(fact["text"], hidden)
            fact = {**fact, "value": hidden, "text": hidden}  # noqa: PLW2901 - what is shown of it
        facts.append(fact)
    return {
        "text": text,
        "known": not answer["abstained"],
        "facts": facts,
        "proposals": answer["proposals"],
    }


def mcp_server(call: CallTool) -> Server[Any]:
    """Return a server with all tools; each call runs in a thread."""

    async def list_tools(_ctx: Any, _params: Any) -> types.ListToolsResult:  # noqa: ANN401
        return types.ListToolsResult(tools=[_ASK, *map(_described, TOOLS)])

    async def call_tool(_ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:  # noqa: ANN401
        if params.name not in (ASK, *TOOLS):
            return _refused(f"there is no tool '{params.name}'")
        try:
            found = await anyio.to_thread.run_sync(call, params.name, dict(params.arguments or {}))
        except StewardError as fault:
            return _refused(f"{fault}. {fault.hint}" if fault.hint else str(fault))
        text = types.TextContent(type="text", text=found["text"])
        return types.CallToolResult(content=[text], structured_content=found)

    async def list_templates(_ctx: Any, _params: Any) -> types.ListResourceTemplatesResult:  # noqa: ANN401
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(
                    uri_template=uri, name=name, description=text, mime_type="application/json"
                )
                for uri, name, text in _TEMPLATES
            ]
        )

    async def read(_ctx: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:  # noqa: ANN401
        uri = str(params.uri)
        kind, _, id_ = uri.removeprefix("steward://").partition("/")
        if not uri.startswith("steward://") or kind not in ("decision", "finding") or not id_:
            raise MCPError(types.INVALID_PARAMS, f"there is no resource {uri}")
        found = await anyio.to_thread.run_sync(call, f"{kind}s", {kind: id_})
        text = json.dumps(found)
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=uri, mime_type="application/json", text=text)]
        )

    return Server(
        "steward",
        version=__version__,
        instructions="Read-only tools over one site's records. Nothing can be changed by them; "
        "decisions are approved by people. Cite the sources of facts.",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resource_templates=list_templates,
        on_read_resource=read,
    )


def _described(name: str) -> types.Tool:
    tool = TOOLS[name]
    return types.Tool(
        name=name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.arguments.model_json_schema(),
        annotations=types.ToolAnnotations(
            title=tool.title, read_only_hint=True, destructive_hint=False, open_world_hint=False
        ),
    )


def _refused(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


def serve_stdio(call: CallTool) -> None:
    """Serve one assistant that started this process."""

    async def run() -> None:
        server = mcp_server(call)
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(run)


def serve_http(call: CallTool, settings: Settings, *, host: str, port: int) -> None:
    """Serve assistants of this machine by Streamable HTTP at /mcp, each with a token."""
    import uvicorn  # noqa: PLC0415 - only here

    if not is_loopback(host):
        raise StewardError(
            "assistants of other machines are not served",
            where=f"--host {host}",
            hint="use 127.0.0.1, and forward the port by SSH",
        )
    app = mcp_server(call).streamable_http_app(host=host, json_response=True)
    once = secrets.token_urlsafe(24)
    sys.stderr.write(f"MCP at http://{host}:{port}/mcp\n")
    sys.stderr.write(f"token of this run: {once} (or any of `steward token new`)\n")
    sys.stderr.flush()
    tokens = Tokens(settings.store.tokens_file)
    uvicorn.run(_Checked(app, tokens, once), host=host, port=port, log_level="warning")


class _Checked:
    """Lets requests pass that have a token of this site, or that of this run."""

    def __init__(self, app: ASGIApp, tokens: Tokens, once: str) -> None:
        self._app = app
        self._tokens = tokens
        self._once = once

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._may(dict(scope["headers"])):
            headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": b"a token is needed\n"})
            return
        await self._app(scope, receive, send)

    def _may(self, headers: dict[bytes, bytes]) -> bool:
        kind, _, secret = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        if kind.lower() != "bearer" or not secret:
            return False
        if hmac.compare_digest(secret.encode(), self._once.encode()):
            return True
        found = self._tokens.find(secret)
        return found is not None and found.role.includes(Role.VIEWER)
