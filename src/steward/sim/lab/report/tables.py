"""The tables of a comparison's page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite, isnan

from steward.documents import escaped
from steward.sim.lab.compare import Comparison
from steward.sim.lab.judge.measures import FIGURES, LOWER_IS_BETTER
from steward.sim.lab.report.formatting import between, number, percent, span

__all__ = ["all_figures", "best", "main_table", "say"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    figure: str
    title: str


COLUMNS = (
    _Column(figure="jct_mean_s", title="mean JCT"),
    _Column(figure="jct_p50_s", title="median JCT"),
    _Column(figure="jct_p99_s", title="p99 JCT"),
    _Column(figure="wait_mean_s", title="mean wait"),
    _Column(figure="makespan_s", title="makespan"),
    _Column(figure="utilisation", title="utilisation"),
    _Column(figure="fairness_compliance", title="guarantees kept"),
    _Column(figure="preemptions", title="preemptions"),
    _Column(figure="unfinished", title="unfinished"),
)
SHARES = ("share", "compliance", "utilisation", "fragmentation")


def say(figure: str, value: float) -> str:
    """Write a figure in the unit that its name has."""
    if figure.endswith("_s") and figure != "cpu_s":
        return span(value)
    if figure.startswith("utilisation") or figure.endswith(SHARES):
        return percent(value)
    return number(value)


def best(comparison: Comparison, figure: str) -> float:
    """Return the best value that any policy reached; NaN where none is better than another."""
    values = [each[figure] for each in comparison.figures.values() if isfinite(each[figure])]
    if figure not in LOWER_IS_BETTER or len(set(values)) < 2:
        return float("nan")
    return min(values) if LOWER_IS_BETTER[figure] else max(values)


def main_table(comparison: Comparison, order: Sequence[str]) -> Iterator[str]:
    """Return the figures that matter most, each with its interval, the best ones marked."""
    shown = [each for each in COLUMNS if _matters(comparison, each.figure)]
    yield '<div class="scroll"><table><thead><tr><th scope="col">policy</th>'
    titles = [each.title for each in shown]
    titles.insert(1, f"against {comparison.baseline}")
    yield "".join(f'<th scope="col">{escaped(title)}</th>' for title in titles)
    yield "</tr></thead><tbody>"
    tops = {each.figure: best(comparison, each.figure) for each in shown}
    for name in order:
        yield f'<tr><th scope="row">{escaped(name)}</th>'
        cells = [_cell(comparison, name, each.figure, tops[each.figure]) for each in shown]
        cells.insert(1, _against(comparison, name))
        yield f"{''.join(cells)}</tr>"
    yield "</tbody></table></div>"


def all_figures(comparison: Comparison, order: Sequence[str]) -> Iterator[str]:
    """Return every figure of every policy."""
    yield '<div class="scroll"><table><thead><tr><th scope="col">figure</th>'
    yield "".join(f'<th scope="col">{escaped(name)}</th>' for name in order)
    yield "</tr></thead><tbody>"
    for figure in FIGURES:
        top = best(comparison, figure)
        cells = "".join(_cell(comparison, name, figure, top) for name in order)
        yield f'<tr><th scope="row">{escaped(figure)}</th>{cells}</tr>'
    yield "</tbody></table></div>"


def _matters(comparison: Comparison, figure: str) -> bool:
    """Leave out columns in which every policy has nothing."""
    return any(each[figure] for each in comparison.figures.values()) or figure == "jct_mean_s"


def _cell(comparison: Comparison, name: str, figure: str, top: float) -> str:
    value = comparison.figures[name][figure]
    kind = ' class="best"' if not isnan(top) and value == top else ""
    interval = comparison.intervals[name].get(figure)
    beneath = f"<small>{escaped(_between(figure, interval))}</small>" if interval else ""
    return f"<td{kind}><span>{escaped(say(figure, value))}</span>{beneath}</td>"


def _between(figure: str, interval: tuple[float, float]) -> str:
    low, high = interval
    if not isfinite(low) or low == high:
        return ""
    if figure.endswith("_s") and figure != "cpu_s":
        return between(low, high)
    return f"{say(figure, low).removesuffix(' %')} … {say(figure, high)}"


def _against(comparison: Comparison, name: str) -> str:
    found = comparison.differences.get(name, {}).get("jct_mean_s")
    if found is None or not isfinite(found.relative):
        return "<td>-</td>"
    low, high = _signed(found.relative_low).removesuffix(" %"), _signed(found.relative_high)
    chance = "p < 0.001" if found.p < 0.0015 else f"p = {found.p:.2g}"
    beneath = escaped(f"{low} … {high}")
    said = escaped(_signed(found.relative))
    return f'<td title="{escaped(chance)}">{said}<small>{beneath}</small></td>'


def _signed(share: float) -> str:
    if not isfinite(share):
        return "-"
    digits = 0 if abs(share) >= 1 else 1
    return f"{share * 100:+,.{digits}f} %".replace("-", "\N{MINUS SIGN}")
