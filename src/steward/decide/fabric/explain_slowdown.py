"""Why a job is slow on the network: which links, shared with whom, and where it would be better.

Each of a job's links is tried as if no other had a limit, and the slowdown is dealt out by what
each does so: links that hold it back alike, such as both ends of a spine, get equal parts.
Neighbours are ordered by what the job would gain if one were not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steward.decide.fabric.least_contention import Ranked
from steward.model.fabric.contention import Contention, reduced
from steward.model.fabric.link_sharing import share_links, share_links_without
from steward.model.fabric.node_map import NodeMap

__all__ = ["LinkPart", "explain_slowdown", "sentence_of"]

_LINKS = 2  # that a sentence names
_NEIGHBOURS = 3
_SMALL = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPart:
    """What one link does to a job. `neighbours` are those that cost it most there, first."""

    link: int
    part: float  # of the slowdown
    neighbours: tuple[str, ...]


def explain_slowdown(scene: Contention, job: int, names: Sequence[str]) -> tuple[LinkPart, ...]:
    """Return the links that slow a job down, the worst first; `names` are those of the jobs."""
    small, kept = reduced(scene, 1.0)
    full = float(share_links(small).slowdown[job])
    hurt = _hurt_by(small, job, full)
    own = sorted(_links(small, job))
    alone = np.array([_slowed_by(small, job, link) - 1.0 for link in own])
    found = []
    for link, excess in zip(own, alone.tolist(), strict=True):
        part = excess / max(float(alone.sum()), _SMALL) * (full - 1.0)
        if part < _SMALL:
            continue
        beside = [other for other in hurt if link in _links(small, other)]
        found.append(
            LinkPart(
                link=int(kept[link]),
                part=part,
                neighbours=tuple(names[other] for other in beside[:_NEIGHBOURS]),
            )
        )
    return tuple(sorted(found, key=lambda each: (-each.part, each.link)))


def _slowed_by(scene: Contention, job: int, link: int) -> float:
    """Return the job's slowdown if no other link had a limit."""
    capacity = np.full(len(scene.capacity), np.inf)
    capacity[link] = scene.capacity[link]
    return float(share_links(scene._replace(capacity=capacity)).slowdown[job])


def _links(scene: Contention, job: int) -> frozenset[int]:
    return frozenset(scene.link[scene.job_first[job] : scene.job_first[job + 1]].tolist())


def _hurt_by(scene: Contention, job: int, full: float) -> list[int]:
    """Return the other jobs that cost it something, the worst first."""
    own = _links(scene, job)
    costs = []
    for other in range(len(scene.compute_s)):
        if other != job and own & _links(scene, other):
            without = float(share_links_without(scene, other).slowdown[job])
            costs.append((without - full, other))
    return [other for cost, other in sorted(costs) if cost <= 0.0]


def sentence_of(ranked: Sequence[Ranked], parts: Sequence[LinkPart], place: NodeMap) -> str:
    """Return the first of the ranked candidates in words, with the best other one beside it."""
    chosen = ranked[0]
    text = f"{_times(chosen)} on {_nodes(chosen, place)}"
    for each in parts[:_LINKS]:
        text += f", of which {each.part:.2f} at {place.link_name(each.link)}"
        if each.neighbours:
            text += f", shared with {_listed(each.neighbours)}"
    if len(ranked) > 1:
        text += f"; {_nodes(ranked[1], place)}: {_times(ranked[1])}"
    return text


def _times(ranked: Ranked) -> str:
    low, high = ranked.interval
    return f"{ranked.mean_slowdown:.2f}× ({low:.2f}–{high:.2f})"  # noqa: RUF001 - as people write it


def _nodes(ranked: Ranked, place: NodeMap) -> str:
    names = [place.names[node] for node in ranked.candidate.nodes]
    if len(names) <= 2:
        return _listed(names)
    return f"{len(names)} nodes {names[0]}…{names[-1]} ({ranked.candidate.kind})"


def _listed(names: Sequence[str]) -> str:
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
