"""Turns the moves of a page policy into decisions about blocks of a process."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from steward.decide.memory.indigo import Indigo
from steward.model.actions import Demote, Promote
from steward.model.decision import Decision, Expectation
from steward.model.identity import DecisionId, TenantId, stable_id
from steward.model.memory.moment import MemoryMoment
from steward.model.memory.view import MemoryForecasts, Moves, PagePolicy

__all__ = ["MigrateBlocks"]

_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateBlocks:
    """Asks a page policy what to move; one decision for all promotions, one for all demotions.

    `keep_near_bytes` is what a process may have in memory: what is above it is room that the policy
    is asked to make, coldest blocks first. Promotions wait for the demotions that make room.
    """

    policy: PagePolicy = field(default_factory=Indigo)
    tenant: str = ""
    check_after_s: float = 10.0
    idle_epochs: int = 20  # blocks that were used since then are not demoted
    most_blocks: int = 64  # of one decision

    @property
    def name(self) -> str:
        """Return the name of the page policy: decisions are its own."""
        return self.policy.name

    def decide(self, moment: MemoryMoment) -> tuple[Decision, ...]:
        """Return demotions first; nothing where the process cannot be read."""
        expects = moment.expects()
        if moment.unknown or expects is None:
            return ()
        moves = self.policy.migrate(moment.view.with_forecasts(expects))
        demote = self._demotable(moment, moves)
        promote = self._free_to_move(moment, moves.promote)[: self.most_blocks]
        found: list[Decision] = []
        if len(demote):
            found.append(self._decision(moment, demote, moves, expects, up=False))
        if len(promote):
            after = tuple(each.id for each in found)
            made = self._decision(moment, promote, moves, expects, up=True)
            found.append(replace(made, after=after))
        return tuple(found)

    def _demotable(self, moment: MemoryMoment, moves: Moves) -> NDArray[np.int64]:
        """Return what the policy demotes, and the coldest of what is above the limit."""
        view = moment.view
        excess = int(view.used[0]) - view.system.tiers[0].pages
        near = np.flatnonzero((view.tier == 0) & (view.idle >= self.idle_epochs))
        coldest = near[np.argsort(-view.idle[near], kind="stable")][: max(0, excess)]
        wanted = np.concatenate((moves.demote, np.setdiff1d(coldest, moves.demote)))
        return self._free_to_move(moment, wanted)[: self.most_blocks]

    def _free_to_move(self, moment: MemoryMoment, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        there = {*moment.snapshot.start.tolist()}
        free = [
            row
            for row in rows.tolist()
            if int(moment.rows[row]) in there
            and row not in moment.view.pinned
            and not moment.is_reserved(row)
        ]
        return np.array(free, np.int64)

    def _decision(
        self,
        moment: MemoryMoment,
        rows: NDArray[np.int64],
        moves: Moves,
        expects: MemoryForecasts,
        *,
        up: bool,
    ) -> Decision:
        snapshot = moment.snapshot
        ends = dict(zip(snapshot.start.tolist(), snapshot.end.tolist(), strict=True))
        starts = sorted(int(moment.rows[row]) for row in rows)
        kind = Promote if up else Demote
        near, far = moment.view.system.tiers[0].name, moment.view.system.tiers[-1].name
        action = kind(
            process=snapshot.process,
            pid=snapshot.pid,
            blocks=tuple((start, ends[start]) for start in starts),
            near=near,
            far=far,
        )
        accesses = float(expects.accesses[rows].sum())
        mid = accesses * expects.saved_s if up else 0.0
        coldest = int(moment.view.idle[rows].max())
        seen = f"{accesses:.0f} accesses are expected" if up else f"unused for {coldest} looks"
        return Decision(
            id=DecisionId(stable_id("d", self.name, action.type, snapshot.process, moment.t_s)),
            t_s=moment.t_s,
            policy=self.name,
            action=action,
            because=f"{seen}; {moves.why}",
            expects=Expectation(low=0.0, mid=mid, high=2.0 * mid),
            check_after_s=self.check_after_s,
            tenant=TenantId(self.tenant),
            subject=snapshot.process,
        )
