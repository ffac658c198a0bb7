"""`steward fabric scan`: the ports of this machine, and what they did in a moment."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steward.cli.options import Json
from steward.cli.output import print_json, print_note, print_table, waiting
from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.clients.linux.fabric_ports import HostPort

__all__ = ["scan"]

Seconds = Annotated[
    float, typer.Option("--for", metavar="SECONDS", help="How long counters are watched.")
]


def scan(*, seconds: Seconds = 1.0, as_json: Json = False) -> None:
    """List the network ports of this machine with speed, load and stalls.

    Counters are read twice; what a driver does not count is unknown. Who is at the other end of a
    port LLDP or ibnetdiscover say: `steward fabric show`.
    """
    from steward.clients.linux.fabric_ports import host_ports

    if not 0.01 <= seconds <= 3600:
        raise StewardError(f"{seconds:g} s is not possible", where="--for", hint="0.01 to 3600")
    before = {each.name: each for each in host_ports()}
    begun = time.monotonic()
    with waiting("watching counters"):
        time.sleep(seconds)
    past_s = time.monotonic() - begun
    rows = [_row(before.get(each.name), each, past_s) for each in host_ports()]
    if as_json:
        print_json({"seconds": past_s, "ports": rows})
        return
    if not rows:
        print_note("this machine has no network port but loopback")
    print_table(
        ("Port", "Kind", "State", "Speed", "Sends", "Stalled", "Errors"),
        [
            (
                row["name"],
                row["kind"],
                "up" if row["up"] else "down",
                _said(row["bytes_per_s"], 8e-9, " Gbit/s"),
                _said(row["figures"].get("bytes_per_s"), 8e-9, " Gbit/s"),
                _said(row["figures"].get("stalled_share"), 100, " %"),
                _said(row["figures"].get("errors_per_s"), 1, "/s"),
            )
            for row in rows
        ],
        empty="no ports",
    )


def _row(before: HostPort | None, now: HostPort, past_s: float) -> dict[str, Any]:
    from steward.observe.fabric.counters import PortMeter
    from steward.observe.fabric.host import counters_of

    meter = PortMeter()
    if before is not None:
        meter.read(now.name, 0.0, counters_of(before.counters or {}, before.bytes_per_s))
    figures = meter.read(now.name, past_s, counters_of(now.counters or {}, now.bytes_per_s))
    return {
        "name": now.name,
        "kind": now.kind,
        "up": now.up,
        "bytes_per_s": now.bytes_per_s,
        "figures": dict(figures),
    }


def _said(value: float | None, factor: float, unit: str) -> str:
    known = value is not None and value == value  # noqa: PLR0124 - NaN is not itself
    return f"{value * factor:.3g}{unit}" if known and value is not None else "unknown"
