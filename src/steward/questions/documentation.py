"""The documentation by section, and the search in it."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

__all__ = ["Section", "read_sections", "search_sections"]

_WORD = re.compile(r"[a-z][a-z0-9_-]+")
_PLAIN = {
    *[
        "the",
        "and",
        "for",
        "are",
        "was",
        "with",
        "that",
        "this",
        "from",
        "what",
        "which",
        "how",
        "can",
        "does",
        "who",
        "why",
        "when",
        "where",
    ],
    *[
        "you",
        "your",
        "steward",
        "there",
        "have",
        "has",
        "not",
        "into",
        "its",
        "use",
        "using",
        "would",
        "should",
        "will",
        "about",
        "mean",
    ],
    *[
        "documented",
        "explained",
        "documentation",
        "docs",
        "work",
        "works",
        "way",
        "possible",
        "please",
        "tell",
    ],
}
_TITLE_WEIGHT = 6.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One section of a page: its heading, its words, and its first paragraph."""

    page: str  # as `docs/plan.md`
    anchor: str
    title: str
    text: str
    words: frozenset[str]
    heads: frozenset[str]  # words of its title and of its page's


def read_sections(folder: Path) -> tuple[Section, ...]:
    """Return all sections below a folder of Markdown; none where it is not there."""
    pages = sorted(folder.rglob("*.md")) if folder.is_dir() else []
    kept = (page for page in pages if "decisions" not in page.parts)
    return tuple(section for page in kept for section in _sections(page, folder))


def _sections(page: Path, folder: Path) -> Iterator[Section]:
    name = f"docs/{page.relative_to(folder).as_posix()}"
    title, lines = "", list[str]()
    for line in [*page.read_text("utf-8", "replace").splitlines(), "# "]:
        if re.match(r"#{1,4} ", line):
            if title:
                yield _section(name, title, lines)
            title, lines = line.lstrip("#").strip(), []
        else:
            lines.append(line)


def _section(page: str, title: str, lines: Sequence[str]) -> Section:
    text = "\n".join(lines)
    stem = page.rpartition("/")[2].removesuffix(".md").replace("_", " ")
    return Section(
        page=page,
        anchor=re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-"),
        title=title.replace("`", ""),
        text=text,
        words=frozenset(_stems(text)) | frozenset(_stems(title)),
        heads=frozenset(_stems(f"{title} {stem}")),
    )


def search_sections(sections: Sequence[Section], query: str, *, most: int = 3) -> list[Section]:
    """Return the sections that hold most of the rare words of a query, best first.

    Empty unless one holds all words, or all but one of three.
    """
    wanted = list(dict.fromkeys(_stems(query)))
    if not wanted:
        return []
    rarity = _rarity(tuple(sections))
    least = len(wanted) if len(wanted) < 3 else len(wanted) - 1
    scored = []
    for place, each in enumerate(sections):
        hit = [word for word in wanted if word in each.words]
        if len(hit) < least:
            continue
        heads = sum(word in each.heads for word in hit)
        weight = sum(rarity[word] for word in hit) + _TITLE_WEIGHT * heads
        scored.append((-weight / math.log(20 + len(each.words)), place))
    return [sections[place] for _, place in sorted(scored)[:most]]


@lru_cache(maxsize=4)
def _rarity(sections: tuple[Section, ...]) -> dict[str, float]:
    counts = Counter(word for each in sections for word in each.words)
    return {word: math.log(1 + len(sections) / count) for word, count in counts.items()}


def _stems(text: str) -> Iterable[str]:
    for word in _WORD.findall(text.lower()):
        if word not in _PLAIN and len(word) > 2:
            yield word.removesuffix("'s").removesuffix("ing").removesuffix("s").removesuffix("e")
