"""`steward serve gateway`: one address in front of model servers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steward.cli.options import Config, Data, Json, read_draft
from steward.cli.output import print_json, print_lines, print_note

if TYPE_CHECKING:
    from collections.abc import Callable

    from steward.service.gateway.extra_routes import ExtraRoutes

__all__ = ["gateway"]

Upstreams = Annotated[
    list[str] | None,
    typer.Option(
        "--upstream",
        metavar="URL",
        help="A model server, as http://127.0.0.1:8000; several share the work. Those of the "
        "configuration are there as well.",
    ),
]
Host = Annotated[
    str | None, typer.Option("--host", metavar="ADDRESS", help="Where to listen [127.0.0.1].")
]
Port = Annotated[
    int | None, typer.Option("--port", min=0, max=65535, help="0 takes any free port [8788].")
]
PolicyName = Annotated[
    str | None,
    typer.Option(
        "--policy", metavar="NAME", help="Who goes where; `steward serve policies` lists them."
    ),
]
Classes = Annotated[
    list[str] | None,
    typer.Option(
        "--class",
        metavar="NAME:PROMISES",
        help="A deadline class, as chat:ttft_s=2,itl_s=0.1 or jobs:completion_s=3600,rank=1. "
        "The first is for requests that name none. Without any: interactive and batch.",
    ),
]
LimitOption = Annotated[
    int | None,
    typer.Option("--limit", min=1, help="Requests in flight at each --upstream at most [256]."),
]
Keys = Annotated[
    Path | None,
    typer.Option(
        "--keys", metavar="FILE", help="API keys (`steward serve key`); without it, none is needed."
    ),
]
Estimator = Annotated[
    str | None,
    typer.Option("--estimator", metavar="NAME", help="What predicts waits; `none` does not."),
]
PlainHttp = Annotated[
    bool | None,
    typer.Option(
        "--plain-http",
        help="Allow plain HTTP from and to other machines: anybody in between can read it.",
        show_default=False,
    ),
]
For = Annotated[
    float | None,
    typer.Option("--for", metavar="SECONDS", min=0, help="Stop after so many seconds."),
]


def gateway(  # noqa: PLR0913 - a command's options are its parameters
    *,
    upstream: Upstreams = None,
    host: Host = None,
    port: Port = None,
    policy: PolicyName = None,
    class_: Classes = None,
    limit: LimitOption = None,
    keys: Keys = None,
    estimator: Estimator = None,
    plain_http: PlainHttp = None,
    stop_after_s: For = None,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Queue requests in front of OpenAI-compatible model servers, and meet their deadlines.

    SIGTERM finishes what is there; SIGHUP, or a change of the configuration file, reloads it.
    """
    from steward.config.gateway_setup import GatewayOptions, GatewaySetup, gateway_setup
    from steward.service.gateway.server import run_gateway

    options = GatewayOptions(
        upstreams=tuple(upstream or ()),
        classes=tuple(class_ or ()),
        limit=limit,
        settings={
            "host": host,
            "port": port,
            "policy": policy,
            "estimator": estimator,
            "keys_file": None if keys is None else str(keys),
            "plain_http": plain_http,
        },
    )

    def read() -> GatewaySetup:
        return gateway_setup(read_draft(config, data).settled(), options)

    settings = read_draft(config, data).settled()
    setup = read()
    extras: tuple[ExtraRoutes, ...] = ()
    if settings.batches.enabled:
        from steward.service.gateway.batches import open_batch_routes

        extras = (open_batch_routes(settings.batches, settings.store.path),)
    if not setup.upstreams:
        print_note("no upstream is configured: give --upstream URL, or add some over the API")
    keys_file = setup.settings.keys_file
    if keys_file and not Path(keys_file).expanduser().exists():
        print_note(
            f"{keys_file}: there are no keys yet, every request is refused; make one with "
            f"`steward serve key new NAME --keys {keys_file}`"
        )
    run_gateway(
        setup,
        read=read,
        file=read_draft(config, data).file,
        extras=extras,
        announce=_announcing(len(setup.upstreams), as_json=as_json),
        stop_after_s=stop_after_s,
    )


def _announcing(upstreams: int, *, as_json: bool) -> Callable[[str], None]:
    def announce(url: str) -> None:
        if as_json:
            print_json({"url": url, "upstreams": upstreams})
            return
        lines = [
            f"gateway: {url}/v1 in front of {upstreams} upstream{'' if upstreams == 1 else 's'}",
            f"status:  {url}/steward/v1/status",
        ]
        print_lines(lines)

    return announce
