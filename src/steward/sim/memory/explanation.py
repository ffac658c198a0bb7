"""Why a page policy moved what it moved after one epoch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from steward.decide.memory.indigo import chance_of_gain
from steward.errors import StewardError
from steward.model.memory.ranking import ARMS
from steward.model.memory.trace import AccessTrace
from steward.model.memory.view import MemoryView, Moves, OnTouch, PagePolicy
from steward.sim.memory.runs import RunOptions, background_of, plugs_of, system_of
from steward.sim.memory.simulate import simulate

__all__ = ["explain_epoch"]


@dataclass(slots=True, kw_only=True)
class _Watched:
    """A policy that keeps what it saw and chose in one epoch, or in the last one with moves."""

    policy: PagePolicy
    at: int | None
    seen: MemoryView | None = None
    moves: Moves | None = None
    on_touch: OnTouch = field(init=False)
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.on_touch, self.name = self.policy.on_touch, self.policy.name

    def migrate(self, view: MemoryView) -> Moves:
        """Ask the policy, and keep the moment if it is the one."""
        moves = self.policy.migrate(view)
        moved = len(moves.promote) + len(moves.demote) + len(moves.trap) > 0
        if view.epoch == self.at or (self.at is None and (moved or self.seen is None)):
            self.seen, self.moves = replace(view, tier=view.tier.copy()), moves
        return moves


def explain_epoch(asked: RunOptions, trace: AccessTrace, at: int | None) -> dict[str, Any]:
    """Return what was seen, believed and moved after an epoch, as JSON values."""
    background = background_of(asked)
    policy, estimator = plugs_of(asked, trace, background)
    watched = _Watched(policy=policy, at=at)
    run = simulate(
        trace,
        system_of(trace, asked),
        watched,
        estimator=estimator,
        background=background,
        epoch_accesses=asked.epoch_accesses,
    )
    view, moves = watched.seen, watched.moves
    if view is None or moves is None:
        problem = f"there is no epoch {at}" if at is not None else "it has no whole epoch"
        hint = f"it has {run.epochs} epochs, from 0; --epoch makes them shorter"
        raise StewardError(problem, where=trace.name, hint=hint)
    return {
        "trace": trace.name,
        "policy": asked.policy,
        "epoch": view.epoch,
        "epochs": run.epochs,
        "t_s": view.t_s,
        "why": moves.why or "it acts at accesses, not after epochs",
        "load_share": view.link.load_share,
        "far_access_s": view.link.far_access_s,
        "far_share": view.link.far_share,
        "ping_pong_share": view.link.ping_pong_share,
        "near_pages": int(view.used[0]),
        "free_near_pages": view.free_near,
        "promoted": len(moves.promote),
        "demoted": len(moves.demote),
        "trapped": len(moves.trap),
        "arms": _arms(view, moves),
    }


def _arms(view: MemoryView, moves: Moves) -> list[dict[str, Any]]:
    beliefs = view.forecasts.arms if view.forecasts else None
    if beliefs is None:
        return []
    chances = chance_of_gain(beliefs)
    return [
        {
            "arm": arm.name,
            "mean": float(beliefs.mean[number]),
            "deviation": float(beliefs.deviation[number]),
            "chance": float(chances[number]) if number else 0.0,
            "seen": float(beliefs.seen[number]),
            "chosen": number == moves.arm,
        }
        for number, arm in enumerate(ARMS)
    ]
