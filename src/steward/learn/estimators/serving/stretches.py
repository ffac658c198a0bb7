"""Stretches of an instance's time, between two looks, and what was done in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.learn.estimators.serving.in_flight import (
    COUNT,
    ENDED_PREFILL_S,
    ENDED_WORK_S,
    HELD,
    IN_ALL_S,
    LEFT_S,
    LOST,
    PREFILL_S,
    PROMPTS,
    WORK_S,
)

__all__ = ["Stretch", "Stretches"]

Floats = NDArray[np.float64]
_LOOKS = 24  # at least, of one stretch: between two, an instance begins a request or several
_STEPS = 4.0  # at least
_STEADY_SHARE = 0.25  # a batch that changes by no more in a stretch is steady


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What happened on an instance in a stretch of time."""

    took_s: float
    steps: float
    prefill_s: float  # by the step times as they were given
    decode_s: float
    work_s: float  # as far as it is explained by learnt step times
    sequences: float  # on average, as are the next
    held_tokens: float
    left_share: float  # of the work of what ran
    prompt_tokens: float  # of one that ran
    is_full: bool  # requests waited all the time, and the batch was steady


@dataclass(slots=True, kw_only=True)
class _Begun:
    t_s: float
    done: Floats
    first: Floats
    last_s: float
    last: Floats
    sums: Floats
    looks: int = 0
    crowded: bool = True


class Stretches:
    """Follows each instance from look to look. Kept only while it has something to do."""

    def __init__(self, instances: int) -> None:
        self.instances = instances
        self._ended = np.zeros((instances, 4))  # done by requests that ended
        self._begun: dict[int, _Begun] = {}

    def look(self, t_s: float, totals: Floats, *, crowded: bool) -> list[tuple[int, Stretch]]:
        """Return the stretches that are over, with their instances, and begin new ones."""
        self._ended += totals[:, ENDED_PREFILL_S : ENDED_WORK_S + 1]
        idle = (totals[:, COUNT] == 0) | (totals[:, LOST] > 0)
        over = []
        for i in np.flatnonzero(idle).tolist():
            self._begun.pop(i, None)
        for i in np.flatnonzero(~idle).tolist():
            row = totals[i]
            done = self._ended[i] + row[PREFILL_S : WORK_S + 1]
            count = row[COUNT]
            now = np.array([count, row[HELD], row[LEFT_S] / row[IN_ALL_S], row[PROMPTS] / count])
            begun = self._begun.get(i)
            if begun is not None:
                _follow(begun, t_s, now, crowded=crowded)
                if begun.looks < _LOOKS or t_s <= begun.t_s:
                    continue
                over += [(i, each) for each in _ended(begun, done)]
            self._begun[i] = _Begun(
                t_s=t_s,
                done=done,
                first=now,
                last_s=t_s,
                last=now,
                sums=np.zeros(4),
                crowded=crowded,
            )
        return over


def _follow(begun: _Begun, t_s: float, now: Floats, *, crowded: bool) -> None:
    begun.sums += 0.5 * (t_s - begun.last_s) * (begun.last + now)
    begun.last_s, begun.last = t_s, now
    begun.looks += 1
    begun.crowded &= crowded


def _ended(begun: _Begun, done: Floats) -> list[Stretch]:
    """Return a stretch, or nothing if it had too few steps."""
    took_s = begun.last_s - begun.t_s
    sequences, held, left_share, prompt = (begun.sums / took_s).tolist()
    prefill_s, decode_s, tokens, work_s = np.maximum(done - begun.done, 0.0).tolist()
    steps = tokens / sequences
    if steps < _STEPS:
        return []
    change = np.abs(begun.last - begun.first)[:2]
    steady = bool(np.all(change <= _STEADY_SHARE * begun.first[:2] + 2))
    return [
        Stretch(
            took_s=took_s,
            steps=steps,
            prefill_s=prefill_s,
            decode_s=decode_s,
            work_s=work_s,
            sequences=sequences,
            held_tokens=held,
            left_share=left_share,
            prompt_tokens=prompt,
            is_full=begun.crowded and steady,
        )
    ]
