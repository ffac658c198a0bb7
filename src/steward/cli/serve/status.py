"""`steward serve status`: queues against deadlines, instances, and what was scaled last."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steward.cli.options import Config, Data, Json, read_draft
from steward.cli.output import print_error, print_json, print_lines, print_table
from steward.cli.words import ago
from steward.errors import StewardError, TemporaryError

if TYPE_CHECKING:
    from steward.config import Settings

__all__ = ["status"]

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="The gateway, as http://127.0.0.1:8788; without it `serving.gateway`, or the one of "
        "`[gateway]` on this machine.",
    ),
]
KeyFile = Annotated[
    str | None,
    typer.Option("--key-file", metavar="FILE", help="An API key of it [serving.key_file]."),
]
CaFile = Annotated[
    str | None,
    typer.Option(
        "--ca-file", metavar="FILE", help="Certificates to trust [serving.ca_file, the usual ones]."
    ),
]
CLASSES = ("class", "queued", "running", "done", "kept", "oldest", "expected", "deadline")
INSTANCES = ("instance", "type", "model", "state", "role", "in flight", "limit", "tokens/s")
EVENTS = 10


def status(
    *,
    url: Url = None,
    key_file: KeyFile = None,
    ca_file: CaFile = None,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Show queues, instances and the last changes of a gateway.

    Exits 1 if it does not answer, or an instance is down.
    """
    from steward.clients.gateway import GatewayClient, snapshot_of

    settings = read_draft(config, data).settled()
    client = GatewayClient(
        _address(url, settings),
        key=_key(settings.serving.key_file if key_file is None else key_file),
        plain_http=settings.serving.plain_http,
        ca=settings.serving.ca_file if ca_file is None else ca_file,
    )
    try:
        raw = client.status()
        down = [each.name for each in snapshot_of(raw, seen_s=0.0).servers if each.state == "down"]
    except TemporaryError as fault:  # it may be down: that is an answer, not wrong use
        print_error(fault, as_json=as_json)
        raise typer.Exit(1) from fault
    finally:
        client.close()
    if as_json:
        print_json(raw)
    else:
        _print(raw)
    raise typer.Exit(1 if down else 0)


def _address(url: str | None, settings: Settings) -> str:
    return url or settings.serving.gateway or settings.gateway.url


def _key(file: str) -> str:
    from pathlib import Path

    if not file:
        return ""
    try:
        return Path(file).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as fault:
        reason = getattr(fault, "strerror", "") or fault
        raise StewardError(f"the file cannot be read: {reason}", where=file) from fault


def _print(raw: Mapping[str, Any]) -> None:
    estimator = raw.get("estimator") or {}
    print_lines([f"dispatcher {raw.get('policy') or 'unknown'}; {_estimates(estimator)}", ""])
    print_table(CLASSES, [_class(each) for each in raw.get("classes") or ()], empty="no classes")
    print_lines([""])
    servers = raw.get("instances") or ()
    print_table(INSTANCES, [_instance(each) for each in servers], empty="no instances")
    print_lines(_events(raw.get("events") or ()))


def _estimates(estimator: Mapping[str, Any]) -> str:
    error, coverage = estimator.get("median_error"), estimator.get("coverage_90")
    if error is None or coverage is None:
        return "too few requests have waited to judge its estimates"
    return f"waits are {error:.0%} off (median), {coverage:.0%} within the 90 % bound"


def _class(each: Mapping[str, Any]) -> list[str]:
    attained = each.get("attainment")
    return [
        str(each.get("name", "")),
        str(each.get("queued", 0)),
        str(each.get("in_flight", 0)),
        str(each.get("done", 0)),
        "" if attained is None else f"{attained:.1%}",
        _seconds(each.get("oldest_wait_s")),
        _seconds(each.get("expected_wait_s")),
        _seconds(each.get("deadline_s")),
    ]


def _instance(each: Mapping[str, Any]) -> list[str]:
    state = "draining" if each.get("draining") else str(each.get("state", ""))
    breaker = each.get("breaker")
    rate = each.get("tokens_per_s")
    return [
        str(each.get("name", "")),
        str(each.get("type", "")),
        str(each.get("model", "")),
        state if breaker in (None, "closed") else f"{state}, breaker {breaker}",
        str(each.get("role", "")),
        str(int(each.get("running") or 0) + int(each.get("waiting") or 0)),
        str(each.get("limit", "")),
        "" if rate is None else f"{rate:.0f}",
    ]


def _events(events: object) -> Iterator[str]:
    found = list(events)[-EVENTS:] if isinstance(events, list) else []
    if found:
        yield ""
        yield "last changes"
    for each in found:
        why = f": {each['why']}" if each.get("why") else ""
        about = f"{each.get('instance', '')} " if each.get("instance") else ""
        yield f"  {ago(each.get('t_s', 0.0), time.time())}  {about}{each.get('what', '')}{why}"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} s"
