"""`steward config`: is the configuration right, and what does it come to?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steward.cli.options import Config, Data, Json, read_draft
from steward.cli.output import clean, print_json, print_lines

__all__ = ["app"]

app = typer.Typer(help="Check and show the configuration.", rich_markup_mode=None)

File = Annotated[
    Path | None,
    typer.Argument(metavar="[FILE]", help="The file to check, instead of the one in use."),
]


@app.command()
def check(file: File = None, *, config: Config = None, as_json: Json = False) -> None:
    """Check the configuration whole: sections, keys, values, plugs and their options.

    Prints all mistakes at once, each with its line. Exits 2 when there are any.
    """
    from steward.config import SettingsError
    from steward.config.plugs import plug_mistakes
    from steward.config.serving_names import serving_mistakes

    draft = read_draft(file or config, None)
    mistakes = (*draft.mistakes, *plug_mistakes(draft), *serving_mistakes(draft))
    source = str(draft.file) if draft.file else None
    if as_json:
        variables = sorted(draft.variables.values())
        found = {"ok": not mistakes, "file": source, "variables": variables, "mistakes": mistakes}
        print_json(found)
        raise typer.Exit(2 if mistakes else 0)
    if mistakes:
        raise SettingsError(mistakes, where=draft.where)
    typer.echo(f"ok: {clean(source or 'no file, the defaults apply')}")
    for variable in sorted(draft.variables.values()):
        typer.echo(f"    and environment variable {variable}")


@app.command()
def show(*, config: Config = None, data: Data = None, as_json: Json = False) -> None:
    """Print the settings in force as TOML, each with where it comes from. Secrets are covered."""
    from steward.config.locate import KeyPath
    from steward.config.mistakes import dotted
    from steward.config.write import as_toml, leaves_of, values_of

    draft = read_draft(config, data)
    draft.settled()
    given: dict[KeyPath, str] = {("store", "folder"): "--data"} if data else {}
    if not as_json:
        print_lines(as_toml(draft, given).splitlines())
        return
    paths = leaves_of(values_of(draft.settings))
    origins = {dotted(path): given.get(path) or draft.origin(path) for path in paths}
    source = str(draft.file) if draft.file else None
    print_json({"file": source, "values": values_of(draft.settings), "origins": origins})
