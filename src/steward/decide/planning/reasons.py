"""Why a choice lost, and why one is recommended, in one sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from steward.decide.planning.formatting import amount, dollars, duration, listed, name_of
from steward.decide.planning.front import money_of
from steward.model.planning.carbon import HOUR_S
from steward.model.planning.plan import Choice, PlanRequest

__all__ = ["broken_limits", "score", "why_beaten", "why_recommended"]

_DIRTY_KG_PER_KWH = 0.7  # about that of coal and gas alone
_LITTLE = 1e-6  # a difference of so small a share is rounding


def broken_limits(choice: Choice, request: PlanRequest) -> Iterator[str]:
    """Return each limit of the request that a choice breaks."""
    chance = choice.deadline_chance
    if chance is not None and chance < request.deadline_chance:
        yield (
            f"it ends by the deadline with a chance of {chance:.0%}, "
            f"and {request.deadline_chance:.0%} are asked"
        )
    budget = request.budget_usd
    if budget is not None and choice.usd is not None and choice.usd.high > budget:
        yield (f"it may cost {dollars(choice.usd.high)}, and the budget is {dollars(budget)}")


def score(choice: Choice, request: PlanRequest) -> float:
    """Return what it costs, time and carbon counted in money.

    Units without a price count as 0, and a grid that nobody knows as a dirty one.
    """
    weights = request.weights
    usd = choice.usd.mid if choice.usd is not None else 0.0
    kg = choice.co2_kg.mid if choice.co2_kg is not None else _DIRTY_KG_PER_KWH * choice.kwh.mid
    usd += weights.usd_per_kg * kg
    if choice.deadline_chance is not None:
        return usd + weights.usd_if_late * (1 - choice.deadline_chance)
    return usd + weights.usd_per_h * (choice.end_s.mid - request.now_s) / HOUR_S


def why_beaten(loser: Choice, winner: Choice, now_s: float) -> str:
    """Return what the winner has before the loser."""
    better = [*_advantages(loser, winner)]
    if not better:
        return f"{name_of(winner, now_s)} is as good in time, money and carbon, and comes first"
    return f"{name_of(winner, now_s)} {listed(better)}"


def why_recommended(best: Choice, others: Sequence[Choice], request: PlanRequest) -> str:
    """Return by which figures the first of the front comes first."""
    name = name_of(best, request.now_s)
    weights = request.weights
    kg = f"a kg of CO2 as {dollars(weights.usd_per_kg)}"
    if request.deadline_s is not None:
        said = (
            f"{name} ends by the deadline with a chance of {best.deadline_chance or 0.0:.0%}, and "
            f"costs least, being late counted as {dollars(weights.usd_if_late)} and {kg}"
        )
    else:
        said = f"{name} costs least, an hour counted as {dollars(weights.usd_per_h)} and {kg}"
    if not others:
        said = f"{name} is the only one that nothing beats"
    return f"{said}{_unpriced(best)}"


def _unpriced(best: Choice) -> str:
    unit, units = next(iter(best.units.items()))
    if best.usd is not None or units == 0:
        return ""
    return f"; its {amount(units, unit)} have no price and count as nothing"


def _advantages(loser: Choice, winner: Choice) -> Iterator[str]:
    earlier_s = loser.end_s.mid - winner.end_s.mid
    if earlier_s >= 1.0:
        yield f"ends {duration(earlier_s)} earlier"
    (unit, more), (other, less) = money_of(loser), money_of(winner)
    if more - less > _LITTLE * more:
        if unit != other:
            yield "costs nothing"
        else:
            saved = dollars(more - less) if unit == "USD" else amount(more - less, unit)
            yield f"costs {saved} less"
    yield from _greener(loser, winner)


def _greener(loser: Choice, winner: Choice) -> Iterator[str]:
    if winner.co2_kg is None:
        return
    if loser.co2_kg is None:
        yield "emits a known amount of CO2"
        return
    less = loser.co2_kg.mid - winner.co2_kg.mid
    if less > _LITTLE * loser.co2_kg.mid:
        yield f"emits {amount(less, 'kg')} less CO2"
