"""What several commands about rules take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from steward.model.rules import Mode

__all__ = ["Compat", "Strict", "mode_of"]

Compat = Annotated[
    bool, typer.Option("--compat", help="Match as preq does, with what it leaves out.")
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Match as the language says (this is the default).")
]


def mode_of(*, compat: bool, strict: bool) -> Mode:
    """Return the mode that was asked for."""
    from steward.errors import StewardError
    from steward.model.rules import Mode

    if compat and strict:
        raise StewardError("--compat and --strict exclude each other", hint="give one of them")
    return Mode.COMPAT if compat else Mode.STRICT
