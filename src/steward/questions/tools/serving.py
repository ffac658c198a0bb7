"""The tools `serving`, `plans` and `docs`: model servers, places for jobs, the documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import inf

from pydantic import Field

from steward.errors import StewardError
from steward.model.planning.plan import Choice
from steward.planning.question import PlanQuestion
from steward.questions.documentation import search_sections
from steward.questions.facts import Fact, Reply, Sentence, say, unknown
from steward.questions.records import Gateway, Records
from steward.questions.tools.shapes import Arguments
from steward.questions.tools.sources import fact_at

__all__ = ["DocsArguments", "PlanArguments", "ServingArguments", "docs", "plans", "serving"]

MOST_NAMED = 4
_MARKS = re.compile(r"[`*_|#>\[\]]|\(https?:[^)]*\)|\([^)]*\.md[^)]*\)")


class ServingArguments(Arguments):
    """Nothing."""


class PlanArguments(Arguments):
    """A job that does not exist yet."""

    gpu: str = Field(max_length=60, description="the kind of GPU, as A100 or H100")
    gpus: int = Field(ge=1, le=100_000)
    hours: float = Field(gt=0, le=100_000, description="how long it runs on them")


class DocsArguments(Arguments):
    """Words to look for."""

    query: str = Field(max_length=400)


def serving(records: Records, _asked: ServingArguments) -> Reply:
    """Say how the gateways in front of model servers do."""
    if not records.gateways:
        return unknown("No gateway in front of model servers is shown here (`serving.shown`).")
    return Reply(sentences=tuple(s for each in records.gateways for s in _gateway(records, each)))


def _gateway(records: Records, gateway: Gateway) -> Iterator[Sentence]:
    def fact(label: str, value: str | float, unit: str = "name") -> Fact:
        return fact_at("serving", gateway.url, records.now_s, label, value, unit)

    url = fact("gateway", gateway.url, "text")
    found = gateway.snapshot
    if found is None:
        why = fact("why", gateway.fault or "it has not answered yet", "text")
        yield say("Gateway {url} is silent: {why}.", url=url, why=why)
        return
    up = [
        each for each in found.instances if not each.draining and each.state in ("", "up", "ready")
    ]
    facts = {
        "url": url,
        "all": fact("instances", len(found.instances), "instances"),
        "up": fact("instances that take requests", len(up), ""),
    }
    yield say("Gateway {url} has {all}, of which {up} take requests.", **facts)
    for each in found.classes[:MOST_NAMED]:
        name = fact("class", each.name, "text")
        queued = fact("queued requests", each.queued or 0, "requests")
        if each.attainment is not None:
            kept = fact("deadlines kept", each.attainment, "share")
            yield say(
                "Class {name}: {queued} queued, {kept} of deadlines kept.",
                name=name,
                queued=queued,
                kept=kept,
            )
        else:
            yield say("Class {name}: {queued} queued.", name=name, queued=queued)


def plans(records: Records, asked: PlanArguments) -> Reply:
    """Say where a job should run, as `steward estimate plan` does."""
    if records.plan is None:
        return unknown("Plans are not known here: no catalogue of sites can be read.")
    run_time = f"{asked.gpus}x{asked.gpu}={asked.hours:g}h"
    try:
        plan, missing = records.plan(PlanQuestion(run_times=(run_time,)))
    except StewardError as fault:
        return unknown(f"No plan is possible: {fault.problem}.")
    if not plan.front:
        return unknown(
            "Nothing that is known can do this.", *(f"{each}." for each in plan.relax[:2])
        )
    told = [*_choice(plan.front[0], run_time, "The recommended place is")]
    cheapest = min(plan.front, key=_usd)
    if cheapest is not plan.front[0]:
        told += _choice(cheapest, run_time, "The cheapest is")
    return Reply(sentences=(*told, *(Sentence(text=f"{each}.") for each in missing[:2])))


def _choice(best: Choice, run_time: str, words: str) -> Iterator[Sentence]:
    def fact(label: str, value: str | float, unit: str = "name") -> Fact:
        return Fact(
            label=label,
            value=value,
            unit=unit,
            source=f"steward://plan?run_time={run_time}",
            link="/plan",
        )

    facts = {
        "place": fact("place", f"{best.site}/{best.queue}"),
        "cost": fact("cost", _usd(best), "USD") if best.usd else fact("cost", "an unknown cost"),
        "asked": fact("asked", run_time, "statement"),
        "end": fact("ends", best.end_s.mid, "time"),
    }
    yield say(
        f"{words} {{place}}, for {{cost}}; it would end around {{end}} (asked: {{asked}}).", **facts
    )


def _usd(choice: Choice) -> float:
    return choice.usd.mid if choice.usd is not None else inf


def docs(records: Records, asked: DocsArguments) -> Reply:
    """Return what the documentation says."""
    found = search_sections(records.documentation, asked.query)
    if not records.documentation:
        return unknown("The documentation is not installed here.")
    if not found:
        return unknown("The documentation says nothing about this that was found.")
    told = []
    for place, each in enumerate(found):
        source = f"{each.page}#{each.anchor}"
        title = Fact(label="section", value=each.title, unit="statement", source=source)
        page = Fact(label="page", value=each.page, source=source)
        told.append(say("See {title} in {page}.", title=title, page=page))
        text = _first(each.text)
        if place == 0 and text:
            said = Fact(label="text", value=text, unit="statement", source=source)
            told.insert(0, say("{said}", said=said))
    return Reply(sentences=tuple(told))


def _first(text: str) -> str:
    """Return the first paragraph of a section that is prose."""
    for part in text.split("\n\n"):
        line = " ".join(_MARKS.sub("", part).split())
        if len(line) > 30 and not part.lstrip().startswith(("|", "```", "!", "    ", "- [", "<")):
            return line
    return ""
