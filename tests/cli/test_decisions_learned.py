"""`steward decisions learned`: what outcomes taught about choosing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from steward.learn.estimators.lending_choice import FEATURES, LendingChoice
from steward.store.learned import LearnedStates
from told import steward


def saved(folder: Path, spells: int) -> None:
    choice, random = LendingChoice(), np.random.default_rng(0)
    for number in range(spells):
        context = np.array([1.0, *random.normal(size=len(FEATURES) - 1)])
        chosen = choice.bandit.choose(context, str(number))
        reward = context[1] if chosen.arm == 1 else 0.0
        choice.bandit.learn(context, chosen, reward, 3600.0 * number)
    states = LearnedStates(folder / "learned")
    states.save(choice.name, choice.state_version, choice.save_state(), learnt_from={})


def test_what_was_learnt_is_shown_with_its_evidence(tmp_path: Path) -> None:
    saved(tmp_path, 300)

    answer = steward("decisions", "learned", "--data", tmp_path)

    assert answer.code == 0
    assert "exploring, from 300 idle spells" in answer.out
    assert "how long it was idle +" in answer.out
    assert "effective choices" in answer.out
    assert "DR" in answer.out
    assert "gate: exploring has cost" in answer.out


def test_the_same_is_there_for_programs(tmp_path: Path) -> None:
    saved(tmp_path, 100)

    found = json.loads(steward("decisions", "learned", "--json", "--data", tmp_path).out)

    assert [each["arm"] for each in found["arms"]] == ["nothing", "lend", "lend-later"]
    assert found["comparison"]["choices"] == 100
    assert found["comparison"]["low"] <= found["comparison"]["high"]
    assert found["gate"]["allowed"] >= 3.0


def test_a_state_without_choices_is_shown_too(tmp_path: Path) -> None:
    saved(tmp_path, 0)

    answer = steward("decisions", "learned", "--data", tmp_path)

    assert answer.code == 0
    assert "none yet" in answer.out


def test_where_nothing_was_learnt_the_command_says_how_to_begin(tmp_path: Path) -> None:
    plain = steward("decisions", "learned", "--data", tmp_path)
    as_json = steward("decisions", "learned", "--json", "--data", tmp_path)

    assert plain.code == as_json.code == 1
    assert "learn.estimators" in plain.err
    assert json.loads(as_json.out)["state"] == "nothing learnt"
