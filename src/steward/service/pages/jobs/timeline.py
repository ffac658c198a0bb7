"""A job's life as a drawing and as a list. Pure: the same record, the same markup.

Positions are percentages, so that it is as wide as its place, and text and marks keep their shape.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Any

from steward.service.pages.jobs.state_words import state_word
from steward.service.pages.markup import Markup, join, tag
from steward.service.pages.telemetry.figures import figure
from steward.service.pages.wording import clock, duration, plural

__all__ = ["event_list", "timeline"]

Record = dict[str, Any]
KINDS = {
    "submitted": "held",
    "held": "held",
    "waiting": "queue",
    "preempted": "queue",
    "suspended": "away",
    "lent": "away",
    "lost": "lost",
    "starting": "start",
    "running": "run",
    "resumed": "run",
    "migrated": "run",
    "resized": "run",
    "saving": "save",
}
LEGEND = {
    "queue": "waits",
    "held": "held back",
    "start": "starts",
    "run": "runs",
    "save": "saves",
    "away": "its GPUs are lent",
    "lost": "lost",
}
AT_ONCE_S = 1.0  # a job that waits for no other is submitted and waits at once
LEAST = 0.35  # percent of the width that a short state has at least
LABELLED = 9.0  # percent that an attempt needs for its name
BAR_Y, BAR_HEIGHT, LOAN_Y, LOAN_HEIGHT = 20, 26, 66, 12
MOST_EVENTS = 60
MOST_MARKS = 200


def timeline(record: Record, now_s: float, decisions: Collection[str] = ()) -> Markup:
    """Draw states over time with attempts, checkpoints, decisions and loans.

    `decisions` are those that have a page.
    """
    spans = _spans(record, now_s)
    if not spans:
        return Markup("")
    from_s, to_s = spans[0][1], max(spans[-1][2], spans[0][1] + 1e-3)
    scale = _Scale(from_s, to_s)
    loans = record.get("loans") or ()
    height = (LOAN_Y + LOAN_HEIGHT + 4) if loans else 62
    drawing = tag(
        "svg",
        *(_bar(scale, *each) for each in spans if each[0] in KINDS),
        *_attempts(scale, record["attempts"], to_s),
        *(_checkpoint(scale, each) for each in record["checkpoints"][-MOST_MARKS:]),
        *_decisions(scale, record["events"], decisions),
        *(_loan(scale, each, to_s) for each in loans[-MOST_MARKS:]),
        class_="st-life",
        height=height,
        role="img",
        aria_label=_said(record, spans),
    )
    return join(drawing, _axis(from_s, to_s), _key(record, spans, decisions))


class _Scale:
    """Where a moment is, in percent of the width."""

    def __init__(self, from_s: float, to_s: float) -> None:
        self._from_s, self._span_s = from_s, to_s - from_s

    def at(self, t_s: float) -> float:
        return min(max(100 * (t_s - self._from_s) / self._span_s, 0.0), 100.0)

    def box(self, since_s: float, until_s: float) -> dict[str, str]:
        left, right = self.at(since_s), self.at(until_s)
        width = max(right - left, LEAST)
        return {"x": f"{min(left, 100 - width):.2f}%", "width": f"{width:.2f}%"}


def _spans(record: Record, now_s: float) -> list[tuple[str, float, float]]:
    """Return the states that a job was in, and from when to when."""
    events = [(each["state"], each["t_s"]) for each in record["events"]]
    last_s = max(events[-1][1], now_s)
    ends = [] if record["ended"] else [("", last_s)]
    return [
        (state, t_s, next_s)
        for (state, t_s), (_, next_s) in pairwise([*events, *ends])
        if state != "submitted" or next_s - t_s >= AT_ONCE_S
    ]


def _bar(scale: _Scale, state: str, since_s: float, until_s: float) -> Markup:
    said = f"{state_word(state)} for {duration(until_s - since_s)}, from {clock(since_s)} UTC"
    return tag(
        "rect",
        tag("title", said),
        class_=f"st-life-{KINDS[state]}",
        y=BAR_Y,
        height=BAR_HEIGHT,
        **scale.box(since_s, until_s),
    )


def _attempts(scale: _Scale, attempts: list[Record], to_s: float) -> Iterator[Markup]:
    for each in attempts:
        left = scale.at(each["began_s"])
        yield tag("line", x1=f"{left:.2f}%", x2=f"{left:.2f}%", y1=BAR_Y - 6, y2=BAR_Y + BAR_HEIGHT)
        right = scale.at(to_s if each["ended_s"] is None else each["ended_s"])
        if right - left >= LABELLED:
            yield tag("text", f"attempt {each['number']}", x=f"{left + 0.4:.2f}%", y=BAR_Y - 6)


def _mark(scale: _Scale, t_s: float, y: int, *shape: Markup) -> Markup:
    return tag("svg", *shape, x=f"{scale.at(t_s):.2f}%", y=y, overflow="visible")


def _checkpoint(scale: _Scale, saved: Record) -> Markup:
    diamond = tag("path", tag("title", saved_text(saved)), d="M0 -7 6 0 0 7 -6 0Z")
    return _mark(scale, saved["t_s"], BAR_Y + BAR_HEIGHT // 2, diamond)


def saved_text(saved: Record) -> str:
    """Write what was saved, how large it is and how long it took."""
    size = figure("gpu.memory.used_bytes", saved["size_bytes"]) if saved["size_bytes"] else ""
    took = f" in {saved['seconds']:.1f} s" if saved["seconds"] else ""
    return f"saved at step {saved['step']:,}{f', {size}' if size else ''}{took}"


def _decisions(scale: _Scale, events: list[Record], decisions: Collection[str]) -> Iterator[Markup]:
    first = {each["decision"]: each for each in reversed(events) if each["decision"] in decisions}
    for each in list(first.values())[:MOST_MARKS]:  # the newest
        said = f"decision {each['decision']}: {state_word(each['state'])}"
        dot = tag("circle", tag("title", said), r=5)
        link = tag("a", dot, href=f"/decisions/{each['decision']}", aria_label=said)
        yield _mark(scale, each["t_s"], BAR_Y + BAR_HEIGHT + 9, link)


def _loan(scale: _Scale, loan: Record, to_s: float) -> Markup:
    until_s = to_s if loan["until_s"] is None else loan["until_s"]
    what = "lent to" if loan["role"] == "owner" else "borrowed from"
    said = f"{what} job {loan['other']} for {duration(until_s - loan['since_s'])}"
    return tag(
        "rect",
        tag("title", said),
        class_="st-life-lent" if loan["role"] == "owner" else "st-life-borrowed",
        y=LOAN_Y,
        height=LOAN_HEIGHT,
        **scale.box(loan["since_s"], until_s),
    )


def _axis(from_s: float, to_s: float) -> Markup:
    long = to_s - from_s
    marks = [tag("span", clock(from_s)), tag("span", duration(long)), tag("span", clock(to_s))]
    return tag("div", *marks, class_="st-life-axis st-quiet st-number", aria_hidden="true")


def _key(
    record: Record, spans: list[tuple[str, float, float]], decisions: Collection[str]
) -> Markup:
    kinds = {KINDS.get(state) for state, _, _ in spans}
    parts = [
        tag("span", tag("i", class_=f"st-key st-life-{kind}"), word)
        for kind, word in LEGEND.items()
        if kind in kinds
    ]
    roles = {each["role"] for each in record.get("loans") or ()}
    marks = [
        ("◆", "checkpoint", bool(record["checkpoints"])),
        ("●", "decision", any(each["decision"] in decisions for each in record["events"])),
    ]
    parts += [tag("span", tag("b", sign), word) for sign, word, there in marks if there]
    for role, word, name in (("owner", "lent", "lent"), ("borrower", "borrowed", "borrowed")):
        if role in roles:
            parts.append(tag("span", tag("i", class_=f"st-key st-life-{name}"), word))
    return tag("div", *parts, class_="st-legend")


def _said(record: Record, spans: list[tuple[str, float, float]]) -> str:
    parts = [f"{state_word(state)} {duration(end - begin)}" for state, begin, end in spans]
    shown = parts if len(parts) <= 8 else [*parts[:7], f"{len(parts) - 7} more states"]
    saved = plural(len(record["checkpoints"]), "checkpoint")
    return f"Life of the job: {', '.join(shown)}; {saved}"


def event_list(record: Record, decisions: Collection[str] = ()) -> Markup:
    """List what happened to a job, newest first."""
    happened = record["events"]
    lines = [(x["t_s"], at, _event(x, decisions)) for at, x in enumerate(happened)]
    lines += [(x["t_s"], len(happened), _saved(x)) for x in record["checkpoints"]]
    lines.sort(key=lambda each: each[:2], reverse=True)
    earlier = len(lines) - MOST_EVENTS
    shown = [line for _, _, line in lines[:MOST_EVENTS]]
    if earlier > 0:
        shown.append(tag("li", f"and {earlier:,} earlier", class_="st-step st-quiet"))
    return tag("ol", *shown, class_="st-timeline")


def _event(event: Record, decisions: Collection[str]) -> Markup:
    kind = {"finished": "done", "failed": "failed", "lost": "failed"}.get(event["state"], "")
    link = (
        tag("a", "Decision", href=f"/decisions/{event['decision']}")
        if event["decision"] in decisions
        else None
    )
    word = "submitted" if event["state"] == "submitted" else state_word(event["state"])
    return tag(
        "li",
        tag("time", f"{clock(event['t_s'])} UTC"),
        tag("b", f"{word[:1].upper()}{word[1:]}"),
        f": {event['why']} ",
        link,
        class_=f"st-step st-step-{kind}" if kind else "st-step",
    )


def _saved(saved: Record) -> Markup:
    said = saved_text(saved)
    return tag(
        "li",
        tag("time", f"{clock(saved['t_s'])} UTC"),
        tag("b", f"{said[:1].upper()}{said[1:]}"),
        tag("span", f" {saved['path']}", class_="st-quiet"),
        class_="st-step st-step-measured",
    )
