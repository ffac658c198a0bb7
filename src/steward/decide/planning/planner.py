"""Plan a job: which choices are feasible, which of them nothing beats, and why the others lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from steward.decide.planning.candidates import Candidates
from steward.decide.planning.front import front_of
from steward.decide.planning.reasons import broken_limits, score, why_beaten, why_recommended
from steward.decide.planning.relaxations import relaxations
from steward.model.planning.catalog import Catalog
from steward.model.planning.outlook import Outlook
from steward.model.planning.plan import Choice, Plan, PlanRequest, Rejected

__all__ = ["plan"]

NOTHING = Outlook()
Key = tuple[str, str, str, int, int | None]


def plan(request: PlanRequest, catalog: Catalog, outlook: Outlook = NOTHING) -> Plan:
    """Return the choices that nothing beats, the recommended one first, and why others lost."""
    tried = Candidates(request=request, catalog=catalog, outlook=outlook)
    choices = [each.choice for each in tried.found]
    broken = [" and ".join(broken_limits(each, request)) for each in choices]
    kept = [choice for choice, why in zip(choices, broken, strict=True) if not why]
    front, beaten_by = front_of(kept)
    chosen = [kept[i] for i in front]
    order = sorted(chosen, key=lambda each: (score(each, request), *_key(each), each.start_s))
    losers = [
        _loser(kept[loser], why_beaten(kept[loser], kept[winner], request.now_s), kept[winner])
        for loser, winner in sorted(beaten_by.items())
    ]
    losers += [
        _loser(choice, why, None) for choice, why in zip(choices, broken, strict=True) if why
    ]
    return Plan(
        request=request,
        front=tuple(order),
        rejected=(*_once(losers, chosen), *tried.rejected),
        why=why_recommended(order[0], order[1:], request) if order else "nothing is feasible",
        relax=() if order else tuple(relaxations(tried)),
    )


def _loser(choice: Choice, why: str, beaten_by: Choice | None) -> Rejected:
    way = choice.way
    return Rejected(
        site=choice.site,
        queue=choice.queue,
        gpu_model=way.gpu_model,
        gpus=way.gpus,
        why=why,
        choice=choice,
        beaten_by=beaten_by,
    )


def _once(losers: Iterable[Rejected], chosen: Iterable[Choice]) -> Iterator[Rejected]:
    """Leave out other starts of what is on the front, or is named already."""
    named = {_key(each) for each in chosen}
    for each in losers:
        if each.choice is not None and (key := _key(each.choice)) not in named:
            named.add(key)
            yield each


def _key(choice: Choice) -> Key:
    return choice.site, choice.queue, choice.way.gpu_model, choice.way.gpus, choice.way.batch
