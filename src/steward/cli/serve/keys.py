"""`steward serve key`: API keys of the gateway."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steward.cli.options import Config, Data, Json, read_settings
from steward.cli.output import print_json, print_lines, print_note, print_table
from steward.cli.words import moment
from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.store.api_keys import ApiKeys

__all__ = ["app"]

app = typer.Typer(help="Make, list and revoke API keys of the gateway.", rich_markup_mode=None)

DAY_S = 86400.0

Name = Annotated[str, typer.Argument(metavar="NAME", help="Whose key it is.")]
File = Annotated[
    Path | None,
    typer.Option("--keys", metavar="FILE", help="The file of keys, instead of gateway.keys_file."),
]
Tenant = Annotated[
    str, typer.Option("--tenant", metavar="NAME", help="Who shares fairly with others [NAME].")
]
ClassName = Annotated[
    str, typer.Option("--class", metavar="NAME", help="The class of requests that name none.")
]
Admin = Annotated[bool, typer.Option("--admin", help="May add, drain and remove upstreams.")]
Requests = Annotated[
    int | None, typer.Option("--requests-per-minute", min=1, help="More are answered 429.")
]
Tokens = Annotated[
    int | None, typer.Option("--tokens-per-minute", min=1, help="Of prompts and answers.")
]
DayTokens = Annotated[
    int | None, typer.Option("--tokens-per-day", min=1, help="Of prompts and answers.")
]
ValidFor = Annotated[
    float | None,
    typer.Option("--days", metavar="N", min=0.001, help="Expire after so many days [never]."),
]


@app.command()
def new(  # noqa: PLR0913 - a command's options are its parameters
    name: Name,
    *,
    keys: File = None,
    tenant: Tenant = "",
    class_: ClassName = "",
    admin: Admin = False,
    requests_per_minute: Requests = None,
    tokens_per_minute: Tokens = None,
    tokens_per_day: DayTokens = None,
    days: ValidFor = None,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Make a key and print it, this once. Only its hash is kept."""
    from steward.store.api_keys import ApiKey

    made = ApiKey(
        name=name,
        made_s=time.time(),
        tenant=tenant,
        deadline_class=class_,
        admin=admin,
        requests_per_minute=requests_per_minute,
        tokens_per_minute=tokens_per_minute,
        tokens_per_day=tokens_per_day,
        expires_s=None if days is None else time.time() + days * DAY_S,
    )
    secret = _keys(keys, config, data).make(made)
    if as_json:
        print_json({**_shown(asdict(replace(made))), "key": secret})
        return
    typer.echo(secret)
    print_note("keep it: it is not shown again")


@app.command(name="list")
def list_(
    *, keys: File = None, config: Config = None, data: Data = None, as_json: Json = False
) -> None:
    """List keys by name; the keys themselves are not kept."""
    found = _keys(keys, config, data).list()
    if as_json:
        print_json([_shown(asdict(each)) for each in found])
        return
    rows = [
        (
            each.name,
            each.tenant or each.name,
            each.deadline_class or "-",
            "yes" if each.admin else "",
            str(each.requests_per_minute or "-"),
            str(each.tokens_per_minute or "-"),
            str(each.tokens_per_day or "-"),
            moment(each.made_s),
            "never" if each.expires_s is None else moment(each.expires_s),
        )
        for each in found
    ]
    head = ("name", "tenant", "class", "admin", "requests/min", "tokens/min", "tokens/day")
    print_table((*head, "made", "expires"), rows, empty="no keys yet")


@app.command()
def revoke(
    name: Name,
    *,
    keys: File = None,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Make a key worthless; a running gateway sees it within seconds."""
    _keys(keys, config, data).revoke(name)
    if as_json:
        print_json({"revoked": name})
    else:
        print_lines([f"revoked {name}"])


def _keys(file: Path | None, config: Path | None, data: Path | None) -> ApiKeys:
    from steward.store.api_keys import ApiKeys

    if file is not None:
        return ApiKeys(file)
    configured = read_settings(config, data).gateway.keys_file
    if not configured:
        raise StewardError(
            "no file of keys is configured",
            where="gateway.keys_file",
            hint="give one with --keys FILE, and to the gateway as well",
        )
    return ApiKeys(Path(configured).expanduser())


def _shown(record: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in record.items() if key != "sha256"}
