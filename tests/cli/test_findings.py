"""`steward findings`: what was noticed, and a person's word on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from factories import finding
from steward.model.finding import Opinion
from steward.store.journal import open_journal
from told import steward


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    journal = open_journal(f"sqlite:///{tmp_path / 'journal.sqlite3'}")
    journal.append([finding()])
    journal.close()
    return tmp_path


@pytest.mark.parametrize(("word", "done"), [("confirm", "confirmed"), ("dismiss", "dismissed")])
def test_a_finding_is_confirmed_or_dismissed(folder: Path, word: str, done: str) -> None:
    answer = steward("findings", word, "f-j1", "--note", "as planned", "--data", folder)

    assert answer.code == 0
    assert f"{done} f-j1 of rule gpu-idle-while-allocated" in answer.out
    journal = open_journal(f"sqlite:///{folder / 'journal.sqlite3'}")
    (entry,) = journal.read(kinds=("opinion",))
    journal.close()
    assert isinstance(entry.value, Opinion)
    assert (entry.value.opinion, entry.value.note) == (word, "as planned")


def test_an_opinion_can_be_json(folder: Path) -> None:
    answer = steward("findings", "confirm", "f-j1", "--data", folder, "--json")

    assert answer.json["opinion"] == "confirm"


def test_an_id_that_nobody_has_is_told_with_the_nearest(folder: Path) -> None:
    answer = steward("findings", "confirm", "f-j2", "--data", folder)

    assert answer.code == 2
    assert "there is no finding 'f-j2'" in answer.err
    assert "did you mean 'f-j1'?" in answer.err


def test_findings_are_listed(folder: Path) -> None:
    answer = steward("findings", "list", "--data", folder)

    assert "f-j1" in answer.out
