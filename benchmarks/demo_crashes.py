"""Kills `steward up --demo --policy commons` with SIGKILL at 100 random moments, on one folder.

Between the kills people choose: whatever waits for approval is approved or rejected, and what was
carried out is undone now and then. Afterwards the journal must hold every acknowledged choice
once, no outcome twice, and no decision that was carried out twice.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

from demo_process import Demo, data_folder
from report import bar, finish, progress
from steward.model.decision import Choice
from steward.model.outcome import Story
from steward.store.journal import Journal, open_journal

SPEED = 600.0
LONGEST_S = 4.0  # from ready to the kill
WORDS = {"waiting": ("approve", "reject"), "active": ("undo",), "advised": ("approve",)}


def live_and_die(folder: str, policy: str, random_: random.Random) -> list[tuple[str, str]]:
    """Run, choose until a random moment, kill; return the choices that were acknowledged."""
    demo = Demo(folder, speed=SPEED, policy=policy)
    until_s = time.monotonic() + random_.uniform(0.0, LONGEST_S)
    chosen: list[tuple[str, str]] = []
    while time.monotonic() < until_s:
        for item in demo.ask("/api/v1/decisions?limit=20")["items"]:
            words = WORDS.get(item["state"], ())
            if words and random_.random() < 0.3 and time.monotonic() < until_s:
                choice = random_.choice(words)
                if demo.chooses(item["decision"]["id"], choice):
                    chosen.append((item["decision"]["id"], choice))
        time.sleep(random_.uniform(0.0, 0.2))
    demo.kill()
    return chosen


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


def main() -> None:
    """Kill, again and again; then read the journal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="5 kills, same code")
    parser.add_argument("--policy", default="commons")
    arguments = parser.parse_args()
    kills = 5 if arguments.quick else 100
    random_ = random.Random(12)  # noqa: S311 - moments and words
    chosen: list[tuple[str, str]] = []
    with data_folder() as folder:
        for number in range(kills):
            chosen += live_and_die(folder, arguments.policy, random_)
            if number % 10 == 9:
                progress(f"{number + 1} kills, {len(chosen)} acknowledged choices")
        Demo(folder, speed=SPEED, policy=arguments.policy).stop()
        with closing(open_journal(f"sqlite:///{Path(folder) / 'journal.sqlite3'}")) as journal:
            damage = journal.damage()
            values = [entry.value for entry in journal.read(kinds=("choice",), limit=10**6)]
            told = stories(journal)
    people: Counter[tuple[str, str]] = Counter(
        (str(each.decision), each.choice)
        for each in values
        if isinstance(each, Choice) and each.user != "steward"
    )
    lost = [each for each in chosen if not people[each]]
    doubled = [each for each, count in people.items() if count > chosen.count(each)]
    faults = [fault for story in told for fault in faults_of(story)]
    outcomes = sum(len(story.outcomes) for story in told)
    carried_out = Counter(
        story.decision.action.type
        for story in told
        if any(each.result in ("done", "partly") for each in story.receipts)
    )
    finish(
        "demo_crashes",
        {
            "kills": kills,
            "acknowledged_choices": len(chosen),
            "decisions": len(told),
            "carried_out": dict(sorted(carried_out.items())),
            "outcomes": outcomes,
            "faults": faults[:20],
            "damage": list(damage),
        },
        [
            bar("acknowledged choices lost", len(lost), "==", 0),
            bar("choices doubled", len(doubled), "==", 0),
            bar("decisions carried out twice, outcomes doubled", len(faults), "==", 0),
            bar("damage of the journal", len(damage), "==", 0),
            bar("outcomes measured", outcomes, ">=", 1),
        ],
    )


if __name__ == "__main__":
    main()
