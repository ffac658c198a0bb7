"""`steward ask`: a question in words, answered with sources; and an endpoint for assistants."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from steward.cli.options import Config, Data, Json, now_s, open_store, read_settings
from steward.cli.output import print_json, print_lines, print_note

__all__ = ["ask"]

SERVE = "serve-mcp"
_UNKNOWN = 1
Words = Annotated[
    list[str],
    typer.Argument(
        metavar="QUESTION",
        help="The question; or serve-mcp: let assistants call the same tools by MCP.",
        show_default=False,
    ),
]
Transport = Annotated[
    Literal["stdio", "http"], typer.Option("--transport", help="Of serve-mcp: stdio or http.")
]
Host = Annotated[str, typer.Option("--host", help="Of serve-mcp by http: where it listens.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65_535, help="Of serve-mcp by http.")]


def ask(  # noqa: PLR0913 - a command's options are its parameters
    words: Words,
    *,
    transport: Transport = "stdio",
    host: Host = "127.0.0.1",
    port: Port = 8789,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Answer a question in words from live and recorded data, with the source of each fact.

    Asks the steward that runs here, else its store. Nothing is changed. Exits 1 if it is not known.
    `steward ask serve-mcp` lets other assistants call the same read-only tools.
    """
    if words == [SERVE]:
        from steward.cli.ask_mcp import serve_mcp

        serve_mcp(read_settings(config, data), transport=transport, host=host, port=port)
        return
    answer = _asked(" ".join(words), config, data)
    if as_json:
        print_json(answer)
    else:
        _print(answer)
    raise typer.Exit(_UNKNOWN if answer["abstained"] else 0)


def _asked(question: str, config: Config, data: Data) -> dict[str, Any]:
    from steward.clients.local_service import LocalService

    settings = read_settings(config, data)
    service = LocalService(settings.socket_path, timeout_s=settings.ask.within_s + 30)
    answer = service.post("ask", body={"question": question[:20_000]})
    if answer is not None:
        return answer
    from steward.service.questions import resting_questions

    with open_store(config, data) as store:
        questions = resting_questions(store.settings, store.journal, now_s(store.journal))
        return questions.ask(question).as_record()


def _print(answer: dict[str, Any]) -> None:
    facts = answer["facts"]
    numbers = {
        source: place for place, source in enumerate(dict.fromkeys(f["source"] for f in facts), 1)
    }
    for sentence in answer["sentences"]:
        cited = sorted({numbers[facts[place - 1]["source"]] for place in sentence["cites"]})
        marks = f" [{', '.join(map(str, cited))}]" if cited else ""
        print_lines([f"{sentence['text']}{marks}"])
    if numbers:
        print_lines(["", *(f"[{place}] {source}" for source, place in numbers.items())])
    for proposal in answer["proposals"]:
        print_lines([f"{proposal['text']} {proposal['command']}"])
    for note in answer["notes"]:
        print_note(note)
