"""The table of intents: which concepts and names a question has, and which tool answers it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

__all__ = ["Asked", "Call", "Intent", "intents"]

Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was read from a question: names by kind, concepts, numbers and the time."""

    text: str
    slots: Mapping[str, str]
    concepts: frozenset[str]
    numbers: tuple[float, ...] = ()
    window: Mapping[str, float] = field(default_factory=dict)
    plan: Mapping[str, Any] = field(default_factory=dict)
    action: str = ""  # a type of action that was named


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """One kind of question. A cue is concepts that must all be there; any cue is enough.

    `also` are concepts that such questions often have and that change nothing.
    """

    name: str
    cues: tuple[frozenset[str], ...]
    call: Callable[[Asked], Call]
    slots: tuple[str, ...] = ()
    also: frozenset[str] = frozenset()
    takes_window: bool = False
    example: str = ""
    optional: tuple[str, ...] = ()  # kinds of names that it can take, too


def _job(about: str) -> Callable[[Asked], Call]:
    return lambda asked: ("jobs", {"job": asked.slots["job"], "about": about})


def _cluster(about: str, slot: str = "") -> Callable[[Asked], Call]:
    def call(asked: Asked) -> Call:
        named = {"name": asked.slots[slot]} if slot else {}
        return "cluster", {"about": about, **named}

    return call


def _free(asked: Asked) -> Call:
    wanted = [int(each) for each in asked.numbers if 1 <= each <= 100_000]
    return "cluster", {"about": "free", **({"gpus": wanted[0]} if wanted else {})}


def _figure(asked: Asked) -> Call:
    """Return the query of a figure: of one GPU where one is named, else of all."""
    stat = "mean"
    if asked.slots.get("gpu"):
        if {"MOST", "HOTTEST", "BUSIEST"} & asked.concepts:
            stat = "max"
        elif "LEAST" in asked.concepts:
            stat = "min"
    given: dict[str, Any] = {"measure": _measure(asked.concepts), "stat": stat, **asked.window}
    if asked.slots.get("gpu"):
        return "telemetry", {**given, "entity": asked.slots["gpu"]}
    order = "least" if {"LEAST", "IDLE"} & asked.concepts else "most"
    count = next((int(each) for each in asked.numbers if 1 <= each <= 10), 3)
    return "telemetry", {**given, "order": order, "count": count}


def _measure(concepts: frozenset[str]) -> str:
    for concept, measure in (
        ("POWER", "power"),
        ("HEAT", "temperature"),
        ("HOTTEST", "temperature"),
        ("MEMORY", "memory"),
    ):
        if concept in concepts:
            return measure
    return "use"


def _findings(asked: Asked) -> Call:
    about = next((asked.slots[kind] for kind in ("gpu", "node", "job") if kind in asked.slots), "")
    return "findings", {**({"about": about} if about else {}), **asked.window}


def _decisions(asked: Asked) -> Call:
    state = ""
    if "FAILED" in asked.concepts:
        state = "failed"
    elif "UNDONE" in asked.concepts:
        state = "undone"
    given = {"state": state, "action": asked.action}
    return "decisions", {**{k: v for k, v in given.items() if v}, **asked.window}


def _savings(asked: Asked) -> Call:
    tenant = asked.slots.get("tenant", "")
    return "savings", {**({"tenant": tenant} if tenant else {}), **asked.window}


def _split(asked: Asked) -> Call:
    of_tenants = {"BYTENANT", "TENANT", "WHO"} & asked.concepts
    return "savings", {"by": "tenant" if of_tenants else "action", **asked.window}


def _rules(asked: Asked) -> Call:
    wrong = {"WRONGLY", "LEAST", "FINDING"} & asked.concepts
    return "rules", {"order": "wrong" if wrong else "fired"}


def _windowed(tool: str) -> Callable[[Asked], Call]:
    return lambda asked: (tool, dict(asked.window))


def _named(tool: str, slot: str) -> Callable[[Asked], Call]:
    return lambda asked: (tool, {slot: asked.slots[slot]})


_CALLS: Mapping[str, Callable[[Asked], Call]] = {
    "job.why": _job("why"),
    "job.status": _job("status"),
    "job.start": _job("start"),
    "job.finish": _job("finish"),
    "job.slow": _job("use"),
    "job.nodes": _job("place"),
    "user.jobs": lambda asked: ("jobs", {"user": asked.slots["user"], "about": "list"}),
    "queue.length": lambda _: ("queue", {"about": "length"}),
    "queue.longest": lambda _: ("queue", {"about": "longest"}),
    "cluster.use": _cluster("use"),
    "cluster.free": _free,
    "gpu.user": _cluster("gpu", "gpu"),
    "node.state": _cluster("node", "node"),
    "tenant.use": _cluster("tenant", "tenant"),
    "tenant.top": _cluster("tenants"),
    "metric.value": _figure,
    "metric.top": _figure,
    "findings.list": _findings,
    "finding.explain": _named("findings", "finding"),
    "decision.explain": _named("decisions", "decision"),
    "decisions.list": _decisions,
    "decisions.waiting": lambda _: ("decisions", {"state": "waiting"}),
    "savings.total": _savings,
    "savings.split": _split,
    "outcomes.kept": _windowed("outcomes"),
    "rule.explain": _named("rules", "rule"),
    "rules.list": _rules,
    "health.faults": _windowed("health"),
    "loans.list": _cluster("loans"),
    "steward.status": lambda _: ("steward", {}),
    "serving.state": lambda _: ("serving", {}),
    "plan.where": lambda asked: ("plans", dict(asked.plan)),
    "docs.how": lambda asked: ("docs", {"query": asked.text}),
}


def _read() -> Iterator[Intent]:
    table = yaml.safe_load((Path(__file__).parent / "intents.yaml").read_text("utf-8"))
    for name, given in table.items():
        yield Intent(
            name=name,
            cues=tuple(frozenset(cue.split()) for cue in given["cues"]),
            call=_CALLS[name],
            slots=tuple(given.get("slots", ())),
            also=frozenset(given.get("also", "").split()),
            takes_window=given.get("window", False),
            example=given["example"],
            optional=tuple(given.get("optional", ())),
        )


@cache
def intents() -> tuple[Intent, ...]:
    """Return the table, read once."""
    return tuple(_read())
