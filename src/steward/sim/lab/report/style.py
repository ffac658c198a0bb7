"""How the page looks, in the light and in the dark."""

from __future__ import annotations

__all__ = ["STYLE"]

_LIGHT = ("#0b6e4f", "#c2410c", "#1d5fbf", "#a21caf", "#b7791f", "#0e7490", "#be123c", "#6b7280")
_DARK = ("#4cc79a", "#fb923c", "#7db2ff", "#e879f9", "#facc6b", "#5dd3e8", "#fb7185", "#a3adb8")
_DASHES = ("", "", "", "", "6 3", "6 3", "2 3", "2 3")


def _colours(values: tuple[str, ...]) -> str:
    return " ".join(f"--c{i}: {value};" for i, value in enumerate(values))


STYLE = (
    """
:root { color-scheme: light dark; --ink: #1a1d21; --quiet: #5b6570; --paper: #ffffff;
  --card: #f4f6f8; --rule: #dde2e7; --best: #0b6e4f1f; LIGHT }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ebee; --quiet: #9aa5b1; --paper: #14171a;
  --card: #1e2327; --rule: #343b42; --best: #4cc79a2e; DARK } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1.5rem 1rem 4rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .4rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .2rem; }
p { margin: .25rem 0; } .quiet { color: var(--quiet); } .lead { font-size: 1.1rem; }
.note { background: var(--card); border-radius: .5rem; padding: .6rem 1rem; margin: .75rem 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: right; padding: .3rem .5rem; border-bottom: 1px solid var(--rule);
  vertical-align: top; white-space: nowrap; font-variant-numeric: tabular-nums; }
th:first-child, td:first-child, td.words, th.words { text-align: left; }
td.words { white-space: normal; }
thead th { color: var(--quiet); font-weight: 600; vertical-align: bottom; }
td small { display: block; color: var(--quiet); font-size: .78rem; }
td.best { background: var(--best); font-weight: 700; }
td.best span::after { content: " \\2605"; font-size: .7em; vertical-align: .2em; }
td.best small { font-weight: 400; }
tbody th { font-weight: 600; } summary { cursor: pointer; margin: .75rem 0; }
.two { display: grid; gap: 1rem 1.5rem;
  grid-template-columns: repeat(auto-fit, minmax(19rem, 1fr)); }
svg { width: 100%; height: auto; display: block; } .scroll svg { min-width: 44rem; }
svg text { fill: var(--quiet); font: 12px system-ui, sans-serif; }
svg text.strong { fill: var(--ink); font-weight: 700; }
svg .grid { stroke: var(--rule); } svg .dot { fill: var(--c0); }
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
code { background: var(--card); padding: .1rem .3rem; border-radius: .25rem;
  overflow-wrap: anywhere; }
""".replace("LIGHT", _colours(_LIGHT)).replace("DARK", _colours(_DARK))
    + "\n".join(
        f"svg .c{i} {{ stroke: var(--c{i}); stroke-dasharray: {dash or 'none'}; }} "
        f"svg .f{i} {{ fill: var(--c{i}); }} .k{i} {{ background: var(--c{i}); }}"
        for i, dash in enumerate(_DASHES)
    )
    + "\n"
)
