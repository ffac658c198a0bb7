"""Gandiva (OSDI'18): nobody waits while GPUs can be shared; sharing is tried and then judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from steward.decide.scheduling.colocation.interface import (
    ColocationChoice,
    ColocationView,
    FreeSpace,
    JobKind,
    Move,
    Pair,
    Profiling,
    Share,
    StartAlone,
    TakeTurns,
)

__all__ = ["GandivaSlicing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GandivaSlicing:
    """First come, first served; whoever finds no free GPUs shares those of a job of its size.

    Both run at once if memory allows. After one slice their measured speeds are added up: at 1 or
    less they take turns from then on, each at half speed. When GPUs become free and nobody waits,
    one of a pair moves there. Jobs are moved together when a wider one finds no room. It needs to
    know nothing about jobs. Jobs keep their size: traces say nothing about growing and shrinking.
    """

    trial_s: float = 60.0  # one slice
    move_s: float = 1.0
    keep_from: float = 1.0  # pairs that do not get more done than this take turns
    keeps_sizes_together: ClassVar[bool] = True
    name: str = "gandiva-slicing"

    def profiling(self, total_gpus: int, gpus_per_node: int) -> Profiling | None:
        del total_gpus, gpus_per_node
        return None

    def rank(self, predicted_s: float, gpus: float) -> float:
        del predicted_s, gpus
        return 0.0

    def score(self, shared_speed: float) -> int:
        del shared_speed
        return 0

    def decide(self, moment: ColocationView) -> tuple[ColocationChoice, ...]:
        slow = [pair for pair in moment.tried if self._disappoints(pair)]
        if slow:
            return tuple(TakeTurns(job=pair.one) for pair in slow)
        for (_, _, job), kind in sorted((line[0], kind) for kind, line in moment.waiting.items()):
            found = self._serve(moment, job, kind)
            if found:
                return found
        return () if moment.waiting or moment.free_gpus == 0 else self._part(moment)

    def _disappoints(self, pair: Pair) -> bool:
        return not pair.takes_turns and pair.speed_one + pair.speed_other <= self.keep_from

    def _serve(
        self, moment: ColocationView, job: int, kind: JobKind
    ) -> tuple[ColocationChoice, ...]:
        if moment.fits(job):
            return (StartAlone(job=job),)
        if kind.gpus < 1:
            return ()
        if kind.gpus <= moment.free_gpus:
            moves = _room_for(int(kind.gpus), moment.floor(job))
            if moves:
                return moves
        return self._join(moment, job, kind)

    def _join(
        self, moment: ColocationView, job: int, kind: JobKind
    ) -> tuple[ColocationChoice, ...]:
        """Share with whoever came first; at once if possible, by turns if not."""
        by_turns = -1
        for _, _, other in moment.alone.get((kind.gpus, kind.score), ()):
            if moment.may_join(job, other):
                if moment.can_share(job, other):
                    return (Share(job=job, partner=other),)
                by_turns = other if by_turns < 0 else by_turns
        return (Share(job=job, partner=by_turns, takes_turns=True),) if by_turns >= 0 else ()

    def _part(self, moment: ColocationView) -> tuple[ColocationChoice, ...]:
        """Give free GPUs to one of the pair that gets least done together."""
        pairs = sorted(moment.pairs(), key=lambda pair: pair.speed_one + pair.speed_other)
        for pair in pairs:
            if moment.fits(pair.other):
                return (Move(job=pair.other),)
        return ()


def _room_for(gpus: int, floor: FreeSpace) -> tuple[Move, ...]:
    """Return moves that leave so many GPUs free on one node: the one that lacks least."""
    nodes = [node for node, free in enumerate(floor.free) if 0 < free < gpus]
    for node in sorted(nodes, key=lambda node: -floor.free[node]):
        moves = _emptied(node, gpus, floor)
        if moves:
            return moves
    return ()


def _emptied(node: int, gpus: int, floor: FreeSpace) -> tuple[Move, ...]:
    """Return moves of the smallest jobs of a node to the fullest nodes that hold them."""
    missing = gpus - floor.free[node]
    free = {
        other: room
        for other, room in enumerate(floor.free)
        if other != node and room > 0 and floor.group[other] == floor.group[node]
    }
    moves: list[Move] = []
    for size, job in sorted(floor.movable.get(node, ())):
        if missing <= 0:
            break
        rooms = [(room, other) for other, room in free.items() if room >= size]
        if not rooms:
            break
        _, to = min(rooms)
        free[to] -= size
        missing -= size
        moves.append(Move(job=job, node=to))
    return tuple(moves) if missing <= 0 else ()
