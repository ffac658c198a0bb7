"""Faults of catalogue files, all in one message."""

from __future__ import annotations

from collections.abc import Sequence

from steward.errors import StewardError
from steward.store.rules.faults import SHOWN, RuleFault

__all__ = ["REFERENCE", "CatalogFaults"]

REFERENCE = "docs/catalog.md lists every key; `steward estimate catalog check` shows all faults"


class CatalogFaults(StewardError):  # noqa: N818 - holds several faults
    """All faults of the files that were read together."""

    def __init__(self, faults: Sequence[RuleFault]) -> None:
        self.faults = tuple(faults)
        if len(faults) == 1:
            only = faults[0]
            problem = f"{only.rule}: {only.problem}" if only.rule else only.problem
            super().__init__(problem, where=str(only.place), hint=only.hint or REFERENCE)
            return
        lines = "".join(f"\n  {fault}" for fault in faults[:SHOWN])
        more = f"\n  and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
        super().__init__(f"{len(faults)} faults in the catalogue{lines}{more}", hint=REFERENCE)
