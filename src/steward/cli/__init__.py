"""The command line: one file per command group, no logic of its own.

Belongs here: what a command is called, what it takes, and how its answer looks. Does not: finding
the answer. Modules here import the rest of steward when a command runs, so that help is instant.
"""

from __future__ import annotations

import sys
from contextlib import suppress

__all__ = ["main"]


def main() -> None:
    """Run the command line; `steward` is this function."""
    from steward.cli.app import app

    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):  # a stream that cannot be changed prints what it can
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # AttributeError above
    app(prog_name="steward")
