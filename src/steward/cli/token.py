"""`steward token`: access tokens of people and programs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from steward.cli.options import Config, Data, Json, read_settings
from steward.cli.output import print_json, print_lines, print_note, print_table
from steward.cli.words import moment
from steward.errors import StewardError, unknown_name

__all__ = ["app"]

app = typer.Typer(help="Make, list and revoke access tokens.", rich_markup_mode=None)

DAY_S = 86400.0
ROLES = ("viewer", "operator", "admin", "agent")


def _complete_name(ctx: typer.Context, incomplete: str) -> Sequence[str]:
    from steward.store.tokens import Tokens

    try:
        settings = read_settings(ctx.params.get("config"), ctx.params.get("data"))
        names = [token.name for token in Tokens(settings.store.tokens_file).list()]
    except (StewardError, OSError):
        return []  # a shell that completes must not be disturbed
    return [name for name in names if name.startswith(incomplete)]


Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The person or program: choices are recorded under it."),
]
KnownName = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The token's name.", autocompletion=_complete_name),
]
RoleName = Annotated[
    str,
    typer.Option(
        "--role",
        metavar="ROLE",
        help="`viewer` reads, `operator` also approves, rejects and undoes, `admin` also manages "
        "tokens, `agent` only sends telemetry.",
        autocompletion=lambda: list(ROLES),
    ),
]

Node = Annotated[
    str,
    typer.Option(
        "--node",
        metavar="NODE",
        help="With --role agent: the one node that it may speak of, or '*' for all of them. "
        "Without it, each agent may speak of its own.",
    ),
]
ValidFor = Annotated[
    float | None,
    typer.Option("--days", metavar="N", min=0.001, help="Expire after so many days [never]."),
]


@app.command()
def new(  # noqa: PLR0913 - a command's options are its parameters
    name: Name,
    *,
    role: RoleName = "viewer",
    node: Node = "",
    days: ValidFor = None,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Make a token and print it, this once. Only its hash is kept."""
    from steward.store.tokens import Role, Tokens

    if role not in ROLES:
        raise unknown_name("role", role, ROLES, where="--role")
    if node and role != "agent":
        hint = "people see all nodes; leave --node out, or add --role agent"
        raise StewardError("only an agent's token is for a node", where="--node", hint=hint)
    tokens = Tokens(read_settings(config, data).store.tokens_file)
    valid_s = None if days is None else days * DAY_S
    secret = tokens.make(name, Role(role), node=node, valid_s=valid_s)
    if as_json:
        made = next(each for each in tokens.list() if each.name == name)
        print_json({**asdict(made), "token": secret})
        return
    typer.echo(secret)
    print_note("keep it: it is not shown again")


@app.command(name="list")
def list_(*, config: Config = None, data: Data = None, as_json: Json = False) -> None:
    """List tokens by name; the tokens themselves are not kept."""
    from steward.store.tokens import Tokens

    tokens = Tokens(read_settings(config, data).store.tokens_file).list()
    if as_json:
        print_json(tokens)
        return
    rows = [
        (token.name, token.role.value, token.node, moment(token.made_s), _expiry(token.expires_s))
        for token in tokens
    ]
    print_table(("person", "role", "node", "made", "expires"), rows, empty="no tokens yet")


def _expiry(expires_s: float | None) -> str:
    if expires_s is None:
        return "never"
    return "expired" if expires_s <= time.time() else moment(expires_s)


@app.command()
def revoke(
    name: KnownName, *, config: Config = None, data: Data = None, as_json: Json = False
) -> None:
    """Make a token worthless, at once."""
    from steward.store.tokens import Tokens

    Tokens(read_settings(config, data).store.tokens_file).revoke(name)
    if as_json:
        print_json({"revoked": name})
    else:
        print_lines([f"revoked {name}"])
