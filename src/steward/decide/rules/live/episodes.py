"""Episodes: matches of one rule and entity without a pause in between are one finding.

A condition on series is reported once, when it has held for long enough; its finding holds for as
long as the condition does, and is the same one if the condition comes back before the pause is
over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace

from steward.model.finding import Finding, Recurrence, Severity
from steward.model.identity import GpuId
from steward.model.rules import Hit

__all__ = ["PAUSE_S", "Episode", "Episodes"]

PAUSE_S = 600.0  # after so long without a match, the next one is another finding
REPORT_EVERY_S = 600.0  # interval between recurrence entries in the journal
MOST_OPEN = 50  # entities of one rule; further ones share one finding

Holding = Mapping[str, frozenset[str]]  # entities for which an expression still holds
Key = tuple[str, str]  # a rule and an entity


@dataclass(slots=True, kw_only=True)
class Episode:
    """A finding with its recent matches and whether it still holds."""

    finding: Finding
    last_s: float  # time of its last match, or when it last held
    conditions: frozenset[Key]  # expressions and entities that keep it open while they hold
    hits: int = 1
    again: int = 0  # matches that are not in the journal yet
    reported_s: float = 0.0
    holds: bool = True  # now; a match of lines holds until the pause is over

    def update(self, holding: Holding, failed: Set[GpuId], now_s: float) -> None:
        """Update whether the episode holds: by its conditions, or by a failed GPU."""
        if self.hits != self.finding.hits:
            self.finding = replace(self.finding, hits=self.hits)
        finding = self.finding
        if finding.severity is Severity.FAULT and not failed.isdisjoint(finding.gpus):
            self.holds, self.last_s = True, now_s
        elif self.conditions:
            self.holds = all(
                entity in holding.get(expr, frozenset()) for expr, entity in self.conditions
            )
            self.last_s = now_s if self.holds else self.last_s


@dataclass(slots=True)
class Episodes:
    """All open episodes, in bounded number."""

    open: dict[Key, Episode] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)  # open ones of each rule
    ended: list[Recurrence] = field(default_factory=list)

    def key_of(self, hit: Hit) -> Key:
        """Return the key of a match: '' stands for all entities beyond the limit."""
        key = (hit.rule, entity_of(hit))
        if key in self.open or self.counts.get(hit.rule, 0) < MOST_OPEN:
            return key
        return (hit.rule, "")

    def add(self, key: Key, finding: Finding, hit: Hit, *, at_s: float) -> None:
        """Begin an episode with a match of that time."""
        self.open[key] = Episode(
            finding=finding,
            last_s=at_s,
            hits=finding.hits,
            conditions=_conditions(key, hit),
            reported_s=at_s,
        )
        self.counts[key[0]] = self.counts.get(key[0], 0) + 1

    def again(self, key: Key, hit: Hit, now_s: float) -> None:
        """Count one more match."""
        episode = self.open[key]
        episode.again += 1
        episode.hits += 1
        episode.last_s = now_s
        episode.conditions = _conditions(key, hit)
        episode.holds = True

    def settle(self, holding: Holding, now_s: float, *, failed: Set[GpuId] = frozenset()) -> None:
        """End the episodes that are over; a fault goes on while a GPU that it names has failed."""
        for key, episode in list(self.open.items()):
            episode.update(holding, failed, now_s)
            if now_s - episode.last_s > PAUSE_S:
                self.ended += _reported(episode, now_s)
                self._remove(key)

    def forget_over(self, key: Key, now_s: float) -> None:
        """Remove an episode that was over before this time, as an earlier run has reported it."""
        episode = self.open.get(key)
        if episode is not None and now_s - episode.last_s > PAUSE_S:
            self._remove(key)

    def _remove(self, key: Key) -> None:
        del self.open[key]
        self.counts[key[0]] -= 1

    def recurrences(self, now_s: float) -> tuple[Recurrence, ...]:
        """Return recurrences of findings that ended, or were last reported long ago."""
        found, self.ended = self.ended, []
        for episode in self.open.values():
            if now_s - episode.reported_s >= REPORT_EVERY_S:
                found += _reported(episode, now_s)
        return tuple(found)


def _reported(episode: Episode, now_s: float) -> Iterator[Recurrence]:
    if episode.again:
        finding = episode.finding
        yield Recurrence(
            finding=finding.id,
            rule=finding.rule,
            from_s=episode.reported_s,
            t_s=now_s,
            hits=episode.again,
        )
    episode.again, episode.reported_s = 0, now_s


def entity_of(hit: Hit) -> str:
    """Return the entity of a match; its stream where the entity is unknown."""
    named: Iterable[str] = (hit.entity, *(item.entity or item.stream for item in hit.items))
    return next((each for each in named if each), "")


def _conditions(key: Key, hit: Hit) -> frozenset[Key]:
    """Return the conditions on series of a match; a finding about many entities has none."""
    return frozenset((item.expr, item.entity) for item in hit.items if item.expr and key[1])
