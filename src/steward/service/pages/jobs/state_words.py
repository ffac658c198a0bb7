"""States of jobs in words and colours, and how long a job was in them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from steward.model.managed_job import LifeState
from steward.service.pages.markup import Markup, tag

__all__ = ["ENDED", "GROUPS", "QUEUED", "RUNNING", "spent_s", "state_chip", "state_word"]

_WORDS = {
    "submitted": ("waits for other jobs", ""),
    "held": ("held", ""),
    "waiting": ("waits", "waiting"),
    "starting": ("starts", "active"),
    "running": ("runs", "active"),
    "resumed": ("runs again", "active"),
    "migrated": ("runs elsewhere", "active"),
    "resized": ("runs, resized", "active"),
    "saving": ("saves", "active"),
    "suspended": ("suspended, its GPU is lent", "waiting"),
    "lent": ("saved, its GPUs are lent", "waiting"),
    "preempted": ("stopped, waits to go on", "waiting"),
    "lost": ("lost", "failed"),
    "finished": ("finished", "done"),
    "failed": ("failed", "failed"),
    "cancelled": ("cancelled", ""),
    "mixed": ("in several states", ""),
}
RUNNING = tuple(each for each in LifeState if each.holds_gpus)
ENDED = tuple(each for each in LifeState if each.ended)
QUEUED = tuple(each for each in LifeState if each not in (*RUNNING, *ENDED))
GROUPS: dict[str, tuple[LifeState, ...]] = {
    "open": (*QUEUED, *RUNNING),
    "waiting": QUEUED,
    "running": RUNNING,
    "ended": ENDED,
    "all": (),
}
_RUNNING = {each.value for each in LifeState if each.runs or each is LifeState.STARTING}
_ENDED = {each.value for each in ENDED}


def state_word(state: str) -> str:
    """Return what a state is called; one that is not known here is called as it is."""
    return _WORDS.get(state, (state, ""))[0]


def state_chip(state: str) -> Markup:
    """Show the state of a job; never by colour alone."""
    kind = _WORDS.get(state, ("", ""))[1]
    classes = f"st-chip st-chip-{kind}" if kind else "st-chip"
    return tag("span", state_word(state), class_=classes)


def spent_s(spans: Sequence[tuple[str, float]], now_s: float) -> tuple[float, float]:
    """Return for how long a job has waited, and run, by the states that it entered and when.

    While its GPUs are lent, it waits.

    >>> spent_s([("waiting", 0.0), ("running", 5.0), ("suspended", 8.0)], 10.0)
    (7.0, 3.0)
    """
    waited = ran = 0.0
    for (state, since_s), (_, until_s) in pairwise([*spans, ("", now_s)]):
        took_s = max(until_s - since_s, 0.0)
        if state in _RUNNING:
            ran += took_s
        elif state not in _ENDED:
            waited += took_s
    return waited, ran
