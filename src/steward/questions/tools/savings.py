"""The tool `savings`: what outcomes measured, in all, by action and by tenant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from steward.model.outcome import Savings, Story
from steward.questions.facts import Fact, Reply, Sentence, say, unknown
from steward.questions.records import Records
from steward.questions.tools.shapes import Span, WindowArguments
from steward.questions.tools.sources import span_source

__all__ = ["SavingsArguments", "savings"]

MOST_NAMED = 5


class SavingsArguments(WindowArguments):
    """Savings of a time; all of it where none is given."""

    by: Literal["", "action", "tenant"] = Field("", description="split by type of action or tenant")
    tenant: str = Field("", max_length=200, description="only of this tenant's GPUs")


def savings(records: Records, asked: SavingsArguments) -> Reply:
    """Return what was measured to be saved; expectations never count."""
    span = asked.span(records)
    stories = [
        each.story
        for each in records.ledger.stories
        if not asked.tenant or each.story.decision.tenant == asked.tenant
    ]
    whole = span.from_s <= 0 and not asked.tenant
    total = (
        records.ledger.savings if whole else records.ledger.saved(stories, span.from_s, span.to_s)
    )
    if not total.outcomes:
        return unknown(f"No outcome that saves anything was measured {span.words}.")
    given = {"tenant": asked.tenant} if asked.tenant else {}
    source = span_source("savings", span.from_s, span.to_s, **given)
    told = [*_total(total, span, source)]
    if asked.by:
        told += _split(records, stories, span, asked.by)
    if records.simulated:
        told.append(Sentence(text="These are figures of a simulated cluster, not of a real one."))
    return Reply(sentences=tuple(told))


def _total(total: Savings, span: Span, source: str) -> Iterator[Sentence]:
    def fact(label: str, value: float, unit: str) -> Fact:
        return Fact(label=label, value=value, unit=unit, source=source, link="/savings")

    currency = total.assumptions.currency
    since = "so far" if span.from_s <= 0 else "since {start}"
    facts = {
        "gpu_h": fact("saved", total.gpu_hours.mid, "GPU-hours"),
        "low": fact("saved at least", total.gpu_hours.low, ""),
        "high": fact("saved at most", total.gpu_hours.high, ""),
        "decisions": fact("decisions behind it", total.decisions, "decisions"),
        "start": fact("from", span.from_s, "time"),
    }
    used = {key: each for key, each in facts.items() if key != "start" or span.from_s > 0}
    yield say(f"{{gpu_h}} were saved {since} ({{low}} to {{high}}), by {{decisions}}.", **used)
    yield say(
        "That is {money}, {energy} and {carbon}, by the site's assumptions.",
        money=fact("money saved", total.cost.mid, currency),
        energy=fact("energy saved", total.energy_kwh.mid, "kWh"),
        carbon=fact("CO2 avoided", total.co2_kg.mid, "kg of CO2"),
    )


def _split(records: Records, stories: list[Story], span: Span, by: str) -> Iterator[Sentence]:
    groups: dict[str, list[Story]] = defaultdict(list)
    for each in stories:
        made = each.decision
        groups[made.action.type if by == "action" else str(made.tenant)].append(each)
    sums = {
        name: records.ledger.saved(group, span.from_s, span.to_s).gpu_hours.mid
        for name, group in groups.items()
    }
    ranked = sorted(((n, v) for n, v in sums.items() if v), key=lambda each: (-each[1], each[0]))
    source = span_source("savings", span.from_s, span.to_s, by=by)
    for name, value in ranked[:MOST_NAMED]:
        what = Fact(label=by, value=name, source=source, link="/savings")
        hours = Fact(
            label=f"saved by {by} {name}",
            value=value,
            unit="GPU-hours",
            source=source,
            link="/savings",
        )
        yield say("{what}: {hours}.", what=what, hours=hours)
