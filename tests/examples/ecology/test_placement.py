"""Where a training is sent, how its time is predicted, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecology.facts import FIELD, read_facts
from ecology.placement import Work, place
from ecology.scores import macro_f1
from ecology.time_model import TimeModel
from steward.errors import StewardError

PLACES = read_facts().places
WORK = Work(seconds=20, memory_bytes=4e8, deadline_s=86_400, edge_joules_left=20)


def taken(work: Work) -> str | None:
    chosen = place(work, PLACES).chosen
    return chosen.place.name if chosen else None


def test_a_routine_training_goes_where_it_is_cheapest() -> None:
    assert taken(WORK) == "hpc"


def test_an_urgent_training_does_not_wait_in_a_queue() -> None:
    assert taken(replace(WORK, deadline_s=7200)) == "cloud"


def test_a_board_with_energy_to_spare_trains_for_nothing() -> None:
    assert taken(replace(WORK, edge_joules_left=1e6)) == "edge"


def test_each_place_says_why_it_was_not_taken() -> None:
    urgent = place(replace(WORK, deadline_s=7200), PLACES)
    verdicts = {each.place.name: each.verdict for each in urgent.options}

    assert verdicts["edge"] == "not possible: needs 592 J; the day leaves 20"
    assert verdicts["hpc"] == "not possible: one in ten takes over 4.0 h; due in 2"
    assert verdicts["cloud"].startswith("taken")


def test_nothing_is_chosen_where_nothing_fits() -> None:
    plan = place(replace(WORK, memory_bytes=1e12), PLACES)

    assert plan.chosen is None
    assert all(each.verdict.startswith("not possible: needs 1000.0 GB") for each in plan.options)


@given(seconds=st.floats(0.1, 1e5), deadline_s=st.floats(1, 1e6), left=st.floats(0, 1e5))
def test_what_is_chosen_keeps_the_deadline_and_nothing_possible_is_cheaper(
    seconds: float, deadline_s: float, left: float
) -> None:
    work = Work(seconds=seconds, memory_bytes=1e8, deadline_s=deadline_s, edge_joules_left=left)
    plan = place(work, PLACES)

    if plan.chosen is None:
        assert all(each.fault for each in plan.options)
    else:
        assert plan.chosen.late_finish_s <= deadline_s
        assert plan.chosen.usd == min(each.usd for each in plan.options if not each.fault)


def test_a_first_training_sets_the_level_for_the_next() -> None:
    model = TimeModel.fitted([(20, 3.0), (100, 5.0)])
    before = model.predict(600)
    model.learn(600, 21.0)

    assert before == pytest.approx(17.5)
    assert model.predict(600) == pytest.approx(21.0)


def test_a_time_model_needs_runs_of_two_lengths() -> None:
    with pytest.raises(StewardError, match="two lengths"):
        TimeModel.fitted([(20, 3.0), (20, 3.1)])


def test_all_faults_of_a_field_file_are_in_one_message(tmp_path: Path) -> None:
    file = tmp_path / "field.yaml"
    text = FIELD.read_text(encoding="utf-8")
    file.write_text(text.replace("busy_watts: 3.7", "busy_wats: -1").replace("[0, 0]", "[0]"))

    with pytest.raises(StewardError) as fault:
        read_facts(file)

    assert "`device.busy_wats` is not known" in str(fault.value)
    assert "`device.busy_watts` is missing" in str(fault.value)
    assert "`places[0].wait_s` is not a list of two numbers" in str(fault.value)


@pytest.mark.parametrize("text", ["", "[", "- 1", "device: 3\nplaces: 4"])
def test_a_field_file_that_is_none_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "field.yaml"
    file.write_text(text)

    with pytest.raises(StewardError):
        read_facts(file)


def test_f1_counts_all_classes_alike() -> None:
    truth = np.array(["hare"] * 98 + ["fox"] * 2)

    assert macro_f1(truth, truth) == 1.0
    assert macro_f1(truth, np.array(["hare"] * 100)) == pytest.approx(0.495, abs=0.001)
    assert macro_f1(truth[:0], truth[:0]) == 0.0
