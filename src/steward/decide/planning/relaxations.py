"""Which limit to change, and by how much, where no plan is feasible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from steward.decide.planning.candidates import Candidate, Candidates
from steward.decide.planning.formatting import dollars, duration, name_of
from steward.decide.planning.reasons import broken_limits
from steward.model.planning.plan import Choice, PlanRequest

__all__ = ["relaxations"]

_MOST_REASONS = 3


def relaxations(tried: Candidates) -> Iterator[str]:
    """Return each change that alone makes a plan feasible, else the least of two together."""
    request, found = tried.request, tried.found
    single = [
        *_deadline(request, [each for each in found if _affordable(each.choice, request)]),
        *_budget(request, [each.choice for each in found if _in_time(each.choice, request)]),
        *_checkpoints(tried),
        *_sites(tried),
    ]
    yield from single
    if not single:
        yield from _both(request, found)
    if not found:
        yield from _unplaced(tried)


def _deadline(request: PlanRequest, affordable: Sequence[Candidate]) -> Iterator[str]:
    if request.deadline_s is None or not affordable:
        return
    late_s, best = min(
        ((_late_s(each, request), each) for each in affordable), key=lambda pair: pair[0]
    )
    name = name_of(best.choice, request.now_s)
    yield (
        f"a deadline {duration(late_s)} later: {name} then meets it with a chance of "
        f"{request.deadline_chance:.0%}"
    )
    sure = max(affordable, key=lambda each: each.choice.deadline_chance or 0.0)
    if sure.choice.deadline_chance:
        name = name_of(sure.choice, request.now_s)
        yield (
            f"a chance of {sure.choice.deadline_chance:.0%} instead of "
            f"{request.deadline_chance:.0%}: {name}"
        )


def _budget(request: PlanRequest, in_time: Sequence[Choice]) -> Iterator[str]:
    prices = [(each.usd.high, each) for each in in_time if each.usd is not None]
    if request.budget_usd is None or not prices:
        return
    usd, cheapest = min(prices, key=lambda pair: pair[0])
    more = dollars(usd - request.budget_usd)
    name = name_of(cheapest, request.now_s)
    yield f"{more} more budget, {dollars(usd)} in all: {name} then is within it"


def _both(request: PlanRequest, found: Sequence[Candidate]) -> Iterator[str]:
    """Return the least delay and the budget that it takes."""
    budget = request.budget_usd
    late = [
        (_late_s(each, request), each.choice.usd.high, each.choice)
        for each in found
        if each.choice.usd is not None
    ]
    if budget is None or not late:
        return
    late_s, usd, best = min(late, key=lambda each: each[:2])
    yield (
        f"a deadline {duration(late_s)} later together with {dollars(usd - budget)} more budget: "
        f"{name_of(best, request.now_s)} is then feasible"
    )


def _checkpoints(tried: Candidates) -> Iterator[str]:
    if tried.request.saves:
        return
    best = _first_feasible(tried, replace(tried.request, saves=True))
    if best is not None:
        name = name_of(best, tried.request.now_s)
        links = f" as a chain of {best.links} jobs" if best.links > 1 else ""
        yield f"checkpoints: with them it can run{links} at {name}"


def _sites(tried: Candidates) -> Iterator[str]:
    if not tried.request.sites:
        return
    best = _first_feasible(tried, replace(tried.request, sites=()))
    if best is not None:
        yield f"other sites: {name_of(best, tried.request.now_s)} is feasible"


def _first_feasible(tried: Candidates, request: PlanRequest) -> Choice | None:
    """Return the choice that ends first within the limits of a changed request."""
    again = Candidates(request=request, catalog=tried.catalog, outlook=tried.outlook)
    choices = [each.choice for each in again.found if not any(broken_limits(each.choice, request))]
    return min(choices, key=lambda each: each.end_s.mid, default=None)


def _unplaced(tried: Candidates) -> Iterator[str]:
    """Return what most queues lack; many say the same of themselves."""
    if not tried.rejected:
        yield "a catalogue with sites: this one has no queue"
        return
    whys = Counter(each.why for each in tried.rejected)
    for why, count in whys.most_common(_MOST_REASONS):
        places = "one queue" if count == 1 else f"{count:,} queues"
        yield f"{places} would do but for this: {why}"


def _late_s(each: Candidate, request: PlanRequest) -> float:
    deadline_s = request.deadline_s if request.deadline_s is not None else each.choice.end_s.high
    return each.choice.start_s + each.spans.within(request.deadline_chance) - deadline_s


def _in_time(choice: Choice, request: PlanRequest) -> bool:
    return choice.deadline_chance is None or choice.deadline_chance >= request.deadline_chance


def _affordable(choice: Choice, request: PlanRequest) -> bool:
    budget = request.budget_usd
    return budget is None or choice.usd is None or choice.usd.high <= budget
