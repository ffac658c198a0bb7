"""How a comparison looks while it runs and when it is over. Pure: the same run, the same markup."""

from __future__ import annotations

from typing import Any

from steward.errors import StewardError
from steward.service.lab import LabRun, LabState
from steward.service.pages.drawings import empty
from steward.service.pages.markup import Markup, join, tag
from steward.service.pages.wording import about, clock, plural

__all__ = ["NOTHING", "address", "headline", "outcome", "past_runs", "progress"]

WORDS = {
    LabState.RUNNING: ("runs", "waiting"),
    LabState.DONE: ("done", "done"),
    LabState.FAILED: ("failed", "failed"),
    LabState.CANCELLED: ("cancelled", "advised"),
}
SHOWN_REASONS = 6
NOTHING = empty(
    "Nothing compared yet",
    "What another policy would have done with your queue stands here, with how sure that is.",
)
COMPILING = (
    "The first replay after an installation or update compiles the engines, which takes about "
    "a minute."
)


def address(run: LabRun, part: str = "") -> str:
    """Return where the API has a comparison, or a part of it."""
    return f"/api/v1/lab/comparisons/{run.id}" + (f"/{part}" if part else "")


def headline(run: LabRun) -> Markup:
    """Write what is compared on which trace, and its state."""
    wanted = run.wanted
    word, kind = WORDS[run.state]
    gpus = _gpus(run)
    parts = (gpus, f"placement {wanted.placement}", f"seed {wanted.seed}", f"asked by {run.by}")
    return tag(
        "div",
        tag(
            "div",
            tag("span", word, class_=f"st-chip st-chip-{kind}"),
            tag("b", run.trace),
            tag("span", "synthetic", class_="st-chip st-chip-waste") if _synthetic(run) else None,
            tag("span", ", ".join(wanted.policies)),
            class_="st-line",
        ),
        tag("p", *(tag("span", part) for part in parts if part), class_="st-quiet st-facts"),
    )


def progress(run: LabRun) -> Markup:
    """Show how far it is and how long it takes yet."""
    percent = int(100 * run.share)
    left = f"about {about(run.left_s)} left" if run.left_s is not None else ""
    bar = tag(
        "div",
        tag("i", class_="st-measured", style=f"width: {percent}%"),
        class_="st-bar st-thin",
        role="progressbar",
        aria_label="Progress",
        aria_valuenow=percent,
        aria_valuemin=0,
        aria_valuemax=100,
    )
    said = tag("span", f"{run.doing[:1].upper()}{run.doing[1:]}")
    right = tag("span", left or f"{about(run.took_s)} so far", class_="st-quiet st-number")
    early = run.doing.startswith("replaying") and not run.share
    note = tag("p", COMPILING, class_="st-quiet") if early else None
    return join(tag("div", said, right, class_="st-split"), bar, note)


def outcome(run: LabRun) -> Markup:
    """Show what came out: the report itself, or in words why there is none."""
    if run.state is LabState.FAILED and run.fault is not None:
        return refusal(run.fault)
    if run.state is LabState.CANCELLED:
        return empty("Cancelled", "Nothing was kept of it.")
    if run.record is None:
        return Markup("")
    links = tag(
        "p",
        tag("a", "Open the report", href=address(run, "report"), target="_blank"),
        tag("a", "Download report.html", href=address(run, "report"), download="report.html"),
        tag("a", "Download results.json", href=address(run, "results"), download="results.json"),
        class_="st-line st-links",
    )
    report = tag(
        "iframe",
        src=address(run, "report"),
        title=f"Report of {run.trace}",
        class_="st-report",
    )
    return join(links, _left_out(run.record), report)


def refusal(fault: StewardError) -> Markup:
    """Write what is wrong and what to do about it."""
    hint = tag("p", fault.hint) if fault.hint else None
    return tag("div", tag("b", str(fault)), hint, class_="st-notice", role="alert")


def past_runs(runs: tuple[LabRun, ...], shown: str) -> Markup:
    """List what is remembered; the one that is shown is marked."""
    return tag("div", *(_past(run, here=run.id == shown) for run in runs), class_="st-list")


def _past(run: LabRun, *, here: bool) -> Markup:
    word, kind = WORDS[run.state]
    return tag(
        "a",
        tag("span", word, class_=f"st-chip st-chip-{kind}"),
        tag("span", tag("b", run.trace), f": {', '.join(run.wanted.policies)}"),
        tag("span", f"{clock(run.t_s)} UTC", class_="st-quiet st-number"),
        href=f"/lab?run={run.id}",
        class_="st-news",
        aria_current="true" if here else None,
    )


def _left_out(record: dict[str, Any]) -> Markup | None:
    rows = record["trace"]["left_out"]
    if not rows:
        return None
    lines = [
        tag("li", f"{_count(row)} {'changed' if row['kept'] else 'left out'}: {row['reason']}")
        for row in rows[:SHOWN_REASONS]
    ]
    more = len(rows) - SHOWN_REASONS
    if more > 0:
        lines.append(tag("li", f"and {plural(more, 'reason')} more, in the report"))
    return tag("ul", *lines, class_="st-patterns st-left-out")


def _count(row: dict[str, Any]) -> str:
    return plural(row["rows"], "row") if row["rows"] else "All rows"


def _gpus(run: LabRun) -> str:
    if run.record is not None:
        cluster = run.record["cluster"]
        return f"{plural(cluster['gpus'], 'GPU')} in {plural(cluster['nodes'], 'node')}"
    return plural(run.wanted.gpus, "GPU") if run.wanted.gpus else "GPUs by the trace"


def _synthetic(run: LabRun) -> bool:
    return run.record is not None and bool(run.record["trace"]["synthetic"])
