"""Parts of the pages of jobs as HTML. Pure: the same record, the same markup."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

from steward.errors import StewardError
from steward.model.outcome import HOUR_S
from steward.service.pages.drawings import empty, moment, tile
from steward.service.pages.jobs.state_words import spent_s, state_chip
from steward.service.pages.markup import Markup, join, tag
from steward.service.pages.wording import about, amount, duration, plural

__all__ = [
    "HEADS",
    "cells",
    "cost_tiles",
    "headline",
    "loan_table",
    "log_text",
    "reason",
    "refusal",
    "starts_text",
    "task_table",
    "what_runs",
    "why_waits",
]

Record = dict[str, Any]
HEADS = ("Job", "User", "State", "Needs", "Waited", "Ran", "Starts")
NONE = "\N{EN DASH}"
MOST_AHEAD = 10
FAR_S = 30 * 86400.0
MOST_TASKS = 200
SCRIPT_LINES = 400
WAYS = {
    "beside": "beside its owner",
    "shared": "beside its owner, which works on",
    "suspended": "owner suspended",
    "saved": "owner saved and stopped",
}
# Colours and movements of a terminal, and what overwrote its line.
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|[\x00-\x08\x0b\x0c\x0e-\x1a\x7f]")
OVERWRITTEN = re.compile(r"[^\n]*\r(?=[^\r\n])")


# -- the list --------------------------------------------------------------------------------------


def cells(record: Record, now_s: float) -> tuple[Markup, ...]:
    """Return the cells of a line, all but the first, which is a link."""
    waited_s, ran_s = spent_s(record["spans"], now_s)
    tenant = record["tenant"]
    other = tag("span", tenant, class_="st-quiet") if tenant != record["user"] else None
    return (
        join(record["user"], other),
        join(state_chip(record["state"]), tag("span", record["why"], class_="st-quiet st-why")),
        join(_asks(record)),
        join(about(waited_s)),
        join(about(ran_s) if ran_s else NONE),
        _starts_cell(record.get("eta"), now_s),
    )


def _starts_cell(eta: Record | None, now_s: float) -> Markup:
    likely, _, between = starts_text(eta, now_s).partition(" (")
    return join(likely, tag("span", between.rstrip(")"), class_="st-quiet") if between else None)


def _asks(record: Record) -> str:
    return plural(record["asks_for"], "slot" if record["on_slots"] else "GPU")


def starts_text(eta: Record | None, now_s: float) -> str:
    """Write when a job starts: likely, earliest and latest; empty where nothing is known.

    >>> starts_text({"low_s": 60, "mid_s": 120, "high_s": None, "beyond": False}, 0.0)
    'in 2 min (from 1 min, no latest)'
    """
    if eta is None or eta["mid_s"] is None:
        return NONE if eta is None else "unknown"
    low_s, mid_s, high_s = (eta[each] for each in ("low_s", "mid_s", "high_s"))
    if eta["beyond"]:
        return f"in more than {_ahead(mid_s, now_s)}"
    first = _ahead(mid_s if low_s is None else low_s, now_s)
    last = "no latest" if high_s is None else f"to {_ahead(high_s, now_s)}"
    return f"in {_ahead(mid_s, now_s)} (from {first}, {last})"


def _ahead(t_s: float, now_s: float) -> str:
    """Write how long until then; beyond a month no estimate means anything."""
    return "over 30 d" if t_s - now_s > FAR_S else about(max(t_s - now_s, 0.0))


def task_table(tasks: Sequence[Record], now_s: float) -> Markup:
    """List the tasks of an array."""
    head = tag("tr", *(tag("th", text, scope="col") for text in HEADS[:-1]))
    rows = [
        tag(
            "tr",
            tag("td", tag("a", tag("b", each["id"]), href=f"/jobs/{each['id']}")),
            *(tag("td", cell) for cell in cells(each, now_s)[:-1]),
        )
        for each in tasks[:MOST_TASKS]
    ]
    more = len(tasks) - MOST_TASKS
    rest = tag("p", f"and {plural(more, 'more task')}", class_="st-quiet") if more > 0 else None
    table = tag("table", tag("thead", head), tag("tbody", *rows), class_="st-table st-jobs")
    return join(tag("div", table, class_="st-scroll"), rest)


# -- one job ---------------------------------------------------------------------------------------


def headline(record: Record, now_s: float) -> Markup:
    """Show what a job is called, its state, and the facts that everybody may know."""
    waited_s, ran_s = spent_s(record["spans"], now_s)
    facts = [
        f"of {record['user']}",
        f"tenant {record['tenant']}" if record["tenant"] != record["user"] else "",
        f"asks for {_asks(record)}",
        f"on {', '.join(record['gpus'])}" if record["gpus"] else "",
        f"priority {record['priority']}" if record["priority"] else "",
        f"waited {about(waited_s)}",
        f"ran {about(ran_s)}" if ran_s else "",
        f"exit status {record['exit_code']}" if record["exit_code"] is not None else "",
    ]
    submitted = tag("span", "submitted ", moment(record["submit_s"], now_s))
    return join(
        tag("h1", record["name"], class_="st-title"),
        tag(
            "div",
            tag("span", f"job {record['id']}", class_="st-quiet"),
            state_chip(record["state"]),
            class_="st-line",
        ),
        tag(
            "p",
            *(tag("span", each) for each in facts if each),
            submitted,
            class_="st-quiet st-facts st-number",
        ),
    )


def reason(record: Record, now_s: float) -> Markup:
    """Write why a job is in its state, and what could not be done about it."""
    fault = record.get("fault")
    return join(
        tag("p", _since(record, now_s), class_="st-said"),
        tag(
            "div",
            tag("b", fault["problem"]),
            tag("p", fault["hint"]) if fault["hint"] else None,
            class_="st-notice",
            role="status",
        )
        if fault
        else None,
    )


def _since(record: Record, now_s: float) -> Markup:
    why = f"{record['why'][:1].upper()}{record['why'][1:]}"
    if record["ended"]:
        return join(f"{why}, ", moment(record["since_s"], now_s), ".")
    return join(f"{why}, for {about(max(now_s - record['since_s'], 0.0))} now.")


def why_waits(found: Record) -> Markup:
    """Write who is ahead of a job, which limit holds it, when it starts and what would help."""
    now_s = found.get("now_s", 0.0)
    changes = [each["text"] for each in found.get("changes", ())]
    eta = found.get("eta")
    starts = _starts(eta, now_s) if eta else None
    return join(
        tag("p", _sentence(found["summary"])),
        tag("ul", *(tag("li", each) for each in found["limits"]), class_="st-patterns")
        if found["limits"]
        else None,
        tag("p", tag("b", starts), class_="st-said") if starts else None,
        _jobs("On what it could use", found.get("holders", ())),
        _jobs("Starts before it", found.get("ahead", ())),
        join(
            tag("h3", "Would start it now, each by itself"),
            tag("ul", *(tag("li", each) for each in changes), class_="st-patterns"),
        )
        if changes
        else None,
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _starts(eta: Record, now_s: float) -> str:
    if eta["mid_s"] is None:
        unknown = ", ".join(eta["unknown"][:MOST_AHEAD])
        return (
            f"Nobody knows when {unknown} end: they have no time limit."
            if unknown
            else "It never starts as things are."
        )
    return f"Starts {starts_text(eta, now_s)}."


def _jobs(title: str, jobs: Sequence[Record]) -> Markup | None:
    if not jobs:
        return None
    lines = [
        tag("li", tag("a", f"{each['id']} {each['name']}", href=f"/jobs/{each['id']}"), _who(each))
        for each in jobs[:MOST_AHEAD]
    ]
    more = len(jobs) - MOST_AHEAD
    lines += [tag("li", f"and {more} more")] if more > 0 else []
    return join(tag("h3", title), tag("ul", *lines, class_="st-patterns"))


def _who(job: Record) -> str:
    limit = job["time_limit_s"]
    until = "" if limit is None else f", at most {duration(limit)}"
    return f" of {job['user']}, {job['gpus']}{until}"


def cost_tiles(cost: Record, unit: str) -> Markup:
    """Show what a job has cost in time of GPUs or slots, and what came of it."""

    def part(name: str, key: str, about_: str, kind: str = "") -> Markup:
        spent_h = cost[f"{key}_gpu_s"] / HOUR_S
        text = amount(spent_h)
        return tile(name, f"{text} {unit}-h", about_, "" if text == "0" else kind)

    return join(
        part("Paid", "paid", f"{unit}s that it held"),
        part("Productive", "productive", "finished, or saved", "good"),
        part("Lost", "lost", "over without a save", "bad"),
        part("Not saved yet", "unsaved", "lost if it were stopped now"),
        part("Lent", "lent", f"others had its {unit}s"),
        part("Borrowed", "borrowed", f"it had others' {unit}s"),
    )


def what_runs(record: Record) -> Markup:
    """Show command, folder, limits and script: for its owner and operators."""
    spec = record["spec"]
    shape = spec["shape"]
    facts = [
        ("Folder", spec["folder"]),
        ("Time limit", duration(spec["time_limit_s"]) if spec["time_limit_s"] else "none"),
        ("Memory", f"{shape['memory_bytes'] / 2**30:.1f} GiB" if shape["memory_bytes"] else ""),
        ("CPUs", str(shape["cpus"]) if shape["cpus"] else ""),
        ("After", ", ".join(f"{x['when']}:{x['job']}" for x in spec["dependencies"])),
        ("Can save", "yes" if record["can_save"] else "not known to: it is not stopped for others"),
    ]
    script = spec["script"].splitlines()
    more = len(script) - SCRIPT_LINES
    shown = [*script[:SCRIPT_LINES], *([f"… and {more:,} more lines"] if more > 0 else [])]
    return join(
        tag("pre", shlex.join(record["command"]), class_="st-pre"),
        tag(
            "dl",
            *(part for name, text in facts if text for part in (tag("dt", name), tag("dd", text))),
            class_="st-terms",
        ),
        join(tag("h3", "Script"), tag("pre", "\n".join(shown), class_="st-pre"))
        if script
        else None,
    )


def log_text(text: str) -> str:
    r"""Return output as text to read: without colours of a terminal and overwritten lines.

    >>> log_text("\x1b[31mred\x1b[0m\n10 %\r20 %\n")
    'red\n20 %\n'
    """
    return OVERWRITTEN.sub("", ESCAPES.sub("", text).replace("\r\n", "\n"))


# -- loans -----------------------------------------------------------------------------------------


def loan_table(loans: Sequence[Record], now_s: float) -> Markup:
    """List who lent what to whom, and whether it came back as promised."""
    if not loans:
        return empty("Nothing is lent", "GPUs that their jobs leave idle, and who has them.")
    heads = ("Owner", "Borrower", "GPUs", "Since", "How", "Promised back", "Came back")
    head = tag("tr", *(tag("th", text, scope="col") for text in heads))
    rows = [_loan_row(each, now_s) for each in loans]
    table = tag("table", tag("thead", head), tag("tbody", *rows), class_="st-table st-loans")
    return tag("div", table, class_="st-scroll")


def _loan_row(loan: Record, now_s: float) -> Markup:
    promised_s, took_s = loan.get("promised_s"), loan.get("took_s")
    late = took_s is not None and promised_s is not None and took_s > promised_s
    lasts = loan["until_s"] is None
    back = "still lent" if lasts else "returned" if took_s is None else f"in {took_s:.1f} s"
    back = f"failed: {loan['failed']}" if loan.get("failed") else back
    return tag(
        "tr",
        tag("td", _job_link(loan["owner"])),
        tag("td", _job_link(loan["borrower"])),
        tag("td", str(_count(loan["gpus"])), class_="st-number"),
        tag("td", moment(loan["since_s"], now_s), class_="st-number"),
        tag("td", WAYS.get(loan["way"], loan["way"])),
        tag("td", NONE if promised_s is None else f"within {promised_s:.1f} s", class_="st-number"),
        tag("td", f"{back}, late" if late else back, class_="st-is-bad" if late else "st-number"),
    )


def _job_link(id_: str) -> Markup:
    return tag("a", id_, href=f"/jobs/{id_}")


def _count(gpus: int | Sequence[str]) -> int:
    return gpus if isinstance(gpus, int) else len(gpus)


def refusal(fault: StewardError) -> Markup:
    """Write why somebody cannot submit here, and how they can."""
    here = tag(
        "p",
        "On the machine itself, whoever has an account submits with ",
        tag("code", "steward jobs submit -- COMMAND"),
        ".",
    )
    return tag(
        "div",
        tag("b", f"You cannot submit from here: {fault.problem}."),
        tag("p", fault.hint),
        here,
        class_="st-hint",
    )
