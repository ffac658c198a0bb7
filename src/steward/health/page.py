"""The report as one HTML file with plots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from math import isfinite

import numpy as np

from steward.documents import document, escaped, table
from steward.documents.axes import axis_of
from steward.documents.bars import bars
from steward.documents.matrix import matrix
from steward.documents.palette import STYLE, colour
from steward.documents.svg import line, picture, polygon, text, x_axis, y_axis
from steward.health.history_report import HistoryReport
from steward.health.report import FleetReport, NamedRate
from steward.learn.reliability import Rate, Survival
from steward.model.outcome import Interval

__all__ = ["history_page", "report_page"]

_WIDTH, _LEFT, _RIGHT, _ROW = 920.0, 240.0, 130.0, 22.0
_MOST_ROWS = 25
_STYLE = (
    f"{STYLE}\nbody {{ max-width: 76rem; }}\nsvg .band {{ fill: var(--c0); fill-opacity: .18; }}\n"
    "svg .mark { stroke-width: 3; }\n"
)


def report_page(report: FleetReport, *, title: str) -> str:
    """Return the page of a fleet."""
    return document(f"steward: {title}", _fleet(report, title), style=_STYLE)


def history_page(report: HistoryReport, *, title: str) -> str:
    """Return the page of a history of failures."""
    return document(f"steward: {title}", _history(report, title), style=_STYLE)


def _fleet(report: FleetReport, title: str) -> Iterator[str]:
    begin_s, end_s = report.exposure.window_s
    yield f"<h1>{escaped(title)}</h1>"
    yield f'<p class="quiet">{_day(begin_s)} to {_day(end_s)}</p>'
    yield from (f'<p class="note">{escaped(note)}</p>' for note in report.notes)
    fatal = [each for each in report.scan.incidents if each.fatal]
    secondary = sum(not each.primary for each in report.scan.incidents)
    yield from _cards(
        ("incidents", f"{len(report.scan.incidents):,}"),
        ("of them fatal", f"{len(fatal):,}"),
        ("follow from others", f"{secondary:,}"),
        ("GPU-hours watched", f"{report.exposure.hours.sum():,.0f}"),
        ("jobs", f"{report.job_count:,}"),
    )
    yield from _silences(report)
    yield from _rates("Rates by code", report.codes)
    yield from _gap(report)
    yield from _rates("Rates of fatal faults by part", report.parts)
    yield from _rates("Rates of fatal faults by generation", report.batches)
    yield from _propagation(report)
    yield from _jobs(report)
    yield from _nodes(report)
    yield from _checkpoints(report)


def _history(report: HistoryReport, title: str) -> Iterator[str]:
    yield f"<h1>{escaped(title)}</h1>"
    yield f'<p class="quiet">{escaped(report.basis)}</p>'
    yield from _cards(
        ("hours in service", f"{report.exposure_h:,.0f}"),
        ("units", f"{report.survival.units:,}"),
        ("that failed", f"{report.survival.failures:,}"),
    )
    named = [
        NamedRate(name=name, rate=rate, worst=tuple(report.worst[name][:10]))
        for name, rate in report.kinds.items()
    ]
    yield from _rates("Rates by kind of failure", named)
    batches = [NamedRate(name=name, rate=rate, worst=()) for name, rate in report.batches.items()]
    yield from _rates("Rates by what serial numbers begin with", batches)
    yield "<h2>Survival until the first failure</h2>"
    yield _survival(report.survival)
    yield "<h2>Failures by age</h2>"
    yield _intervals(
        [f"{low:,.0f} to {high:,.0f} days" for low, high, *_ in report.hazard],
        [rate.times(1e6) for *_, rate in report.hazard],
        title="failures per million hours by age",
    )


def _cards(*cards: tuple[str, str]) -> Iterator[str]:
    yield '<div class="cards">'
    yield from (f'<div class="card"><b>{escaped(b)}</b>{escaped(a)}</div>' for a, b in cards)
    yield "</div>"


def _silences(report: FleetReport) -> Iterator[str]:
    if report.scan.blackouts:
        yield "<h2>Silence</h2>"
        columns = ("when", "nodes", "of answering", "steady before", "answered again")
        rows = [
            (_moment(x.t_s), len(x.nodes), x.answering, x.steady, x.back)
            for x in report.scan.blackouts
        ]
        yield from table(columns, rows)


def _rates(title: str, rates: Sequence[NamedRate]) -> Iterator[str]:
    if not rates:
        return
    shown = rates[:_MOST_ROWS]
    yield f"<h2>{escaped(title)}</h2>"
    yield (
        '<p class="quiet">Per million GPU-hours, with 95 % intervals: exact ones (Garwood), and '
        "with units drawn anew, which is wider where units differ. A dispersion of 1 is that of "
        "independent events.</p>"
    )
    known = [each for each in shown if isfinite(each.rate.exact.high)]
    if known:
        yield _intervals(
            [each.name for each in known],
            [each.rate.between_units.times(1e6) for each in known],
            title="events per million hours",
        )
    columns = ("what", "events", "units with", "rate", "between units", "MTBE h", "dispersion",
               "without the worst", "worst units", "against the rest")  # fmt: skip
    yield from table(columns, [_rate_row(each) for each in shown])


def _rate_row(each: NamedRate) -> tuple[str, ...]:
    rate: Rate = each.rate
    worst = ", ".join(f"{name} ({count:,})" for name, count in each.worst[:4])
    return (
        each.name,
        f"{rate.count:,}",
        f"{rate.units_with:,} of {rate.units:,}",
        interval(rate.exact.times(1e6)),
        interval(rate.between_units.times(1e6)),
        interval(rate.mtbe_h),
        f"{rate.dispersion:.1f} (p {rate.dispersed_p:.2g})" if isfinite(rate.dispersion) else "-",
        f"{rate.without_worst_count:,}: {interval(rate.without_worst.times(1e6))}"
        if rate.worst
        else "no unit stands out",
        worst or "-",
        f"{interval(each.against_rest)} times" if each.against_rest else "-",
    )


def _gap(report: FleetReport) -> Iterator[str]:
    if any(report.scan.by_gap.values()):
        yield "<h2>How much hangs on the gap that ends an incident</h2>"
        yield bars(
            [f"{gap:g} s" for gap in report.scan.by_gap],
            [float(count) for count in report.scan.by_gap.values()],
            title="incidents by gap",
            write="{:,.0f}".format,
        )


def _propagation(report: FleetReport) -> Iterator[str]:
    if not report.edges:
        return
    yield "<h2>What follows what within 5 s</h2>"
    yield (
        '<p class="quiet">Only what shifted times do not explain. The share of the first kind '
        "after which the second came.</p>"
    )
    names = sorted({name for each in report.edges for name in (each.first, each.then)})
    place = {name: i for i, name in enumerate(names)}
    values = np.full((len(names), len(names)), np.nan)
    for each in report.edges:
        at = place[each.first], place[each.then]
        values[at] = np.nanmax([values[at], each.share.mid])
    yield matrix(values, names, names, title="what follows what", write="{:.1%}".format)
    columns = ("first", "then", "where", "times", "share", "by chance", "lift")
    yield from table(
        columns,
        [
            (x.first, x.then, x.where, f"{x.count:,} of {x.of:,}", percent(x.share),
             f"{x.by_chance:.2f}", f"{x.lift:,.0f}")
            for x in report.edges[:_MOST_ROWS]
        ],
    )  # fmt: skip


def _jobs(report: FleetReport) -> Iterator[str]:
    if not report.jobs:
        return
    yield "<h2>What faults did to jobs</h2>"
    yield (
        '<p class="quiet">Failed within 20 s after; attributable is that without what matched '
        "jobs that met no fault would show by chance.</p>"
    )
    columns = ("fault", "jobs exposed", "failed", "raw", "by chance", "attributable",
               "GPU-hours lost", "by window")  # fmt: skip
    yield from table(
        columns,
        [
            (x.kind, f"{x.exposed:,}", f"{x.failed:,}", percent(x.raw), f"{x.by_chance:.2%}",
             percent(x.attributable), f"{x.lost_gpu_hours:,.1f}",
             ", ".join(f"{w:g} s: {n}" for w, n in x.by_window.items()))
            for x in report.jobs[:_MOST_ROWS]
        ],
    )  # fmt: skip


def _nodes(report: FleetReport) -> Iterator[str]:
    found = report.available
    if found is None:
        return
    yield "<h2>Nodes</h2>"
    yield from _cards(
        ("available", percent(found.available)),
        ("hours until a node leaves service", interval(found.mttf_h)),
        ("hours until it is back", interval(found.mttr_h)),
        ("times that one left", f"{found.failures:,}"),
        ("still away", f"{found.open_spells:,}"),
    )
    if found.worst:
        rows = [(name, times, f"{hours:,.1f}") for name, times, hours in found.worst]
        yield from table(("node", "left service", "hours away"), rows)
    yield from table(
        ("spares if outages", "needed nodes", "spares", "range", "of the time enough"),
        [
            (name, f"{x.needed:,}", f"{x.spares:,}", f"{x.low:,} to {x.high:,}", f"{x.reached:.4%}")
            for name, x in report.spares.items()
        ],
    )


def _checkpoints(report: FleetReport) -> Iterator[str]:
    if report.checkpoints:
        yield "<h2>How often jobs should save</h2>"
        yield '<p class="quiet">For 30 s per save and 300 s per restart.</p>'
        columns = ("GPUs", "interrupted every", "save every", "useful time", "as good within")
        rows = [
            (f"{size:,}", f"{x.mean_life_s / 3600:,.1f} h", f"{x.every_s:,.0f} s",
             percent(x.useful), f"{x.flat[0]:,.0f} to {x.flat[1]:,.0f} s")
            for size, x in report.checkpoints.items()
        ]  # fmt: skip
        yield from table(columns, rows)


def _intervals(names: Sequence[str], values: Sequence[Interval], *, title: str) -> str:
    """Draw a point and its interval per row, on a logarithmic axis."""
    ends = np.array([x for each in values for x in (each.low, each.mid, each.high)])
    axis = axis_of(ends, px=(_LEFT, _WIDTH - _RIGHT), log=True)
    bottom = 8 + _ROW * len(names)
    parts = [*x_axis(axis, [(t, f"{t:g}") for t in axis.ticks()], top=6, bottom=bottom)]
    for i, (name, each) in enumerate(zip(names, values, strict=True)):
        y = 8 + (i + 0.5) * _ROW
        low, mid, high = (float(axis.at(max(x, axis.low))) for x in (each.low, each.mid, each.high))
        kind = colour(0)
        parts += [
            text(_LEFT - 8, y + 4, name if len(name) < 36 else name[:35] + "…", anchor="end"),
            line(np.array([low, high]), np.array([y, y]), kind=f"s{kind} mark"),
            (
                f'<circle class="c{kind}" cx="{mid:.1f}" cy="{y:.1f}" r="4">'
                f"<title>{escaped(f'{name}: {interval(each)}')}</title></circle>"
            ),
            text(_WIDTH - _RIGHT + 8, y + 4, f"{each.mid:.3g}"),
        ]
    return picture(parts, width=_WIDTH, height=bottom + 24, title=title)


def _survival(found: Survival) -> str:
    ages = np.concatenate([[0.0], found.age])
    values = np.concatenate([[1.0], found.share])
    low, high = (np.concatenate([[1.0], each]) for each in (found.low, found.high))
    across = axis_of(ages, px=(60.0, _WIDTH - 20))
    least = max(0.0, float(low.min()) - 0.02)
    up = axis_of(np.array([least, 1.0]), px=(260.0, 12.0))
    up = type(up)(low=least, high=1.0, from_px=260.0, to_px=12.0)
    step = max(1, len(ages) // 1000)
    x = across.at(ages[::step])
    band = polygon(
        np.concatenate([x, x[::-1]]),
        np.concatenate([up.at(low[::step]), up.at(high[::step])[::-1]]),
        kind="band",
    )
    parts = [
        *x_axis(across, [(t, f"{t:,.0f} d") for t in across.ticks()], top=12, bottom=260),
        *y_axis(up, [(t, f"{t:.3g}") for t in up.ticks()], left=60, right=_WIDTH - 20),
        band,
        line(x, up.at(values[::step]), kind="line"),
    ]
    return picture(parts, width=_WIDTH, height=290, title="share of units without a failure")


def interval(each: Interval) -> str:
    """Return an interval as text.

    >>> interval(Interval(low=1.0, mid=2.0, high=float("inf")))
    '2 (1 to any)'
    """
    mid = _number(each.mid) if isfinite(each.mid) else "unknown"
    return f"{mid} ({_number(each.low)} to {_number(each.high)})"


def _number(value: float) -> str:
    if not isfinite(value):
        return "any"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def percent(each: Interval) -> str:
    """Return a share and its interval as text."""
    mid = f"{each.mid:.2%}" if isfinite(each.mid) else "unknown"
    return f"{mid} ({each.low:.2%} to {each.high:.2%})"


def _day(t_s: float) -> str:
    return datetime.fromtimestamp(t_s, UTC).strftime("%Y-%m-%d")


def _moment(t_s: float) -> str:
    return datetime.fromtimestamp(t_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
