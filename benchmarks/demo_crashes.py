"""Kills `steward up --demo --policy commons` with SIGKILL at 100 random moments.

Four histories are killed 25 times each, two at a time: a journal of many lives takes long to read.

A quarter of the kills fall into the start, when the journal is taken up again. Between the others
people choose: what waits for approval is approved or rejected, and what lasts is undone.
Afterwards the journal must hold every acknowledged choice once, no outcome twice, and no decision
that was carried out twice.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from demo_process import Demo, data_folder
from report import bar, finish, progress
from steward.model.decision import Choice
from steward.model.outcome import Story
from steward.store.journal import Journal, open_journal

SPEED = 600.0
HISTORIES = 4
AT_ONCE = 2
MOST_ROUNDS = 8  # of choices before a kill, however slow the machine is
CHOICES_AT_ONCE = 3
LONGEST_PAUSE_S = 0.5  # between rounds, and before the kill
WHILE_STARTING = 0.25  # of the kills: the journal is read and resumed then
STARTING_S = 4.0  # the longest time until such a kill
WORDS = {"waiting": ("approve", "reject"), "active": ("undo",), "advised": ("approve",)}
OPEN = "/api/v1/decisions?limit=50&" + "&".join(f"state={state}" for state in WORDS)


@dataclass(slots=True)
class Choices:
    """What was chosen about which decision: all that was sent, and all that was acknowledged."""

    sent: Counter[tuple[str, str]] = field(default_factory=Counter)
    acknowledged: Counter[tuple[str, str]] = field(default_factory=Counter)


def die_while_starting(folder: str, policy: str, after_s: float) -> None:
    """Start and kill, most likely before it answers anything."""
    demo = Demo(folder, speed=SPEED, policy=policy)
    time.sleep(after_s)
    demo.kill()


def live_and_die(folder: str, policy: str, random_: random.Random, choices: Choices) -> None:
    """Run, choose for a random number of rounds, kill."""
    demo = Demo(folder, speed=SPEED, policy=policy)
    demo.wait_until_ready()
    known: set[str] = set()
    for _ in range(random_.randint(0, MOST_ROUNDS)):
        found = [item for item in demo.ask(OPEN)["items"] if item["decision"]["id"] not in known]
        for item in random_.sample(found, min(len(found), CHOICES_AT_ONCE)):
            name = item["decision"]["id"]
            known.add(name)
            choice = (name, random_.choice(WORDS[item["state"]]))
            choices.sent[choice] += 1
            choices.acknowledged[choice] += demo.chooses(*choice)
        time.sleep(random_.uniform(0.0, LONGEST_PAUSE_S))
    demo.kill()


def faults_of(story: Story) -> list[str]:
    """Return what is wrong with a decision's story."""
    id_, found = story.decision.id, []
    done = [each for each in story.receipts if each.result in ("done", "partly")]
    if len(done) > 1:
        found.append(f"{id_} was carried out {len(done)} times")
    if sum(each.result == "begun" for each in story.receipts) > 1:
        found.append(f"{id_} was begun more than once")
    by_kind: dict[str, list[Any]] = {}
    for outcome in story.outcomes:
        by_kind.setdefault(outcome.yardstick, []).append(outcome)
    for yardstick, outcomes in by_kind.items():
        ordered = sorted(outcomes, key=lambda each: each.from_s)
        if any(b.from_s < a.to_s - 1e-6 for a, b in pairwise(ordered)):
            found.append(f"outcomes of {id_} in {yardstick} overlap")
        if sum(each.final for each in outcomes) > 1:
            found.append(f"{id_} ended twice in {yardstick}")
    return found


def stories(journal: Journal) -> list[Story]:
    """Return all stories of a journal."""
    found: list[Story] = []
    before = None
    while page := journal.stories(before=before, limit=500):
        before = page[-1][0]
        found += [story for _, story in page]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What was chosen in one folder, and what its journal says after the last kill."""

    choices: Choices
    people: Counter[tuple[str, str]]  # choices of people in the journal
    told: list[Story]
    damage: tuple[str, ...]
    code: int  # exit status of a last run that was not killed


def history(number: int, kills: int, policy: str) -> History:
    """Kill again and again on one folder; then stop a last run and read the journal."""
    random_ = random.Random(number)  # noqa: S311 - moments and words
    choices, began_s = Choices(), time.monotonic()
    with data_folder() as folder:
        for kill in range(1, kills + 1):
            if random_.random() < WHILE_STARTING:
                die_while_starting(folder, policy, random_.uniform(0.0, STARTING_S))
            else:
                live_and_die(folder, policy, random_, choices)
            passed_s, known = time.monotonic() - began_s, choices.acknowledged.total()
            progress(f"history {number}, {passed_s:4.0f} s: {kill} kills, {known} acknowledged")
        last = Demo(folder, speed=SPEED, policy=policy)
        last.wait_until_ready()
        code = last.stop()
        with closing(open_journal(f"sqlite:///{Path(folder) / 'journal.sqlite3'}")) as journal:
            values = [entry.value for entry in journal.read(kinds=("choice",), limit=10**6)]
            people: Counter[tuple[str, str]] = Counter(
                (str(each.decision), each.choice)
                for each in values
                if isinstance(each, Choice) and each.user != "steward"
            )
            return History(
                choices=choices,
                people=people,
                told=stories(journal),
                damage=tuple(journal.damage()),
                code=code,
            )


def main() -> None:
    """Kill, again and again; then read the journals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="6 kills, same code")
    parser.add_argument("--policy", default="commons")
    arguments = parser.parse_args()
    each_kills = 3 if arguments.quick else 25
    count = 2 if arguments.quick else HISTORIES
    kills, began_s = each_kills * count, time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        lived = list(
            pool.map(lambda number: history(number, each_kills, arguments.policy), range(count))
        )
    known = sum(each.choices.acknowledged.total() for each in lived)
    lost = sum((each.choices.acknowledged - each.people).total() for each in lived)
    doubled = sum((each.people - each.choices.sent).total() for each in lived)
    damage = [fault for each in lived for fault in each.damage]
    told = [story for each in lived for story in each.told]
    faults = [fault for story in told for fault in faults_of(story)]
    outcomes = sum(len(story.outcomes) for story in told)
    chosen = Counter(word for each in lived for _, word in each.people.elements())
    carried_out = Counter(
        story.decision.action.type
        for story in told
        if any(each.result in ("done", "partly") for each in story.receipts)
    )
    finish(
        "demo_crashes",
        {
            "policy": arguments.policy,
            "kills": kills,
            "seconds": round(time.monotonic() - began_s, 1),
            "acknowledged_choices": known,
            "chosen": dict(sorted(chosen.items())),
            "decisions": len(told),
            "carried_out": dict(sorted(carried_out.items())),
            "outcomes": outcomes,
            "faults": faults[:20],
            "damage": damage,
        },
        [
            bar("acknowledged choices", known, ">=", kills),
            bar("acknowledged choices lost", lost, "==", 0),
            bar("choices doubled", doubled, "==", 0),
            bar("decisions carried out twice, outcomes doubled", len(faults), "==", 0),
            bar("damage of the journal", len(damage), "==", 0),
            bar("outcomes measured", outcomes, ">=", kills),
            bar("last runs that did not end well", sum(each.code != 0 for each in lived), "==", 0),
        ],
    )


if __name__ == "__main__":
    main()
