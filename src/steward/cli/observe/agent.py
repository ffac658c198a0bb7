"""`steward observe agent`: sends what this machine does to a server, for as long as it runs."""

from __future__ import annotations

import inspect
import secrets
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steward.cli.options import Config, Json, read_settings
from steward.cli.output import clean, print_json, print_lines
from steward.cli.small import stay_small
from steward.cli.words import ago, number, seconds, span
from steward.errors import StewardError, unknown_name

if TYPE_CHECKING:
    from steward.config import Settings
    from steward.config.settings import AgentSettings
    from steward.observe.agent.agent import Agent
    from steward.observe.forwarding import Forwarder
    from steward.ports import Collector

__all__ = ["agent"]

SILENT_S = 60.0  # a status that is older is of an agent that has stopped

Server = Annotated[
    str | None, typer.Option("--server", metavar="URL", help="Where to send to: https://HOST:PORT.")
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="Holds a token of role `agent`, made on the server with `steward token new`.",
    ),
]
Ca = Annotated[
    Path | None,
    typer.Option("--ca", metavar="FILE", help="The authority of the server's certificate (PEM)."),
]
PlainHttp = Annotated[
    bool | None, typer.Option("--plain-http", help="Allow a server on another machine without TLS.")
]
Every = Annotated[
    str | None, typer.Option("--every", metavar="TIME", help="From one sample to the next [1s].")
]
Names = Annotated[
    str | None,
    typer.Option("--collectors", metavar="A,B", help="Which sources [all that work here]."),
]
Folder = Annotated[
    Path | None,
    typer.Option("--spool", metavar="DIR", help="Where parcels wait while the server is away."),
]
Node = Annotated[
    str | None, typer.Option("--node", metavar="NAME", help="What this machine is called.")
]
Once = Annotated[bool, typer.Option("--once", help="Look, send, and end: 0 if the server has it.")]
Status = Annotated[
    bool, typer.Option("--status", help="Say how the agent that runs here is doing, and end.")
]


