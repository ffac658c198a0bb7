"""One moment of a process's memory: what the memory loop's policies, guard and verifier see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from steward.model.finding import Finding
from steward.model.forecast import ForecastColumn
from steward.model.identity import DecisionId, JobId
from steward.model.memory.snapshot import MemorySnapshot
from steward.model.memory.view import ArmBeliefs, MemoryForecasts, MemoryView, Moves
from steward.model.serving.moment import NOTHING_LASTS

__all__ = [
    "ARM_DRAWS",
    "ARM_REWARDS",
    "BLOCK_ACCESSES",
    "NEW_BLOCKS",
    "MemoryMoment",
    "block_claim",
]

# Quantities that `learn/estimators/pages` predicts for the loop.
BLOCK_ACCESSES = "memory.block_accesses"  # of each block, while it is near
ARM_REWARDS = "memory.arm_rewards"  # of each arm: the share of the stall that it saves
ARM_DRAWS = "memory.arm_draws"  # one draw of each
NEW_BLOCKS = "memory.new_blocks"  # saved seconds per access, new blocks, accesses of each


def block_claim(process: str, start: int) -> str:
    """Return the name under which a block can be claimed by one open decision."""
    return f"memory:{process}:{start:x}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemoryMoment:
    """A snapshot, and the same in columns for page policies: rows are blocks that stay the same.

    `rows` has the first address of each row. `moved` is what was carried out since the last moment,
    and `before` the view that it was decided on. Where nothing could be read, `unknown` says why.
    """

    t_s: float
    snapshot: MemorySnapshot
    view: MemoryView
    rows: np.ndarray[tuple[int], np.dtype[np.int64]]
    row_of: Mapping[int, int]
    before: MemoryView | None = None
    moved: Moves | None = None
    reserved: frozenset[str] = frozenset()
    unknown: str = ""
    findings: tuple[Finding, ...] = ()
    forecasts: tuple[ForecastColumn, ...] = ()

    @property
    def lasting(self) -> Mapping[DecisionId, JobId]:
        """Return nothing: where pages are is seen, not noted."""
        return NOTHING_LASTS

    def with_forecasts(self, columns: Iterable[ForecastColumn]) -> MemoryMoment:
        """Return this moment with more forecasts."""
        return replace(self, forecasts=(*self.forecasts, *columns))

    def with_findings(self, findings: tuple[Finding, ...]) -> MemoryMoment:
        """Return this moment with its findings."""
        return replace(self, findings=findings)

    def unmet(self, action: object) -> str:
        """Return why an action cannot be done in this moment, or an empty text."""
        from steward.model.actions.on_blocks import OnBlocks  # noqa: PLC0415 - a cycle

        if not isinstance(action, OnBlocks):
            return "it is not about memory, and this is a moment of a process's memory"
        return action.unmet(self)

    def may_be_done(self, action: object) -> bool:
        """Return whether this moment looks as if an action had been carried out already."""
        from steward.model.actions.on_blocks import OnBlocks  # noqa: PLC0415 - a cycle

        return isinstance(action, OnBlocks) and action.may_be_done(self)

    def is_lost(self, _: object) -> bool:
        """Return whether the process that an action is about has ended."""
        return self.unknown != ""

    def claims_of(self, affected: JobId) -> frozenset[str]:
        """Return what is reserved while a process is left alone: each of its blocks."""
        if affected != self.snapshot.process:
            return frozenset()
        return frozenset(block_claim(affected, int(start)) for start in self.rows)

    def is_reserved(self, row: int) -> bool:
        """Return whether nothing new should be decided about a block."""
        return block_claim(self.snapshot.process, int(self.rows[row])) in self.reserved

    def expects(self) -> MemoryForecasts | None:
        """Return the forecasts as page policies read them; None where there are none."""
        columns = {each.quantity: each for each in self.forecasts}
        accesses, new = columns.get(BLOCK_ACCESSES), columns.get(NEW_BLOCKS)
        if accesses is None or new is None or len(accesses.mid) != len(self.rows):
            return None
        rewards, draws = columns.get(ARM_REWARDS), columns.get(ARM_DRAWS)
        arms = None
        if rewards is not None and draws is not None:
            deviation = rewards.high - rewards.mid
            arms = ArmBeliefs(
                mean=rewards.mid, deviation=deviation, drawn=draws.mid, seen=np.zeros(0)
            )
        saved_s, pages, each_accesses = new.mid.tolist()
        return MemoryForecasts(
            accesses=accesses.mid,
            saved_s=saved_s,
            new_pages=pages,
            new_accesses=each_accesses,
            arms=arms,
        )
