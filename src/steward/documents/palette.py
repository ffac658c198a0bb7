"""Colours of charts with categories, light and dark."""

from __future__ import annotations

__all__ = ["COLOURS", "STYLE", "colour"]

# Told apart also by people who see red and green alike (after Okabe and Ito), and on both grounds.
_LIGHT = ("#0072b2", "#d55e00", "#009e73", "#b3589a", "#a07800", "#3d9fd6", "#5b6570", "#7a4fbf")
_DARK = ("#4da3ff", "#ff9447", "#33c795", "#e08bc8", "#e0b93a", "#86cdf5", "#9aa5b1", "#b797f2")
COLOURS = len(_LIGHT)


def _variables(colours: tuple[str, ...]) -> str:
    return " ".join(f"--c{i}: {each};" for i, each in enumerate(colours))


STYLE = (
    f":root {{ {_variables(_LIGHT)} }}\n"
    f"@media (prefers-color-scheme: dark) {{ :root {{ {_variables(_DARK)} }} }}\n"
    + "\n".join(
        f"svg .c{i} {{ fill: var(--c{i}); }} svg .s{i} {{ stroke: var(--c{i}); fill: none; }} "
        f".k{i} {{ background: var(--c{i}); }}"
        for i in range(COLOURS)
    )
    + """
svg .cell { fill: var(--c0); } svg .less { fill: var(--c1); }
svg .node { stroke: var(--paper); stroke-width: 1.5; }
svg text.name { fill: var(--ink); } svg .edge { fill: none; stroke: var(--quiet); }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1rem; font-size: .9rem; }
.legend i { display: inline-block; width: .8em; height: .8em; border-radius: .2em;
  margin-right: .35em; }
"""
)


def colour(place: int) -> int:
    """Return the colour of a category by its place; there are more places than colours."""
    return place % COLOURS