def agent(  # noqa: PLR0913 - a command's options are its parameters
    *,
    server: Server = None,
    token_file: TokenFile = None,
    ca: Ca = None,
    plain_http: PlainHttp = None,
    every: Every = None,
    collectors: Names = None,
    spool: Folder = None,
    node: Node = None,
    once: Once = False,
    status: Status = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Send telemetry of this machine to a server; what cannot be sent waits on disk.

    All options can be set in the section `[agent]` of the configuration file.
    """
    stay_small()
    settings = read_settings(config, None)
    given = {
        "server": server,
        "token_file": _text(token_file),
        "ca_file": _text(ca),
        "plain_http": plain_http,
        "every_s": None if every is None else seconds(every, where="--every"),
        "collectors": None if collectors is None else _names(collectors),
        "folder": _text(spool),
        "node": node,
    }
    chosen = settings.agent.model_copy(
        update={key: value for key, value in given.items() if value is not None}
    )
    folder = Path(chosen.folder or settings.store.path / "agent").expanduser()
    if status:
        _show_status(folder, as_json=as_json)
        return
    made = _made(settings, chosen, folder)
    if once:
        arrived = made.once(chosen.every_s)
        made.close()
        raise typer.Exit(0 if arrived else 1)
    stop = threading.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: stop.set())
    made.run(stop)


def _made(settings: Settings, chosen: AgentSettings, folder: Path) -> Agent:
    from steward import __version__
    from steward.clients.steward_server import StewardServer
    from steward.clock import WallClock
    from steward.observe.agent.agent import Agent, agent_id
    from steward.observe.agent.buffer import ParcelBuffer
    from steward.observe.agent.shipper import AgentIdentity, Shipper
    from steward.observe.watch import Watch
    from steward.store.spool import Spool

    if not chosen.server:
        raise StewardError(
            "no server configured",
            where="--server",
            hint="add --server https://HOST:PORT, or set agent.server in the configuration",
        )
    if not 0.01 <= chosen.every_s <= 3600:
        hint = "use 100ms to 1h; 100ms is the shortest that all sources follow"
        raise StewardError(f"{chosen.every_s:g} s is out of range", where="--every", hint=hint)
    node = _node(chosen.node)
    server = StewardServer(
        chosen.server,
        token_file=_path(chosen.token_file),
        ca_file=_path(chosen.ca_file),
        plain_http=chosen.plain_http,
    )
    sources = _collectors(chosen.collectors, settings.plugs, node)
    spool = Spool(folder, max_bytes=chosen.buffer_bytes)
    sender = AgentIdentity(
        agent=agent_id(folder), run=secrets.token_hex(16), node=node, version=__version__
    )
    _say(f"agent of {node} sends to {server.url}: {', '.join(each.name for each in sources)}")
    return Agent(
        Watch(sources, sample_every_s=chosen.every_s),
        Shipper(ParcelBuffer(spool), server, sender=sender),
        clock=WallClock(),
        folder=folder,
        send_every_s=max(chosen.send_every_s, chosen.every_s),
        report=_say,
        forwarding=_forwarding(settings),
    )


def _forwarding(settings: Settings) -> Forwarder | None:
    if not settings.forward:
        return None
    from steward.config.forward import targets_of
    from steward.observe.forwarding import Forwarder

    targets = targets_of(settings)
    _say(f"forwards to {', '.join(f'{each.name} ({each.endpoint.url})' for each in targets)}")
    return Forwarder(targets)


def _node(given: str) -> str:
    from steward.clients.host import hostname

    node = given or hostname()
    if not node.isprintable() or any(mark in node for mark in "/@:* "):
        raise StewardError(
            f"'{node}' cannot be the name of a node",
            where="--node",
            hint="use letters, digits, dots and dashes: / @ : * and spaces have a meaning",
        )
    return node


def _collectors(
    names: Sequence[str], options: Mapping[str, Mapping[str, Any]], node: str
) -> list[Collector]:
    """Make the sources that were asked for, or all that work here, all with the node's name."""
    from steward.observe.collectors import COLLECTORS
    from steward.registry import known, resolve

    there = known("collector", COLLECTORS)
    for name in names:
        if name not in there:
            raise unknown_name("collector", name, there, where="--collectors")
    made: list[Collector] = []
    for name in names or there:
        make = resolve("collector", name, COLLECTORS)
        named = {"node": node} if "node" in inspect.signature(make).parameters else {}
        collector = make(**{**named, **options.get(name, {})})
        state = collector.available()
        if state.status != "missing":
            made.append(collector)
        elif names:
            _say(f"{name} is left out: {state.reason}")
    if not made:
        raise StewardError(
            f"none of {', '.join(names or there)} can be read here",
            where="--collectors",
            hint="`steward doctor` says why, and what would help",
        )
    return made


def _show_status(folder: Path, *, as_json: bool) -> None:
    from steward.observe.agent.agent import read_status

    said = read_status(folder)
    now_s = time.time()
    t_s = said.get("t_s")
    silent = not isinstance(t_s, int | float) or now_s - t_s > SILENT_S
    if as_json:
        print_json({**said, "silent": silent})
    else:
        print_lines(_status_lines(said, now_s, silent=silent))
    raise typer.Exit(1 if silent or said.get("problem") or said.get("disk_problem") else 0)


def _status_lines(said: Mapping[str, Any], now_s: float, *, silent: bool) -> list[str]:
    trouble = said.get("problem")
    state = f"cannot send: {trouble}" if trouble else "sends"
    state = "has stopped, or hangs" if silent else state
    sent_s, offset_s = said.get("last_sent_s"), said.get("clock_offset_s")
    waiting = f"{number(said.get('waiting_parcels', 0))} parcels, "
    waiting += f"{number(said.get('waiting_bytes', 0))} bytes"
    lines = [
        f"the agent of {said.get('node')} {state}",
        f"  written     {ago(said.get('t_s') or 0.0, now_s)}, process {said.get('pid')}",
        f"  sources     {', '.join(said.get('collectors', []))}",
        f"  sent        {number(said.get('sent_parcels', 0))} parcels, last "
        + ("never" if sent_s is None else ago(sent_s, now_s)),
        f"  waiting     {waiting}",
        f"  lost        {number(said.get('lost_parcels', 0))} parcels",
        "  clock       "
        + ("not compared yet" if offset_s is None else f"the server's is {_ahead(offset_s)}"),
    ]
    lines += [f"  forwards    {_forwarded(each)}" for each in said.get("forwarding", [])]
    extra = [said.get("disk_problem"), *said.get("damage", [])]
    return lines + [f"  trouble     {each}" for each in extra if each]


def _forwarded(target: Mapping[str, Any]) -> str:
    dropped = sum(target["dropped_samples"].values())
    trouble = f"; {target['trouble']}" if target["trouble"] else ""
    sent = f"{number(target['sent_samples'])} samples to {target['name']}"
    return f"{sent}, {number(dropped)} dropped, {number(target['waiting_samples'])} wait{trouble}"


def _ahead(offset_s: float) -> str:
    size = f"{abs(offset_s) * 1000:.1f} ms" if abs(offset_s) < 1 else span(abs(offset_s))
    return f"{size} {'ahead' if offset_s >= 0 else 'behind'}"


def _say(line: str) -> None:
    typer.echo(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {clean(line)}", err=True)
    sys.stderr.flush()


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _path(text: str) -> Path | None:
    return Path(text).expanduser() if text else None
