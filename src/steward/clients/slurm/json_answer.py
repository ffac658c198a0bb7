"""An answer of Slurm's in JSON: one list, and errors beside it.

`squeue --json` and slurmrestd write the same, by the same code of Slurm's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from steward.clients.slurm.json_stream import read_entries
from steward.clients.slurm.program import SlurmError
from steward.errors import StewardError

__all__ = ["problem_in", "read_list"]

T = TypeVar("T")


def read_list(
    chunks: Iterable[str],
    key: str,
    make: Callable[[dict[str, Any]], T | None],
    *,
    where: str,
    hint: str,
) -> tuple[list[T], int]:
    """Return what `make` makes of each entry of the list `key`, and how many were none.

    Raises if the answer has errors: without its controller, Slurm gives an empty list and them.
    """
    try:
        made, refused, rest = read_entries(chunks, key, make=lambda raw: _tried(make, raw))
    except SlurmError:
        raise
    except StewardError as fault:
        raise SlurmError(fault.problem, where=where, hint=hint) from fault
    if problem := problem_in(rest):
        raise SlurmError(problem, where=where, hint=hint)
    return made, refused


def problem_in(answer: dict[str, Any]) -> str:
    """Return Slurm's first error in its most specific form; nothing where there is none."""
    errors = answer.get("errors") or []
    first = errors[0] if isinstance(errors, list) and errors else errors
    if not first:
        return ""
    if not isinstance(first, dict):
        return str(first)
    parts = [str(first[k]) for k in ("description", "error", "source") if first.get(k)]
    return ": ".join(parts) or "it failed without a reason"


def _tried(make: Callable[[dict[str, Any]], T | None], raw: object) -> T | None:
    """Make what can be made of an entry: one that is nonsense must not hide the others."""
    try:
        return make(raw) if isinstance(raw, dict) else None
    except (StewardError, TypeError, ValueError, AttributeError, OverflowError):
        return None
