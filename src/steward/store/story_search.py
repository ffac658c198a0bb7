"""Decisions by their state, page by page. One search for the API and the command line."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from steward.model.decision import DecisionState
from steward.model.outcome import Story
from steward.store.journal import Journal

__all__ = ["StoryPage", "find_stories"]

PAGE = 500  # stories per query: a state follows from a whole story, so others are read past


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryPage:
    """Stories with each decision's number, newest first; `before` reads on, None at the end."""

    stories: tuple[tuple[int, Story], ...]
    before: int | None


def find_stories(
    journal: Journal,
    *,
    states: Container[DecisionState] = frozenset(),
    before: int | None = None,
    limit: int,
    most_read: int | None = None,
) -> StoryPage:
    """Return up to `limit` stories in one of `states`; none given means any.

    At most `most_read` are read, so that a rare state does not make one request read everything:
    a page can then be short and still have more after it.
    """
    found: list[tuple[int, Story]] = []
    size = PAGE if states else min(limit, PAGE)
    read = 0
    while most_read is None or read < most_read:
        page = journal.stories(before=before, limit=size)
        read += len(page)
        for seq, story in page:
            before = seq
            if not states or story.state in states:
                found.append((seq, story))
            if len(found) == limit:
                return StoryPage(stories=tuple(found), before=before)
        if len(page) < size:
            return StoryPage(stories=tuple(found), before=None)
    return StoryPage(stories=tuple(found), before=before)
