"""Fills the slots of questions with names of the generated site."""

from __future__ import annotations

import random
import re

from asking.site import RULES, TENANTS, USERS, World

__all__ = ["fill", "slots_of"]

_SLOT = re.compile(r"\{(\w+)\}")


def slots_of(world: World, dice: random.Random) -> dict[str, str]:
    """Return a name for each slot."""
    truth = world.truth
    busy = [job for job in truth.running if job not in truth.idle]
    return {
        "waiting_job": dice.choice(
            sorted({*truth.waiting} - {loan.borrower for loan in truth.loans})
        ),
        "running_job": dice.choice(busy),
        "idle_job": dice.choice(truth.idle),
        "user": dice.choice([u for u in USERS if any(j.user == u for j in truth.running.values())]),
        "tenant": dice.choice(TENANTS),
        "node": f"n{dice.randint(1, 125):03d}",
        "gpu": dice.choice(sorted(truth.owner)),
        "decision": dice.choice(truth.decisions).id,
        "finding": dice.choice(truth.findings).id,
        "rule": dice.choice(RULES),
    }


def fill(phrase: str, world: World, dice: random.Random) -> str:
    """Return a question about things that are there."""
    slots = slots_of(world, dice)
    return _SLOT.sub(lambda found: slots[found[1]], phrase)
