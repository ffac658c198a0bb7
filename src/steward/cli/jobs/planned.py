"""`steward jobs submit --plan`: the engine, site and options that a plan chose."""

from __future__ import annotations

import time
from pathlib import Path

from steward.cli.options import choose_site
from steward.cli.output import print_note
from steward.cli.words import span
from steward.errors import StewardError

__all__ = ["by_plan"]

OLD_S = 6 * 3600.0  # after this, queues and the deadline are others than the plan thought


def by_plan(file: Path, choice: int, engine: str | None) -> tuple[str, dict[str, str]]:
    """Return engine and options of a choice, and make its site the one of this command."""
    from steward.planning.submission import read_submission

    found = read_submission(file, choice)
    if engine is not None and engine != found.engine:
        raise StewardError(
            f"choice {choice}, {found.place}, is for the engine {found.engine}",
            where=f"--engine {engine}",
            hint="leave --engine out, or choose another by --choice",
        )
    choose_site(found.site)
    old_s = time.time() - found.planned_s
    if old_s > OLD_S:
        print_note(f"the plan is {span(old_s)} old: plan anew if queues or prices have changed")
    print_note(f"choice {choice} of the plan: {found.place}")
    return found.engine, dict(found.options)
