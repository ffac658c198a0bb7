"""The MCP endpoint, driven by the reference client of the `mcp` package."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client

from patience import LONG_S
from questions.sites import EVIL, FOUND, site
from steward.questions.asking import answer_by_grammar, call_tool
from steward.questions.records import Records
from steward.questions.tools import TOOLS
from steward.service.mcp_tools import _of_answer, mcp_server


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Records:
    return site(tmp_path_factory.mktemp("site"))


def test_the_reference_client_lists_and_calls_all_tools(here: Records) -> None:
    def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if name == "ask":
            return _of_answer(answer_by_grammar(here, arguments["question"]).as_record())
        return call_tool(here, name, arguments).as_record()

    async def talk() -> None:
        async with Client(mcp_server(call)) as client:
            tools = (await client.list_tools()).tools
            assert {each.name for each in tools} == {"ask", *TOOLS}
            assert all(each.annotations and each.annotations.read_only_hint for each in tools)
            found = await client.call_tool("queue", {"about": "length"})
            assert found.structured_content is not None
            assert found.structured_content["facts"][0]["value"] == 1
            asked = await client.call_tool("ask", {"question": "how many jobs are waiting?"})
            assert "1 job wait" in asked.content[0].text  # type: ignore[union-attr]
            wrong = await client.call_tool("queue", {"about": "everything"})
            assert wrong.is_error
            unknown = await client.call_tool("shell", {})
            assert unknown.is_error
            resource = await client.read_resource(f"steward://finding/{FOUND}")
            text = resource.contents[0].text  # type: ignore[union-attr]
            assert json.loads(text)["known"]
            assert EVIL not in text
            told = await client.call_tool("findings", {"finding": FOUND})
            assert EVIL not in json.dumps(told.structured_content)
            assert "withheld" in told.content[0].text  # type: ignore[union-attr]

    anyio.run(talk)


@pytest.mark.real
def test_a_process_serves_the_client_by_stdio(here: Records, tmp_path: Path) -> None:
    site(tmp_path)
    command = ["-m", "steward", "ask", "serve-mcp", "--data", str(tmp_path)]

    async def talk() -> None:
        server = StdioServerParameters(command=sys.executable, args=command, env={**os.environ})
        async with Client(stdio_client(server)) as client:
            found = await client.call_tool("savings", {})
            assert found.structured_content is not None
            assert found.structured_content["facts"][0]["value"] == 2.0

    anyio.run(talk)


@pytest.mark.real
def test_a_process_serves_the_client_by_http_with_a_token(here: Records, tmp_path: Path) -> None:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    site(tmp_path)
    command = [sys.executable, "-m", "steward", "ask", "serve-mcp", "--transport", "http"]
    command += ["--port", "18789", "--data", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = [process.stderr.readline() for _ in range(2)]
        found = re.search(r"token of this run: (\S+)", "".join(lines))
        assert found is not None, lines

        async def talk(token: str) -> None:
            headers = {"Authorization": f"Bearer {token}"}
            async with httpx2.AsyncClient(headers=headers) as http:
                made = streamable_http_client("http://127.0.0.1:18789/mcp", http_client=http)
                async with Client(made) as client:
                    assert {each.name for each in (await client.list_tools()).tools} >= {*TOOLS}

        async def until_it_listens() -> int:
            with anyio.fail_after(LONG_S):
                while True:
                    try:
                        async with httpx2.AsyncClient() as http:
                            return (await http.post("http://127.0.0.1:18789/mcp")).status_code
                    except httpx2.TransportError:
                        await anyio.sleep(0.2)

        try:
            assert anyio.run(until_it_listens) == 401
            anyio.run(talk, found[1])
        finally:
            process.terminate()
