"""A CSV table, read whole: all faults in one message."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import isfinite

from steward.errors import StewardError, did_you_mean
from steward.model.planning.catalog import Accelerator, CatalogSite

__all__ = ["Imported", "Row", "Table"]

_SHOWN = 20  # faults in one error


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What a file of others became, and what of it was left out or is not known."""

    sites: tuple[CatalogSite, ...] = ()
    accelerators: tuple[Accelerator, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Table:
    """The rows of a file; values that are wrong are collected until `finish`."""

    where: str
    header: tuple[str, ...]
    rows: list[Row] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, text: str, *, needed: Sequence[str], where: str) -> Table:
        """Read a table that has at least the columns that are needed."""
        try:
            lines = list(csv.reader(io.StringIO(text.removeprefix("\ufeff")), strict=True))
        except csv.Error as error:
            raise StewardError(
                f"this is no CSV: {error}", where=where, hint=_hint(needed)
            ) from None
        header = [name.strip() for name in lines[0]] if lines else []
        if missing := [name for name in needed if name not in header]:
            near = next((hint for name in missing if (hint := did_you_mean(name, header))), "")
            problem = f"columns are missing: {', '.join(missing)}"
            raise StewardError(problem, where=where, hint=near or _hint(needed))
        table = cls(where=where, header=tuple(header))
        for number, line in enumerate(lines[1:], start=2):
            if len(line) == len(header):
                values = dict(zip(header, line, strict=True))
                table.rows.append(Row(table=table, number=number, values=values))
            elif any(line):
                problem = f"{len(line)} values for {len(header)} columns"
                table.faults.append(f"row {number}: {problem}")
        return table

    def finish(self) -> None:
        """Raise all faults; call it when every value was read."""
        if not self.faults:
            return
        more = len(self.faults) - _SHOWN
        lines = [*self.faults[:_SHOWN], *([f"and {more} more"] if more > 0 else [])]
        problem = (
            lines[0] if len(lines) == 1 else f"{len(self.faults)} faults\n  " + "\n  ".join(lines)
        )
        raise StewardError(problem, where=self.where, hint="correct the rows, or take them out")

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)


@dataclass(slots=True, kw_only=True)
class Row:
    """One row. What is blank is unknown."""

    table: Table
    number: int
    values: dict[str, str]

    def text(self, column: str) -> str:
        """Return a text; '' where there is none."""
        return self.values.get(column, "").strip()

    def amount(self, column: str) -> float | None:
        """Return a number of 0 or more; None where it is blank."""
        text = self.text(column)
        if not text:
            return None
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not (isfinite(number) and number >= 0):
            self.fault(f"{column} is '{text[:40]}', not a number of 0 or more")
            return None
        return number

    def whole(self, column: str) -> int | None:
        """Return a whole number; None where it is blank."""
        number = self.amount(column)
        if number is not None and number % 1:
            self.fault(f"{column} is {number:g}, not a whole number")
            return None
        return None if number is None else int(number)

    def fault(self, problem: str) -> None:
        """Add a fault of this row."""
        self.table.faults.append(f"row {self.number}: {problem}")


def _hint(needed: Sequence[str]) -> str:
    return f"a CSV with the columns {', '.join(needed)}"
