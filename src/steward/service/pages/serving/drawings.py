"""Parts of the page as HTML. What a gateway sends is text and stays text; unknown is shown so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from steward.model.serving.gateway_snapshot import (
    BatchFigures,
    ClassFigures,
    GatewaySnapshot,
    InstanceFigures,
    ServingEvent,
)
from steward.service.pages.drawings import empty, moment, tile
from steward.service.pages.markup import Markup, join, tag
from steward.service.pages.wording import amount, duration, plural, share
from steward.service.serving_state import Gateway

__all__ = [
    "batch_line",
    "event_list",
    "gateway_notice",
    "how_to_start",
    "instance_table",
    "queue_bars",
    "serving_figures",
]

SHOWN_EVENTS = 20
OVER = 1.25  # a bar shows waits up to so many times the deadline
STALE_S = 15.0
STATES = {
    "serving": "st-chip-active",
    "starting": "st-chip-waiting",
    "draining": "st-chip-waiting",
    "asleep": "st-chip-waiting",
    "swapping": "st-chip-waiting",
    "down": "st-chip-failed",
}


def how_to_start() -> Markup:
    """Explain how the page gets something to show."""
    commands = (
        "steward serve gateway --upstream http://127.0.0.1:8000 --port 8788\n"
        "\n"
        "# in steward.toml, for this page:\n"
        "[serving]\n"
        'gateway = "http://127.0.0.1:8788"'
    )
    return tag(
        "div",
        tag("p", "A gateway holds requests to model servers and sends them by their deadlines. "),
        tag("p", "Start one in front of a server, and name it in the configuration:"),
        tag("pre", commands, class_="st-pre st-above"),
        class_="st-start",
    )


def gateway_notice(gateway: Gateway, now_s: float) -> Markup:
    """Show that a gateway does not answer, or that part of its answer could not be read."""
    if gateway.fault:
        since = (
            "It has not answered yet."
            if gateway.answered_s is None
            else f"What is shown is {duration(now_s - gateway.answered_s)} old."
        )
        return _notice(f"{gateway.url}: {gateway.fault}", since)
    if gateway.snapshot is not None and gateway.snapshot.left_out:
        rows = plural(gateway.snapshot.left_out, "row")
        return _notice(f"{gateway.url}: {rows} of its answer could not be read", "")
    return Markup("")


def _notice(problem: str, beside: str) -> Markup:
    return tag("div", tag("b", problem), tag("p", beside) if beside else None, class_="st-notice")


# -- figures -----------------------------------------------------------------------------------


def serving_figures(shown: GatewaySnapshot) -> Markup:
    """Show the main figures of a gateway."""
    worst = min(
        (each for each in shown.classes if each.attainment is not None),
        key=lambda each: each.attainment or 0.0,
        default=None,
    )
    oldest = [each.oldest_wait_s for each in shown.classes if each.oldest_wait_s is not None]
    estimator = shown.estimator
    serving = sum(each.state == "serving" for each in shown.instances)
    return join(
        tile(
            "Promises kept",
            share(None if worst is None else worst.attainment),
            f"worst class: {worst.name}" if worst else "nothing has ended yet",
        ),
        tile(
            "Waiting",
            count_of(each.queued for each in shown.classes),
            f"the oldest for {duration(max(oldest))}" if oldest else "how long is unknown",
        ),
        tile(
            "In flight",
            count_of(each.in_flight for each in shown.classes),
            f"of {count_of(each.limit for each in shown.instances)} that instances may have",
        ),
        tile(
            "Instances",
            f"{serving:,}",
            f"serving, of {len(shown.instances):,}",
            "" if serving or not shown.instances else "bad",
        ),
        tile(
            "Tokens per second",
            count_of(each.tokens_per_s for each in shown.instances),
            "of all instances",
        ),
        tile(
            "Error of predicted waits",
            share(estimator.median_error),
            f"median of {count_of([estimator.requests])} requests; {estimator.name or 'unknown'}",
        ),
        tile("Waits within their bound", share(estimator.coverage_90), "90\u202f% is aimed at"),
        tile("Batches open", count_of([shown.batches.open]), batch_line(shown.batches)),
    )


def batch_line(batches: BatchFigures) -> str:
    """Count items of batches in words."""
    parts = (("wait", batches.waiting), ("done", batches.done), ("failed", batches.failed))
    return ", ".join(f"{count_of([value])} {word}" for word, value in parts)


def count_of(values: Iterable[float | None]) -> str:
    """Add up what is known; "unknown" if nothing is.

    >>> count_of([1.0, None, 2.0]), count_of([None])
    ('3', 'unknown')
    """
    known = [each for each in values if each is not None]
    return f"{round(sum(known)):,}" if known else "unknown"


# -- queues ------------------------------------------------------------------------------------


def queue_bars(classes: Sequence[ClassFigures]) -> Markup:
    """Draw what waits in each class against its deadline."""
    if not classes:
        return empty("No classes", "The gateway has not named its deadline classes.")
    return join(*map(_queue_bar, classes))


def _queue_bar(each: ClassFigures) -> Markup:
    counts = f"{count_of([each.queued])} wait, {count_of([each.in_flight])} in flight"
    deadline = "no deadline" if each.deadline_s is None else f"{_seconds(each.deadline_s)} deadline"
    figures = tag("div", f"{counts} · {deadline}", class_="st-quiet st-number")
    head = tag("div", tag("b", each.name), figures, class_="st-split")
    said = (
        f"the oldest waits {_seconds(each.oldest_wait_s)}; a new one "
        f"{_seconds(each.expected_wait_s)}, nine of ten at most {_seconds(each.bound_wait_s)}"
    )
    kept = (
        "nothing has ended yet"
        if each.attainment is None
        else f"{share(each.attainment)} of {count_of([each.met, each.missed])} kept"
    )
    foot = tag("div", said, " · ", kept, class_="st-quiet st-number st-queue-said")
    return tag("div", head, _bar(each, said), foot, class_="st-queue")


def _bar(each: ClassFigures, said: str) -> Markup | None:
    if not each.deadline_s:
        return None
    limit = each.deadline_s

    def at(seconds: float | None) -> str | None:
        return None if seconds is None else f"{100 * min(1.0, seconds / limit / OVER):.2f}%"

    late = (each.oldest_wait_s or 0.0) > limit
    risky = (each.bound_wait_s or 0.0) > limit
    oldest, expected, bound = (
        at(each.oldest_wait_s),
        at(each.expected_wait_s),
        at(each.bound_wait_s),
    )
    return tag(
        "div",
        tag("i", class_="st-queue-late" if late else "st-queue-oldest", style=f"width:{oldest}")
        if oldest
        else None,
        tag("i", class_="st-queue-expected", style=f"left:{expected}") if expected else None,
        tag(
            "i",
            class_="st-queue-bound st-is-over" if risky else "st-queue-bound",
            style=f"left:{bound}",
        )
        if bound
        else None,
        tag("i", class_="st-queue-deadline", style=f"left:{100 / OVER:.2f}%"),
        class_="st-queue-bar",
        role="img",
        aria_label=f"{each.name}: {said}, deadline {_seconds(limit)}",
    )


def _seconds(value_s: float | None) -> str:
    """Write a wait: below a minute to a tenth of a second."""
    if value_s is None:
        return "unknown"
    return f"{value_s:.1f} s" if value_s < 60 else duration(value_s)


# -- instances and events ----------------------------------------------------------------------


def instance_table(instances: Sequence[InstanceFigures]) -> Markup:
    """List the instances with their limits and state."""
    if not instances:
        return empty("No instances", "The gateway knows no model server yet.")
    heads = ("Instance", "State", "In flight", "Waiting", "Tokens/s", "KV cache", "Errors")
    head = tag("tr", join(*(tag("th", text, scope="col") for text in heads)))
    rows = join(*map(_instance_row, instances))
    return tag("table", tag("thead", head), tag("tbody", rows), class_="st-table st-instances")


def _instance_row(each: InstanceFigures) -> Markup:
    about = " · ".join(part for part in (each.model, each.type) if part) or "model unknown"
    if each.role and each.role != "any":
        about += f" · for {each.role}"
    running, limit = each.running, each.limit
    held = None if running is None else running + (each.waiting or 0.0)
    part = held / limit if held is not None and limit else None
    return tag(
        "tr",
        tag("td", tag("b", each.name), tag("span", about, class_="st-quiet")),
        tag("td", _state(each)),
        tag("td", _metered(part, f"{count_of([held])} of {count_of([limit])}")),
        tag("td", count_of([each.waiting]), class_="st-number"),
        tag("td", _rate(each.tokens_per_s), class_="st-number"),
        tag("td", _metered(each.kv_share, share(each.kv_share))),
        tag("td", count_of([each.errors]), class_="st-number st-is-bad" if each.errors else None),
    )


def _state(each: InstanceFigures) -> Markup:
    word = "draining" if each.draining else each.state or "unknown"
    chip = tag("span", word, class_=f"st-chip {STATES.get(word, '')}")
    if each.breaker in ("", "closed"):
        return chip
    return join(chip, tag("span", f"breaker {each.breaker}", class_="st-chip st-chip-failed"))


def _metered(part: float | None, text: str) -> Markup:
    if part is None:
        return tag("span", text, class_="st-number")
    width = tag("i", style=f"width:{100 * min(1.0, part):.1f}%")
    meter = tag("span", width, class_="st-meter", aria_hidden="true")
    return tag("span", meter, tag("span", text, class_="st-number"), class_="st-metered")


def _rate(value: float | None) -> str:
    return "unknown" if value is None else amount(value)


def event_list(events: Sequence[ServingEvent], now_s: float) -> Markup:
    """List the newest events, newest first."""
    if not events:
        return empty("No events", "Starts, drains, failures and changed limits are listed here.")
    newest = events[: -SHOWN_EVENTS - 1 : -1]
    return join(*(_event(each, now_s) for each in newest))


def _event(each: ServingEvent, now_s: float) -> Markup:
    what = " ".join(part for part in (each.instance, each.what) if part)
    return tag(
        "div",
        tag("span", tag("b", what), class_="st-event-what"),
        tag("span", each.why, class_="st-quiet"),
        tag("span", moment(each.t_s, now_s), class_="st-quiet st-number"),
        class_="st-event",
    )
