"""The command: which source, and the loop between keys and clock."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steward.cli.options import Config, Json, read_settings
from steward.cli.output import is_terminal, print_json
from steward.cli.words import seconds
from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.cli.observe.top.drawing import Looks
    from steward.cli.observe.top.scene import Scene
    from steward.cli.observe.top.sources import Source

__all__ = ["top"]

FASTEST_S = 0.2
REDRAW_S = 0.5  # the longest that a resized terminal looks wrong

Folder = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="The newest moment of a store or a recording."),
]
Address = Annotated[
    str | None, typer.Option("--server", metavar="URL", help="A steward that runs somewhere.")
]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", metavar="FILE", help="Holds a token of that steward.")
]
Every = Annotated[
    str, typer.Option("--every", metavar="TIME", help="How often this machine is read: 1s, 500ms.")
]
Once = Annotated[bool, typer.Option("--once", help="Print one frame as plain text, and end.")]


def top(  # noqa: PLR0913 - a command's options are its parameters
    *,
    data: Folder = None,
    server: Address = None,
    token_file: TokenFile = None,
    every: Every = "1s",
    once: Once = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Watch machines, GPUs and jobs in the terminal; who holds GPUs and rests is marked.

    Keys: q quits, s changes the order of jobs, i shows only idle ones, arrows scroll.
    """
    every_s = seconds(every, where="--every")
    if every_s < FASTEST_S:
        hint = "nobody can read faster; `steward observe record` samples every 10 ms"
        raise StewardError(f"{every} is less than 200 ms", where="--every", hint=hint)
    if data is not None and server is not None:
        hint = "name a folder or a server"
        raise StewardError("both are given", where="--data, --server", hint=hint)
    source = _source(data, server, token_file, config=config, every_s=every_s)
    try:
        if as_json:
            print_json(source.look())
        elif once or not is_terminal():
            _print(source.look())
        else:
            _live(source)
    finally:
        source.close()


def _source(
    data: Path | None,
    server: str | None,
    token_file: Path | None,
    *,
    config: Path | None,
    every_s: float,
) -> Source:
    from steward.cli.observe.top import sources

    if server is not None:
        return sources.Server(server, token_file)
    if token_file is not None:
        hint = "add --server URL, or leave the token out"
        raise StewardError("a token is for a server", where="--token-file", hint=hint)
    if data is not None:
        return sources.Folder(data)
    local = sources.LocalMachine(read_settings(config, None), every_s=every_s)
    local.settle()
    return local


def _print(scene: Scene) -> None:
    from rich.console import Console

    from steward.cli.observe.top.drawing import Looks, draw

    size = shutil.get_terminal_size((120, 24))
    lines = 10 + len(scene.hosts) + len(scene.gpus) + len(scene.jobs)
    looks = Looks(width=size.columns, height=lines + 10)
    Console(width=size.columns, highlight=False).print(draw(scene, looks))


def _live(source: Source) -> None:
    from rich.console import Console
    from rich.live import Live

    from steward.cli.observe.top.drawing import Looks, draw
    from steward.cli.observe.top.keys import Keys

    console = Console(highlight=False)
    scene = source.look()
    looks = Looks(width=console.width, height=console.height)
    with Keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        due_s = time.monotonic() + source.every_s
        shown: object = None
        while True:
            looks = replace(looks, width=console.width, height=console.height)
            if shown != (scene, looks):
                shown = (scene, looks)
                live.update(draw(scene, looks), refresh=True)
            key = keys.wait(min(REDRAW_S, due_s - time.monotonic()))
            if key == "q":
                return
            looks = _after(key, looks)
            if time.monotonic() >= due_s:
                scene = source.look()
                due_s = max(due_s + source.every_s, time.monotonic())


def _after(key: str, looks: Looks) -> Looks:
    """Return the looks after a key."""
    from steward.cli.observe.top.drawing import SORTS

    if key == "s":
        return replace(looks, sort=SORTS[(SORTS.index(looks.sort) + 1) % len(SORTS)], scrolled=0)
    if key == "i":
        return replace(looks, only_idle=not looks.only_idle, scrolled=0)
    by = {"up": -1, "down": 1, "page-up": -10, "page-down": 10}.get(key, 0)
    return looks.scrolled_by(by)
