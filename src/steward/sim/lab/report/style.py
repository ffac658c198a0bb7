"""The style of the lab's report, on top of the shared one."""

from __future__ import annotations

__all__ = ["STYLE"]

_LIGHT = ("#0b6e4f", "#c2410c", "#1d5fbf", "#a21caf", "#b7791f", "#0e7490", "#be123c", "#6b7280")
_DARK = ("#4cc79a", "#fb923c", "#7db2ff", "#e879f9", "#facc6b", "#5dd3e8", "#fb7185", "#a3adb8")
_DASHES = ("", "", "", "", "6 3", "6 3", "2 3", "2 3")


def _colours(values: tuple[str, ...]) -> str:
    return " ".join(f"--c{i}: {value};" for i, value in enumerate(values))


STYLE = (
    """
:root { --best: #0b6e4f1f; LIGHT }
@media (prefers-color-scheme: dark) { :root { --best: #4cc79a2e; DARK } }
body { max-width: 76rem; } h3 { font-size: 1rem; margin: 1.2rem 0 .2rem; }
.lead { font-size: 1.1rem; } table { font-size: .9rem; }
table:not(.texts) :is(th, td) { text-align: right; padding: .3rem .5rem; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
table:not(.texts) :is(th, td):first-child { text-align: left; }
thead th { color: var(--quiet); font-weight: 600; vertical-align: bottom; }
td small { display: block; color: var(--quiet); font-size: .78rem; }
td.best { background: var(--best); font-weight: 700; }
td.best span::after { content: " \\2605"; font-size: .7em; vertical-align: .2em; }
td.best small { font-weight: 400; }
tbody th { font-weight: 600; } summary { cursor: pointer; margin: .75rem 0; }
.two { display: grid; gap: 1rem 1.5rem;
  grid-template-columns: repeat(auto-fit, minmax(19rem, 1fr)); }
.scroll svg { min-width: 44rem; }
svg text.strong { fill: var(--ink); font-weight: 700; }
svg .dot { fill: var(--c0); }
svg .whisker { stroke: var(--c0); stroke-width: 3; stroke-opacity: .35; stroke-linecap: round; }
svg .curve { fill: none; stroke-width: 2; } svg .behind { fill: none; stroke: var(--rule); }
svg .most { fill: var(--c1); fill-opacity: .25; } svg .queue { fill: var(--c1); fill-opacity: .75; }
svg .used { fill: var(--c2); fill-opacity: .55; }
svg .there { fill: none; stroke: var(--quiet); stroke-dasharray: 4 3; }
svg .job { stroke: var(--paper); stroke-width: .4; }
svg .bar { fill: var(--c2); fill-opacity: .7; }
svg .mark { stroke: var(--ink); stroke-width: 2; }
.legend { color: var(--quiet); font-size: .9rem; }
.item { white-space: nowrap; }
.key { display: inline-block; width: 1.1rem; height: .3rem; margin: 0 .35rem .2rem .6rem;
  vertical-align: middle; } .key.kx { background: var(--rule); }
""".replace("LIGHT", _colours(_LIGHT)).replace("DARK", _colours(_DARK))
    + "\n".join(
        f"svg .c{i} {{ stroke: var(--c{i}); stroke-dasharray: {dash or 'none'}; }} "
        f"svg .f{i} {{ fill: var(--c{i}); }} .k{i} {{ background: var(--c{i}); }}"
        for i, dash in enumerate(_DASHES)
    )
    + "\n"
)
