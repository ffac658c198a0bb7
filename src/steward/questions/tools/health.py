"""The tools `health` and `steward`: failed hardware, and how steward itself does."""

from __future__ import annotations

from collections.abc import Iterator

from steward.model.cluster_snapshot import GpuState
from steward.model.finding import Severity
from steward.questions.facts import Fact, Reply, Sentence, say, unknown
from steward.questions.records import Records
from steward.questions.tools.findings import finding_line
from steward.questions.tools.shapes import Arguments, WindowArguments
from steward.questions.tools.sources import fact_at, span_source

__all__ = ["HealthArguments", "StewardArguments", "health", "steward"]

MOST_NAMED = 5


class HealthArguments(WindowArguments):
    """Faults of a time."""


class StewardArguments(Arguments):
    """Nothing."""


def health(records: Records, asked: HealthArguments) -> Reply:
    """Name failed GPUs, draining nodes, and the faults that were noticed."""
    span = asked.span(records, "7d")
    faults = [
        each
        for each in records.ledger.noticed(span.from_s, span.to_s)
        if each.severity is Severity.FAULT
    ]
    source = span_source("findings", span.from_s, span.to_s, severity="fault")
    count = Fact(label="faults", value=len(faults), unit="faults", source=source, link="/findings")
    start = Fact(label="from", value=span.from_s, unit="time", source=source, link="/findings")
    since = "so far" if span.from_s <= 0 else "since {start}"
    used = {"count": count} if span.from_s <= 0 else {"count": count, "start": start}
    told = [*_broken(records), say(f"There were {{count}} {since}.", **used)]
    return Reply(sentences=(*told, *map(finding_line, faults[:MOST_NAMED])))


def _broken(records: Records) -> Iterator[Sentence]:
    shown = records.cluster
    if shown is None:
        yield Sentence(text="No steward runs here now: what is broken at this moment is not known.")
        return
    failed = [gpu.id for gpu in shown.gpus if gpu.state is GpuState.FAILED]
    drained = [node.id for node in shown.nodes if node.draining]
    yield from _named(shown.t_s, "gpu", failed, "failed", "GPUs")
    yield from _named(shown.t_s, "node", drained, "draining", "nodes")


def _named(t_s: float, kind: str, ids: list[str], word: str, unit: str) -> Iterator[Sentence]:
    count = fact_at("cluster", "", t_s, f"{unit} that are {word}", len(ids), unit)
    verb = "is" if len(ids) == 1 else "are"
    state = word if word == "draining" else "in a failed state"
    yield say(f"{{count}} {verb} {state}.", count=count)
    named = tuple(fact_at(kind, each, t_s, word, each) for each in ids[:MOST_NAMED])
    if named:
        some = "Among them: " if len(ids) > len(named) else "Namely: "
        yield Sentence(text=f"{some}{', '.join(f.text for f in named)}.", facts=named)


def steward(records: Records, _asked: StewardArguments) -> Reply:
    """Say whether steward runs, what it may do, and what is wrong with it."""
    status = records.status
    if status is None:
        return unknown("No steward runs here now; `steward up` starts one.")

    def fact(label: str, value: str | float, unit: str = "name") -> Fact:
        return fact_at("status", "", status.t_s, label, value, unit)

    facts = {
        "version": fact("version", records.version),
        "turns": fact("turns of the loop", status.turns, "turns"),
        "t": fact("last turn", status.t_s, "time"),
    }
    told = [
        say("Steward {version} runs; its loop has made {turns}, the last at {t}.", **facts),
        say(
            "Its autonomy is {autonomy}; the circuit breaker is {breaker}.",
            autonomy=fact("autonomy", status.autonomy.value),
            breaker=fact("circuit breaker", status.breaker),
        ),
        say(
            "It has {faults} in itself.", faults=fact("recent faults", len(status.faults), "faults")
        ),
    ]
    return Reply(sentences=tuple(told))
