"""`steward token`: who may come in from other machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from steward.cli.options import Config, Data, Json, read_settings
from steward.cli.output import CommandGroup, print_json, print_lines, print_note, print_table
from steward.cli.words import moment
from steward.errors import StewardError, unknown_name

__all__ = ["app"]

app = typer.Typer(
    cls=CommandGroup, help="Make, list and revoke access tokens.", rich_markup_mode=None
)

ROLES = ("viewer", "operator", "agent")


def _complete_name(ctx: typer.Context, incomplete: str) -> Sequence[str]:
    from steward.store.tokens import Tokens

    try:
        settings = read_settings(ctx.params.get("config"), ctx.params.get("data"))
        names = [token.name for token in Tokens(settings.store.tokens_file).list()]
    except (StewardError, OSError):
        return []  # a shell that completes must not be disturbed
    return [name for name in names if name.startswith(incomplete)]


Name = Annotated[str, typer.Argument(metavar="NAME", help="Whom or what the token is for.")]
KnownName = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The token's name.", autocompletion=_complete_name),
]
RoleName = Annotated[
    str,
    typer.Option(
        "--role",
        metavar="ROLE",
        help="`viewer` may look, `operator` may also approve, reject and undo, `agent` may only "
        "bring telemetry.",
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


@app.command()
def new(
    name: Name,
    *,
    role: RoleName = "viewer",
    node: Node = "",
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
    secret = tokens.make(name, Role(role), node=node)
    if as_json:
        print_json({"name": name, "role": role, "node": node, "token": secret})
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
    rows = [(token.name, token.role.value, token.node, moment(token.made_s)) for token in tokens]
    print_table(("name", "role", "node", "made"), rows, empty="no tokens yet")


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
