"""Tables that answer a time range exactly: whole steps from the coarsest tier, ends from samples.

For a time that begins within a step of a tier, that tier would return too much or too
little. So the steps that lie in that time as a whole come from the tier, and the ends from the
samples themselves, as steps of one value each.
"""

# ruff: noqa: S608 - names and texts are quoted here, and the database can only read
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, isfinite

from steward.model.frame import T_S
from steward.store.files.tiers import STATISTICS, TIERS, Tier
from steward.store.query.views import quoted

__all__ = ["Piece", "pieces", "steps_sql"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A time range and its tier, or None for samples. `to_s` is exclusive."""

    from_s: float
    to_s: float
    tier: Tier | None = None

    @property
    def table(self) -> str:
        """The name of the SQL table."""
        return "telemetry" if self.tier is None else f"telemetry_{self.tier.name}"

    def conditions(self) -> list[str]:
        """Return the SQL conditions for rows in that time."""
        begins = [f"{T_S} >= {self.from_s!r}"] if self.from_s > 0 else []
        return begins + ([f"{T_S} < {self.to_s!r}"] if isfinite(self.to_s) else [])


def pieces(from_s: float, to_s: float, *, every_s: float | None) -> tuple[Piece, ...]:
    """Split a time into the part that one tier answers and its ends; the tier comes first.

    With `every_s`, a tier has to have the answer's steps.
    """
    for tier in reversed(TIERS):
        step_s = tier.step_s
        first_s = ceil(from_s / step_s) * step_s
        last_s = floor(to_s / step_s) * step_s if isfinite(to_s) else inf
        if first_s < last_s and (every_s is None or every_s % step_s == 0):
            ends = ((from_s, first_s), (last_s, to_s))
            return (
                Piece(from_s=first_s, to_s=last_s, tier=tier),
                *(Piece(from_s=a, to_s=b) for a, b in ends if a < b),
            )
    return (Piece(from_s=from_s, to_s=to_s),)


def steps_sql(piece: Piece, metrics: Sequence[str], conditions: Sequence[str]) -> str:
    """Return the steps of one piece; a sample is a step of its own."""
    columns = [T_S, "entity", "node", "kind"]
    for name in metrics:
        names = {each: quoted(f"{name}.{each}") for each in STATISTICS}
        value = quoted(name)
        if piece.tier is None:
            columns += [f"{value} AS {names[each]}" for each in ("min", "max", "mean")]
            columns.append(f"CASE WHEN {value} IS NOT NULL THEN 1.0 END AS {names['count']}")
        else:
            columns += names.values()
    there = [quoted(name if piece.tier is None else f"{name}.count") for name in metrics]
    known = " OR ".join(f"{name} IS NOT NULL" for name in there)  # whole files need not be read
    where = " AND ".join([*piece.conditions(), *conditions, f"({known})"])
    return f"SELECT {', '.join(columns)} FROM {piece.table} WHERE {where}"
