"""The other sites of a configuration: how `steward up` runs them, and how commands find them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from steward.cli.output import print_note

if TYPE_CHECKING:
    from steward.clients.site_processes import SiteProcesses
    from steward.config import Draft

__all__ = ["end_with_stdin", "site_processes", "site_sockets", "sites_lines"]

STDIN = 0


def site_sockets(draft: Draft) -> dict[str, Path]:
    """Return the socket of each site."""
    return {name: draft.of_site(name).settings.socket_path for name in draft.settings.sites}


def site_processes(
    sockets: Mapping[str, Path], *, config: Path | None, folder: Path
) -> SiteProcesses:
    """Return what runs a steward for each site; what they report goes to stderr."""
    from steward.clients.site_processes import SiteProcesses, command_of

    def command(name: str) -> Sequence[str]:
        return command_of(name, config=config, folder=folder)

    return SiteProcesses(command, sockets, report=print_note)


def sites_lines(sockets: Mapping[str, Path]) -> list[str]:
    """Name the sites for whoever starts them."""
    names = ", ".join(sockets)
    return [f"  sites      {names}: `steward status` shows how they do"] if names else []


def end_with_stdin() -> None:
    """Stop this process, as a signal would, when standard input ends."""

    def wait() -> None:
        while os.read(STDIN, 4096):  # not by `sys.stdin`, whose lock would not let Python end
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="stdin", daemon=True).start()
