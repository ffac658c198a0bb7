"""The page of a season: accuracy by week, labels, bytes, energy, cost, and where each step ran."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecology.edge import MODEL_BYTES
from ecology.facts import Facts
from ecology.results import Retraining, SeasonResult, WeekResult
from ecology.stream import NEWS_WEEK
from steward.documents import Axis, axis_of, document, escaped, table, write_document
from steward.documents.svg import line, picture, text, x_axis, y_axis

__all__ = ["SeasonReport", "page", "write_page"]

WIDTH, HEIGHT = 460, 240
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 14, 34
LABEL_PX = 13  # least distance between two names at the ends of lines
NAMES_PX = 104
STYLE = """
:root { --s0: #0b6e4f; --s1: #3465a4; --s2: #b3541e; }
@media (prefers-color-scheme: dark) { :root { --s0: #4cc79a; --s1: #7fb0ee; --s2: #f0a06a; } }
.charts { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(26rem, 1fr)); }
.charts h3 { font-size: .95rem; margin: .5rem 0 .25rem; }
svg .s0, svg .s1, svg .s2 { fill: none; stroke-width: 2.5; }
svg .s0 { stroke: var(--s0); } svg .s1 { stroke: var(--s1); stroke-dasharray: 6 3; }
svg .s2 { stroke: var(--s2); stroke-dasharray: 2 3; }
svg text.n0 { fill: var(--s0); } svg text.n1 { fill: var(--s1); } svg text.n2 { fill: var(--s2); }
svg .news { stroke: var(--quiet); stroke-dasharray: 3 3; }
.card small { font-size: .9rem; font-weight: normal; }
"""
By = Callable[[WeekResult], float]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeasonReport:
    """What the page shows: steward's season first, then its rivals'."""

    seed: int
    results: tuple[SeasonResult, ...]
    facts: Facts
    took_s: float


def write_page(report: SeasonReport, file: Path) -> None:
    """Write the page; a file that was there stays whole until the new one is."""
    write_document(page(report), file)


def page(report: SeasonReport) -> str:
    """Return the whole page."""
    parts = (
        "<h1>Animals at three cameras: edge, cloud, HPC</h1>",
        f'<p class="quiet">{escaped(_what(report))}</p>',
        *_cards(report),
        *_charts(report),
        *_comparison(report),
        *_steps(report),
        *_retrainings(report),
        *_options(report),
        *_notes(report),
    )
    return document("steward: animal ecology", parts, style=STYLE)


def _what(report: SeasonReport) -> str:
    weeks = report.results[0].weeks
    frames = sum(each.frames for each in weeks)
    return (
        f"Seed {report.seed}: {frames:,} frames in {len(weeks)} weeks, made by the example. In week"
        f" {NEWS_WEEK} a camera on new ground and a species that nobody has labelled appear."
        f" The run took {report.took_s:.0f} s on this machine."
    )


def _cards(report: SeasonReport) -> Iterator[str]:
    ours = report.results[0]
    last = ours.weeks[-1]
    cards = [
        ("F1 in the last week", f"{last.f1:.3f}", _against(report)),
        ("labels", f"{ours.labels:,}", f"{ours.labels_share:.1%} of labelling everything"),
        ("bytes saved", f"{ours.saved_share:.1%}", "against sending every frame"),
        ("animals sent", f"{ours.recall:.1%}", "recall, mean of the weeks"),
        ("energy of a frame", f"{_per_frame(ours) * 1e3:.0f} mJ", "above idle, with the radio"),
        ("trainings", f"{len(ours.retrainings)}", f"{_cents(ours.usd)} in all"),
    ]
    yield '<div class="cards">'
    for name, figure, note in cards:
        yield (
            f'<div class="card">{escaped(name)}<b>{escaped(figure)}</b>'
            f"<small>{escaped(note)}</small></div>"
        )
    yield "</div>"


def _against(report: SeasonReport) -> str:
    others = (f"{each.weeks[-1].f1:.3f} ({each.strategy})" for each in report.results[1:])
    return ", ".join(others)


def _per_frame(result: SeasonResult) -> float:
    frames = sum(each.frames for each in result.weeks)
    return sum(each.joules for each in result.weeks) / frames


def _cents(usd: float) -> str:
    return f"{usd * 100:.3f} ¢"


def _charts(report: SeasonReport) -> Iterator[str]:
    charts: list[tuple[str, By, bool]] = [
        ("Macro-F1 of the answers at the edge, by week", lambda w: w.f1, False),
        ("Labels bought so far", lambda w: w.labels, True),
        ("Megabytes sent, by week", lambda w: w.sent_bytes / 1e6, False),
        ("Energy at the edge by week, kJ", lambda w: w.joules / 1e3, False),
    ]
    yield "<h2>By week</h2>"
    yield '<div class="charts">'
    for title, by, summed in charts:
        yield f"<div><h3>{escaped(title)}</h3>"
        yield _chart(report.results, by, summed=summed, title=title)
        yield "</div>"
    yield "</div>"


def _chart(results: Sequence[SeasonResult], by: By, *, summed: bool, title: str) -> str:
    series = [np.array([by(week) for week in each.weeks], np.float64) for each in results]
    series = [np.cumsum(each) for each in series] if summed else series
    weeks = np.array([week.week for week in results[0].weeks], np.float64)
    last = max(float(weeks[-1]), float(weeks[0]) + 1e-9)
    x = Axis(low=float(weeks[0]), high=last, from_px=LEFT, to_px=WIDTH - RIGHT - NAMES_PX)
    y = _y_axis(np.concatenate(series))
    news = float(x.at(float(NEWS_WEEK)))
    ends = _spread([float(y.at(float(each[-1]))) for each in series])
    parts = [
        *y_axis(y, [(v, f"{v:,g}") for v in y.ticks(about=4)], left=LEFT, right=x.to_px),
        *x_axis(x, [(w, f"{w:.0f}") for w in weeks], top=HEIGHT - BOTTOM, bottom=HEIGHT - BOTTOM),
        f'<line class="news" x1="{news:.1f}" x2="{news:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>',
        text(x.to_px / 2 + LEFT / 2, HEIGHT - 4, "week", anchor="middle"),
        *(line(x.at(weeks), y.at(each), kind=f"s{i}") for i, each in enumerate(series)),
        *(
            text(x.to_px + 6, end + 4, each.strategy, kind=f"n{i}")
            for i, (each, end) in enumerate(zip(results, ends, strict=True))
        ),
    ]
    return picture(parts, width=WIDTH, height=HEIGHT, title=title)


def _y_axis(values: Floats) -> Axis:
    """Return an axis from 0, or around shares that are all large."""
    if values.max() <= 1.0 and values.min() >= 0.2:
        low = float(np.floor(values.min() * 10 - 1e-9) / 10)
        return Axis(low=low, high=1.0, from_px=HEIGHT - BOTTOM, to_px=TOP)
    return axis_of(values, px=(HEIGHT - BOTTOM, TOP))


def _spread(places: list[float]) -> list[float]:
    """Return places at least `LABEL_PX` apart, in the same order."""
    found = list(places)
    order = sorted(range(len(found)), key=lambda i: found[i])
    for above, below in pairwise(order):
        found[below] = max(found[below], found[above] + LABEL_PX)
    over = max(0.0, max(found) - (HEIGHT - BOTTOM))
    return [each - over for each in found]


def _comparison(report: SeasonReport) -> Iterator[str]:
    per_label_s = report.facts.seconds_per_label
    columns = (
        *("strategy", "F1, last week", "F1, mean of weeks", "accuracy, last week", "labels"),
        *(
            "expert's hours",
            "bytes saved",
            "animals sent",
            "mJ a frame",
            "trainings",
            "money (US cents)",
        ),
        *("CO2", "frames that waited"),
    )
    rows = [
        (
            each.strategy, f"{each.weeks[-1].f1:.3f}",
            f"{sum(week.f1 for week in each.weeks) / len(each.weeks):.3f}",
            f"{each.weeks[-1].accuracy:.1%}", f"{each.labels:,}",
            f"{each.labels * per_label_s / 3600:.1f}", f"{each.saved_share:.1%}",
            f"{each.recall:.1%}", f"{_per_frame(each) * 1e3:.0f}", len(each.retrainings),
            _cents(each.usd), f"{each.grams_co2 * 1e3:.1f} mg",
            f"{sum(week.waited for week in each.weeks):,}",
        )
        for each in report.results
    ]  # fmt: skip
    yield "<h2>Against both rivals</h2>"
    yield from table(columns, rows)


def _steps(report: SeasonReport) -> Iterator[str]:
    ours = report.results[0]
    sent = sum(each.sent_bytes for each in ours.weeks)
    frames = sum(each.frames for each in ours.weeks)
    trained = ", ".join(sorted({_place(each) for each in ours.retrainings})) or "nowhere"
    deployed = sum(each.deployed for each in ours.retrainings)
    down = f"{deployed * MODEL_BYTES / 1e6:.1f}"
    attempts = sum(each.attempts for each in ours.retrainings)
    rows = [
        ("detect and classify", "edge, the boards of the cameras",
         f"{frames:,} frames, {_per_frame(ours) * 1e3:.0f} mJ each"),
        ("send crops", "edge to cloud", f"{sent / 1e6:.1f} MB"),
        ("watch for drift, queue for labels", "cloud",
         "; ".join(f"day {day}: {why}" for day, why in ours.alarms) or "no alarms"),
        ("label", "the expert, simulated", f"{ours.labels - ours.start_labels:,} crops"),
        ("retrain", trained, f"{len(ours.retrainings)} trainings in {attempts} attempts"),
        ("deploy", "edge",
         f"{deployed} of {len(ours.retrainings)}, where held-out F1 rose; {down} MB to each board"),
    ]  # fmt: skip
    yield "<h2>Where each step ran</h2>"
    yield from table(("step", "where", "what"), rows)


def _place(retraining: Retraining) -> str:
    return retraining.plan.chosen.place.name if retraining.plan.chosen else "-"


def _retrainings(report: SeasonReport) -> Iterator[str]:
    columns = (
        *("day", "why", "crops", "placed", "job", "predicted", "took", "off", "on the clock"),
        *("memory", "held-out F1", "deployed"),
    )
    rows = [
        (
            each.day, each.why, f"{each.crops:,}", _place(each), _job(each),
            f"{each.predicted_s:.1f} s", f"{each.actual_s:.1f} s", f"{each.error_share:.0%}",
            f"{each.predicted_wall_s:.1f} → {each.wall_s:.1f} s",
            _memory(each),
            f"{each.f1_before:.3f} → {each.f1_after:.3f}", "yes" if each.deployed else "no",
        )
        for each in report.results[0].retrainings
    ]  # fmt: skip
    yield "<h2>Retrainings of steward: predicted and actual</h2>"
    yield from table(columns, rows) if rows else ("<p>None.</p>",)
    yield (
        '<p class="quiet">Seconds of a core; the first training sets the level for the next. '
        "Where a training was pre-empted, its second beginning is left out.</p>"
    )


def _job(retraining: Retraining) -> str:
    if not retraining.job:
        return "-"
    if retraining.attempts == 1:
        return retraining.job
    equal = {True: ", bit-equal", False: ", NOT bit-equal", None: ""}[retraining.bit_equal]
    return f"{retraining.job}: pre-empted, {retraining.attempts} attempts{equal}"


def _memory(retraining: Retraining) -> str:
    if not retraining.peak_bytes:
        return "-"
    return f"{retraining.predicted_bytes / 1e6:.0f} → {retraining.peak_bytes / 1e6:.0f} MB"


def _options(report: SeasonReport) -> Iterator[str]:
    columns = ("day", "place", "runs", "done after (median, 90 %)", "money", "energy", "CO2", "why")
    rows = [
        (
            each.day, option.place.name, f"{option.run_s:.0f} s",
            f"{option.finish_s / 60:.0f}, {option.late_finish_s / 60:.0f} min",
            _cents(option.usd), f"{option.joules:.0f} J", f"{option.grams_co2 * 1e3:.1f} mg",
            option.verdict,
        )
        for each in report.results[0].retrainings
        for option in each.plan.options
    ]  # fmt: skip
    yield "<h2>Places that were weighed</h2>"
    yield from table(columns, rows) if rows else ("<p>None.</p>",)


def _notes(report: SeasonReport) -> Iterator[str]:
    yield "<h2>What is real here, and what is not</h2><ul>"
    board = report.facts.device.name
    jobs = any(each.job for each in report.results[0].retrainings)
    ran = "steward's as jobs, pre-empted once and restarted" if jobs else "all in one process here"
    notes = (
        f"""The images, the animals and the expert are simulated. The network, its trainings and
        their times are real: {ran}.""",
        """All three places are this machine: prices, waits, slowness, power and carbon come from
        examples/ecology/field.yaml, which names the source of each, or says that it is assumed.""",
        f"""Bytes are deflated images with a header of 64 bytes, up from the boards; models that go
        down to them are apart. Energy at the edge is counted from operations and bytes for a
        {board}.""",
        """F1 and accuracy are of the answers that the edge gave before the frame was labelled.""",
        """A new model is compared with the deployed one on held-out labels; these judge all later
        models, too, so that their F1 is a yardstick for choosing and no result.""",
    )
    yield from (f"<li>{escaped(each)}</li>" for each in notes)
    yield "</ul>"
