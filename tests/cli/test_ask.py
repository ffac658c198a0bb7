"""`steward ask` over a store whose steward rests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from questions.sites import LENT, site
from told import steward


@pytest.fixture
def store(tmp_path: Path) -> Path:
    site(tmp_path)
    return tmp_path


def test_an_answer_is_printed_with_its_sources(store: Path) -> None:
    done = steward("ask", "how", "much", "did", "you", "save?", "--data", store)

    assert done.code == 0
    assert "2 GPU-hours were saved so far" in done.out
    assert "[1] steward://savings?" in done.out


def test_as_json_it_has_answer_facts_and_abstained(store: Path) -> None:
    done = steward("ask", f"explain {LENT}", "--data", store, "--json")

    answer = json.loads(done.out)
    assert answer["abstained"] is False
    assert all({"value", "source"} <= set(fact) for fact in answer["facts"])
    assert LENT in answer["answer"]


def test_what_is_not_known_exits_one(store: Path) -> None:
    done = steward("ask", "how busy is the cluster?", "--data", store)

    assert done.code == 1
    assert "No steward runs here now" in done.out


def test_without_a_store_it_says_so(tmp_path: Path) -> None:
    done = steward("ask", "how busy is the cluster?", "--data", tmp_path / "none")

    assert done.code == 2
    assert "there is no journal here yet" in done.err
