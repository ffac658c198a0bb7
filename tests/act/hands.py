"""A desk with an actuator that does what a test tells it to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from factories import receipt
from steward.act.desk import Desk
from steward.act.guard import Guard, Limits
from steward.model.actions import Action, Start
from steward.model.decision import Autonomy, Choice, Decision, Receipt, Ruling, Verdict
from steward.model.event import Availability
from steward.model.identity import DecisionId


class Hand:
    """An actuator that does what a test tells it to, and remembers."""

    name = "hand"

    def __init__(self, act: Callable[[Decision, float], Receipt] | None = None) -> None:
        self.act = act or (lambda made, t_s: receipt(made, t_s=t_s))
        self.done: list[DecisionId] = []

    def available(self) -> Availability:
        return Availability(status="ok", reason="always")

    def actions(self) -> tuple[type[Action], ...]:
        return get_args(Action)

    def progress(self, made: Decision, t_s: float) -> Receipt:
        return self.act(made, t_s)

    def carry_out(self, made: Decision, t_s: float) -> Receipt:
        self.done.append(made.id)
        return self.act(made, t_s)


class PlacingHand(Hand):
    """An engine that chooses the GPUs of a job itself."""

    def places(self, action: Action) -> bool:
        return isinstance(action, Start)


def desk(hand: Hand | None = None, autonomy: Autonomy = Autonomy.AUTO, budget: int = 64) -> Desk:
    return Desk(Guard(Limits(autonomy=autonomy, disturbed_gpus_per_hour=budget)), hand or Hand())


def said(choice: Any, name: str = "d-1") -> Choice:
    return Choice(decision=DecisionId(name), t_s=1000.0, choice=choice, user="ada", note="please")


def rulings(new: list[Decision | Verdict]) -> list[tuple[str, Ruling]]:
    """Return the verdicts among what a desk wrote."""
    return [(each.decision, each.ruling) for each in new if isinstance(each, Verdict)]
