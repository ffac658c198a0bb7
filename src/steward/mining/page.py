"""A summary as one HTML file: what occurs, together, after one another, and where kinds differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from steward.documents import document, escaped, table, write_document
from steward.documents.bars import bars
from steward.documents.flow import flow
from steward.documents.matrix import matrix
from steward.documents.network import network
from steward.documents.palette import STYLE
from steward.documents.timelines import legend, timelines
from steward.learn.patterns.contrasts import Contrasts
from steward.learn.patterns.itemsets import Item, items_of
from steward.learn.patterns.layers import layer_of
from steward.mining.summary import Summary

__all__ = ["page", "parts", "write_page"]

_MOST_BARS = 30
_MOST_ITEMS = 48
_MOST_EDGES = 40
_MOST_ROWS = 25
_MOST_STATES = 8
_STYLE = f"{STYLE}\nbody {{ max-width: 76rem; }}\n"


def write_page(summary: Summary, file: Path, *, title: str) -> None:
    """Write the page; a file that was there stays whole until the new one is."""
    write_document(page(summary, title=title), file)


def page(summary: Summary, *, title: str) -> str:
    """Return the whole page."""
    heading = f"<h1>{escaped(title)}</h1>"
    return document(f"steward: {title}", [heading, *parts(summary)], style=_STYLE)


def parts(summary: Summary) -> Iterator[str]:
    """Return what the page holds below its heading, as pieces of HTML."""
    baskets = summary.baskets
    yield (
        f'<p class="quiet">{len(baskets):,} windows of {baskets.window_s:g} s in '
        f"{len(baskets.runs):,} runs, {len(baskets.groups)} groups of metrics</p>"
    )
    yield from (f'<p class="note">{escaped(note)}</p>' for note in summary.notes)
    yield from _timeline(summary)
    yield from _frequencies(summary)
    yield from _together(summary)
    yield from _rules(summary)
    yield from _flow(summary)
    yield from _sequences(summary)
    for each in summary.contrasts:
        yield from _contrast(each)


def _timeline(summary: Summary) -> Iterator[str]:
    shown = summary.timeline
    yield f'<h2>Runs over time</h2><p class="quiet">{escaped(shown.basis)}</p>'
    yield legend(shown.kinds)
    yield timelines(shown.runs, shown.spans, shown.kinds, title="what runs were doing over time")
    if len(shown.runs) < len(summary.baskets.runs):
        yield f'<p class="quiet">the first {len(shown.runs)} runs</p>'


def _frequencies(summary: Summary) -> Iterator[str]:
    shown = [each for each in summary.frequencies if each[1]][:_MOST_BARS]
    layers = _layers([item for item, _ in shown])
    yield "<h2>How frequent each level is</h2>"
    yield legend(list(layers))
    yield bars(
        [str(item) for item, _ in shown],
        [count / max(1, len(summary.baskets)) for _, count in shown],
        title="share of windows with each level",
        kinds=[layers[layer_of(item.group)] for item, _ in shown],
        write="{:.1%}".format,
    )


def _layers(items: Sequence[Item]) -> dict[str, int]:
    """Return the colour of each layer: GPU, CPU, memory, network, storage."""
    return {name: i for i, name in enumerate(sorted({layer_of(each.group) for each in items}))}


def _together(summary: Summary) -> Iterator[str]:
    counts = summary.together.counts
    seen = np.flatnonzero(np.diag(counts) > 0)[:_MOST_ITEMS]
    names = [str(summary.together.items[i]) for i in seen]
    with np.errstate(divide="ignore", invalid="ignore"):
        surplus = np.log2(summary.together.lift[np.ix_(seen, seen)])
    # What never occurs together would be minus infinity; so rare is rare enough.
    surplus = np.clip(np.nan_to_num(surplus, neginf=-4.0), -4.0, 4.0)
    group = np.array([summary.together.items[i].group for i in seen])
    surplus[group[:, None] == group[None]] = np.nan  # levels of one group exclude one another
    yield "<h2>What occurs together</h2>"
    yield (
        '<p class="quiet">Blue: oftener than if they were independent; orange: more seldom. Full '
        "colour is the strongest of this picture; the number is the logarithm to base 2. Levels of "
        "one group exclude one another and are left out.</p>"
    )
    yield f'<div class="scroll">{matrix(surplus, names, names, title="co-occurrence")}</div>'


def _rules(summary: Summary) -> Iterator[str]:
    rules = summary.rules
    yield "<h2>Rules</h2>"
    yield (
        f'<p class="quiet">{len(rules):,} of {summary.rules_tested:,} tested are significant '
        "(Fisher's test over runs, 5 % false ones accepted), without those that a shorter one "
        "says.</p>"
    )
    if not len(rules):
        return
    rows = list(range(min(_MOST_EDGES, len(rules))))
    sides = [
        [items_of(codes[row], rules.groups, rules.level_names) for codes in _sides(summary)]
        for row in rows
    ]
    yield _graph(summary, sides, rows)
    yield from table(
        ("if", "then", "windows", "confidence", "lift", "q"),
        (
            (
                _text(sides[row][0]),
                _text(sides[row][1]),
                f"{int(rules.both[row]):,}",
                f"{rules.confidence[row]:.1%}",
                f"{rules.lift[row]:.2f}",
                f"{rules.q_values[row]:.2g}",
            )
            for row in rows[:_MOST_ROWS]
        ),
    )


def _sides(summary: Summary) -> tuple[np.ndarray, np.ndarray]:
    return summary.rules.antecedents, summary.rules.consequents


def _graph(summary: Summary, sides: list[list[tuple[Item, ...]]], rows: list[int]) -> str:
    """Draw the rules between single items: each of the first part points to what follows."""
    items = sorted({item for pair in sides for side in pair for item in side}, key=_by_layer)
    place = {item: i for i, item in enumerate(items)}
    frequency = dict(summary.frequencies)
    layers = _layers(items)
    lift, confidence = summary.rules.lift, summary.rules.confidence
    edges = [
        (
            place[source],
            place[target],
            float(np.log1p(lift[row])),
            _arrow(sides[row], float(confidence[row]), float(lift[row])),
        )
        for row in rows
        for source in sides[row][0]
        for target in sides[row][1]
    ]
    drawn = network(
        [str(item) for item in items],
        [float(frequency.get(item, 0)) for item in items],
        edges,
        title="the strongest rules between levels",
        kinds=[layers[layer_of(item.group)] for item in items],
    )
    return f"{legend(list(layers))}{drawn}"


def _arrow(sides: list[tuple[Item, ...]], confidence: float, lift: float) -> str:
    return (
        f"{_text(sides[0])}, then {_text(sides[1])}: {confidence:.0%}, {lift:.1f} times as often "
        "as by chance"
    )


def _by_layer(item: Item) -> tuple[str, str, str]:
    return layer_of(item.group), item.group, item.level


def _flow(summary: Summary) -> Iterator[str]:
    shown = min(_MOST_STATES, len(summary.flow.states))
    counts = summary.flow.flow[:shown, :shown].astype(np.float64)
    yield "<h2>Which state follows which</h2>"
    if not counts.any():
        yield "<p>No run changes between the most frequent states.</p>"
        return
    names = [f"state {i + 1}" for i in range(shown)]
    yield flow(counts, names, names, title="changes between states")
    yield from table(
        ("state", "windows", "levels"),
        (
            (names[i], f"{int(summary.flow.windows[i]):,}", _text(summary.flow.states[i]))
            for i in range(shown)
        ),
    )


def _sequences(summary: Summary) -> Iterator[str]:
    found = summary.sequences
    several = [row for row in range(len(found)) if found.lengths[row] > 1][:_MOST_ROWS]
    yield "<h2>What happens after what</h2>"
    if not several:
        yield "<p>No sequence of two steps is in so many runs.</p>"
        return
    yield from table(
        ("first, then …", "runs"),
        (
            (
                " \N{RIGHTWARDS ARROW} ".join(map(str, found.of(row))),
                f"{int(found.counts[row]):,} of {found.runs:,}",
            )
            for row in several
        ),
    )


def _contrast(found: Contrasts) -> Iterator[str]:
    yield f"<h2>{escaped(found.target)} against {escaped(found.against)}</h2>"
    yield (
        f'<p class="quiet">{found.target_runs:,} runs against {found.other_runs:,}; '
        f"{found.significant:,} of {found.tested:,} patterns differ (5 % false ones accepted)</p>"
    )
    if found.found:
        yield from table(
            ("pattern", "layers", "share", "elsewhere", "AUROC", "q", "family-wise p"),
            (
                (
                    _text(each.items),
                    " \N{MULTIPLICATION SIGN} ".join(each.layers),
                    f"{each.share:.0%}",
                    f"{each.share_elsewhere:.0%}",
                    f"{each.auroc:.2f}",
                    f"{each.q_value:.2g}",
                    f"{each.family_p:.2g}",
                )
                for each in found.found[:_MOST_ROWS]
            ),
        )


def _text(items: Sequence[Item]) -> str:
    return ", ".join(map(str, items))
