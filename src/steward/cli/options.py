"""What every command takes, and the doors it opens with that: settings and the store."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steward.cli.output import print_warnings
from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.config import Draft, Settings
    from steward.store.journal import Journal
    from steward.store.telemetry import Telemetry

__all__ = [
    "Config",
    "Data",
    "DecisionArgument",
    "Json",
    "Limit",
    "Store",
    "add_site",
    "choose_site",
    "chosen_site",
    "login_name",
    "now_s",
    "open_store",
    "read_draft",
    "read_main_draft",
    "read_settings",
    "with_folder",
]

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="The store folder, instead of store.folder.",
        readable=False,  # members of `access.group` may only pass it, to its socket
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The configuration file. Without it: $STEWARD_CONFIG, ./steward.toml, "
        "~/.config/steward/steward.toml.",
    ),
]
Limit = Annotated[int, typer.Option("--limit", min=1, max=100_000, help="Show at most so many.")]


_site: ContextVar[str] = ContextVar("site", default="")


def _choose_site(name: str | None) -> None:
    _site.set(name or "")


# Every command that reads settings gets it by `add_site`: none can forget to hand it on.
Site = Annotated[
    str | None,
    typer.Option(
        "--site",
        metavar="NAME",
        help="One of the sites of the configuration, instead of the main one.",
        envvar="STEWARD_SITE",
        callback=_choose_site,
        expose_value=False,
    ),
]


def choose_site(name: str) -> None:
    """Set the site that this command is about, unless a person named one."""
    if name and not _site.get():
        _site.set(name)


def chosen_site() -> str:
    """Return the site that this command is about; "" is the main one."""
    return _site.get()


def add_site(command: Any) -> None:  # noqa: ANN401 - typer's own commands
    """Add `--site` to a command that reads settings."""
    names = {each.name for each in command.params}
    if "config" in names and "site" not in names:
        command.params.append(_site_option())


@cache
def _site_option() -> Any:  # noqa: ANN401 - typer's own option
    sample = typer.Typer()
    sample.command()(_takes_site)
    return next(each for each in typer.main.get_command(sample).params if each.name == "site")


def _takes_site(*, site: Site = None) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """What steward remembers, open for one command."""

    settings: Settings
    journal: Journal

    def telemetry(self) -> Telemetry:
        """Open the samples, which few commands need."""
        from steward.store.telemetry import Telemetry

        return Telemetry(self.settings.store.telemetry_folder, keep_days=None)


def read_draft(config: Path | None, data: Path | None) -> Draft:
    """Read the settings and what is wrong with them; `data` wins over the store folder.

    With `--site`, they are those of that site; its folder is below the main one's.
    """
    draft = read_main_draft(config, data)
    site = chosen_site()
    return draft.of_site(site) if site else draft


def read_main_draft(config: Path | None, data: Path | None) -> Draft:
    """Read the settings of the main site, whatever `--site` says."""
    from steward.config import draft_settings, find_file

    return with_folder(draft_settings(find_file(config, os.environ), os.environ), data)


def with_folder(draft: Draft, data: Path | None) -> Draft:
    """Return the draft with another store folder, if one is given."""
    if data is None:
        return draft
    store = draft.settings.store.model_copy(update={"folder": str(data)})
    return replace(draft, settings=draft.settings.model_copy(update={"store": store}))


def read_settings(config: Path | None, data: Path | None) -> Settings:
    """Read the settings, or raise all mistakes in them."""
    return read_draft(config, data).settled()


@contextmanager
def open_store(config: Path | None, data: Path | None) -> Iterator[Store]:
    """Open the store that is there; a command that only asks makes none."""
    from steward.store.journal import open_journal

    settings = read_settings(config, data)
    store = settings.store
    if not _is_there(store.journal_url):
        raise StewardError(
            "there is no journal here yet",
            where=str(store.path),
            hint=_where_else(store.path),
        )
    journal = open_journal(store.journal_url, read_only_ok=True)
    try:
        yield Store(settings=settings, journal=journal)
        print_warnings(journal.damage())
    finally:
        journal.close()


def login_name() -> str:
    """Return the account that runs us, by the kernel and not by the environment."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


def now_s(journal: Journal) -> float:
    """Return the present of a journal: that of a demo runs ahead of the machine's clock."""
    newest = journal.read(newest_first=True, limit=1)
    return max([time.time(), *(entry.t_s for entry in newest)])


def _where_else(folder: Path) -> str:
    """Return a hint where a journal might be: after a demo, in its folder."""
    demos = sorted(folder.glob("demo/*/journal.sqlite3"))
    if demos:
        return f"the newest demo is there: add --data {demos[-1].parent}"
    return "`steward up` makes one; --data names another folder"


def _is_there(journal_url: str) -> bool:
    scheme, _, path = journal_url.partition(":///")
    return scheme != "sqlite" or Path(path).exists()


def _complete_decision(ctx: typer.Context, incomplete: str) -> Sequence[tuple[str, str]]:
    try:
        with open_store(ctx.params.get("config"), ctx.params.get("data")) as store:
            stories = [story for _, story in store.journal.stories(limit=100)]
    except (StewardError, OSError):
        return []  # a shell that completes must not be disturbed
    return [
        (story.decision.id, f"{story.state.value}: {story.decision.because}")
        for story in stories
        if story.decision.id.startswith(incomplete)
    ]


DecisionArgument = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="The decision; `steward decisions list` shows their ids.",
        autocompletion=_complete_decision,
    ),
]
